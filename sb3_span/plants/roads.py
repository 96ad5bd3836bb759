"""Roads: random profiles of ISO 8608's classes, and a bump."""

import numpy as np

# Power spectral density of the height at 0.1 cycles per metre, in m^3: the geometric means of the standard's classes.
CLASSES = {"A": 16e-6, "B": 64e-6, "C": 256e-6, "D": 1024e-6, "E": 4096e-6}
REFERENCE = 0.1
# The standard's range of spatial frequencies, in cycles per metre.
LOWEST, HIGHEST = 0.011, 2.83
SHORTEST = 4.0 / LOWEST  # metres of a profile: several of the longest waves

BUMP = "bump"
# Height and length in metres, seconds until it comes.
BUMP_HEIGHT, BUMP_LENGTH, BUMP_TIME = 0.06, 5.0, 1.5
ROADS = (*CLASSES, BUMP)

REFERENCE_SPEED = 20.0


def road_psd(road_class: str, frequencies: np.ndarray) -> np.ndarray:
    """
    :param road_class: "A" to "E"
    :param frequencies: In cycles per metre, shape (B,)
    :return: ISO 8608's power spectral density of the height in m^3, 0 outside its range of frequencies, shape (B,)
    """
    inside = (frequencies >= LOWEST) & (frequencies <= HIGHEST)
    return np.where(inside, CLASSES[road_class] * (np.where(inside, frequencies, 1.0) / REFERENCE) ** -2.0, 0.0)


def make_road(road: str, speed: float, time_step: float, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """
    The height under the wheel, from 0 on.

    A random road is a sum of waves with normally distributed amplitudes of the standard's density.

    :param road: "A" to "E", or "bump": a raised cosine, 6 cm high and 5 m long, after 1.5 s
    :param speed: In m/s
    :param time_step: In seconds
    :param n_steps: Number of steps
    :param rng: Draws the amplitudes
    :return: Heights in metres, shape (n_steps + 1,)
    """
    check_road(road)
    step = speed * time_step
    if road == BUMP:
        distance = step * np.arange(n_steps + 1) - BUMP_TIME * speed
        on_bump = (distance > 0) & (distance < BUMP_LENGTH)
        return np.where(on_bump, BUMP_HEIGHT / 2 * (1 - np.cos(2 * np.pi * distance / BUMP_LENGTH)), 0.0)
    n = 2 ** int(np.ceil(np.log2(max(n_steps + 1, SHORTEST / step))))
    frequencies = np.fft.rfftfreq(n, step)
    # A one-sided density S over bins of width df: each wave has the variance S df.
    deviations = np.sqrt(road_psd(road, frequencies) * frequencies[1] / 2)
    amplitudes = deviations * (rng.standard_normal(len(frequencies)) + 1j * rng.standard_normal(len(frequencies)))
    heights = np.fft.irfft(amplitudes * n / np.sqrt(2), n)[: n_steps + 1]
    return heights - heights[0]


def severity(road: str, speed: float) -> float:
    """How strongly a road shakes a car, as a variance: relative to class C at 20 m/s; 1 for the bump."""
    return 1.0 if road == BUMP else CLASSES[road] / CLASSES["C"] * speed / REFERENCE_SPEED


def check_road(road: str) -> None:
    if road not in ROADS:
        raise ValueError(f"road is {road!r}; it must be one of {', '.join(ROADS)}: ISO 8608's classes, or a bump.")
