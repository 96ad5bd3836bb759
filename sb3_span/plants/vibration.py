"""How much a vertical vibration disturbs a seated person: the frequency weighting Wk of ISO 2631-1."""

import numpy as np

BUTTERWORTH = 1.0 / np.sqrt(2.0)


def wk_filter() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Wk as the standard defines it, in four parts of second order: two band limits, at 0.4 and 100 Hz; the transition from
    acceleration to velocity at 12.5 Hz; the upward step from 2.37 to 3.35 Hz.

    :return: x' = A x + B a and weighted acceleration = C x, for the acceleration a: shapes (8, 8), (8,), (8,)
    """
    step, q_step = 2.37 / 3.35, 0.91
    parts = [
        _part(0.4, BUTTERWORTH, (0.0, 0.0, 1.0)),
        _part(100.0, BUTTERWORTH, (1.0, 0.0, 0.0)),
        _part(12.5, 0.63, (1.0, 1.0, 0.0)),
        _part(3.35, q_step, (step**2, step / q_step, 1.0)),
    ]
    a, b, c, d = np.zeros((0, 0)), np.zeros(0), np.zeros(0), 1.0
    for part_a, part_b, part_c, part_d in parts:  # in series: the input of each is the output of those before
        n = len(b)
        a = np.block([[a, np.zeros((n, 2))], [np.outer(part_b, c), part_a]])
        b = np.concatenate([b, part_b * d])
        c, d = np.concatenate([part_d * c, part_c]), part_d * d
    assert d == 0.0  # the acceleration does not get through at once
    return a, b, c


def wk_gain(frequencies: np.ndarray) -> np.ndarray:
    """
    :param frequencies: In Hz, shape (B,)
    :return: The factor by which Wk weights each, shape (B,)
    """
    a, b, c = wk_filter()
    return np.abs([c @ np.linalg.solve(2j * np.pi * f * np.eye(len(a)) - a, b) for f in np.atleast_1d(frequencies)])


def _part(
    frequency: float, q: float, numerator: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """
    ``(n0 + n1 s + n2 s^2) / (1 + s / q + s^2)``, where s is relative to the frequency.

    :return: A, B, C and D of its two states, which have the size of the input
    """
    omega = 2.0 * np.pi * frequency
    n0, n1, n2 = numerator
    a = omega * np.array([[0.0, 1.0], [-1.0, -1.0 / q]])
    return a, np.array([0.0, omega]), np.array([n0 - n2, n1 - n2 / q]), n2
