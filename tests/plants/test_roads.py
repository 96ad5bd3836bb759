"""Roads against ISO 8608, the frequency weighting against ISO 2631-1."""

import numpy as np
import pytest
from scipy.signal import welch

from sb3_span.plants.roads import CLASSES, make_road, road_psd, severity
from sb3_span.plants.vibration import wk_gain


@pytest.mark.parametrize("road_class, speed", [("A", 30.0), ("C", 20.0), ("E", 10.0)])
def test_density_is_the_standards(road_class, speed):
    """Of many roads, at the standard's octaves, within the error of the estimate."""
    step, rng = speed * 1e-3, np.random.default_rng(0)
    n = round(400 / step)
    densities = []
    for _ in range(30):
        heights = make_road(road_class, speed, 1e-3, n, rng)
        frequencies, density = welch(heights, 1 / step, nperseg=n // 2, detrend="linear")
        densities.append(density)
    mean = np.mean(densities, axis=0)
    for low in (0.0221, 0.0442, 0.0884, 0.1768, 0.3536, 0.7071, 1.4142):  # octaves
        inside = (frequencies >= low) & (frequencies < 2 * low)
        expected = CLASSES[road_class] * (0.1**2) * (1 / low - 1 / (2 * low)) / low  # the mean of n^-2 over the octave
        assert mean[inside].mean() == pytest.approx(expected, rel=0.15)
    assert mean[frequencies > 3.5].max() < 1e-2 * road_psd(road_class, np.array([2.5]))[0]


def test_classes_are_four_times_as_rough_as_the_one_before():
    values = list(CLASSES.values())
    assert values[0] == 16e-6
    np.testing.assert_allclose(np.divide(values[1:], values[:-1]), 4.0)
    assert severity("C", 20.0) == 1.0
    assert severity("D", 10.0) == pytest.approx(2.0)


def test_a_road_is_its_seeds():
    roads = [make_road("B", 20.0, 1e-3, 1000, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(roads[0], roads[1])
    assert np.abs(roads[0] - roads[2]).max() > 1e-3
    assert roads[0][0] == 0.0 and len(roads[0]) == 1001


def test_the_bump():
    heights = make_road("bump", 10.0, 1e-3, 3000, np.random.default_rng(0))
    assert heights.max() == pytest.approx(0.06)
    assert np.argmax(heights) == 1750  # after 1.5 s, five metres long
    assert np.all(heights[:1501] == 0) and np.all(heights[2001:] == 0)


def test_unknown_road():
    with pytest.raises(ValueError, match="road is 'F'; it must be one of A, B, C, D, E, bump"):
        make_road("F", 20.0, 1e-3, 10, np.random.default_rng(0))


def test_wk_is_the_standards():
    """ISO 2631-1, table 3: the weight of third-octave bands by their nominal frequencies in Hz."""
    table = {
        0.1: 0.0312, 0.16: 0.0790, 0.25: 0.182, 0.315: 0.263, 0.4: 0.352, 0.5: 0.418, 0.63: 0.459, 0.8: 0.477, 1: 0.482,
        1.25: 0.484, 1.6: 0.494, 2: 0.531, 2.5: 0.631, 3.15: 0.804, 4: 0.967, 5: 1.039, 6.3: 1.054, 8: 1.036, 10: 0.988,
        12.5: 0.902, 16: 0.768, 20: 0.636, 25: 0.513, 31.5: 0.405, 40: 0.314, 50: 0.246, 63: 0.186, 80: 0.132, 100: 0.0887,
        125: 0.0540, 200: 0.0152,
    }  # fmt: skip
    np.testing.assert_allclose(wk_gain(np.array(list(table))), list(table.values()), rtol=0.005)
