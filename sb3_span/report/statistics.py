"""Comparison of two methods by their final scores, with its certainty."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from rliable import library
from scipy import stats

MIN_SEEDS = 5
SIGNIFICANCE = 0.05
IQM_RESAMPLES = 5000
PROFILE_RESAMPLES = 2000
TAUS = np.linspace(-0.2, 1.2, 141)


@dataclass(frozen=True)
class Comparison:
    """
    :param t: Welch's t, positive when the first is higher
    :param p: Two-sided
    :param d: Cohen's d with the pooled standard deviation
    """

    t: float
    p: float
    d: float


def compare(first: np.ndarray, second: np.ndarray) -> Comparison:
    """
    :param first: Final returns of one method's seeds, shape (seeds,)
    :param second: Those of the other; the number of seeds may differ
    """
    if min(len(first), len(second)) < 2:
        return Comparison(math.nan, math.nan, math.nan)
    return compare_moments(_moments(first), _moments(second))


def _moments(returns: np.ndarray) -> tuple[float, float, int]:
    if np.ptp(returns) == 0:  # equal numbers: rounding would give them another mean and a spread
        return float(returns[0]), 0.0, len(returns)
    return returns.mean(), returns.std(ddof=1), len(returns)


def compare_moments(first: tuple[float, float, int], second: tuple[float, float, int]) -> Comparison:
    """
    Welch's t-test and Cohen's d.

    :param first: Mean, standard deviation (of the sample) and number of seeds
    :param second: The same for the other method
    """
    (mean_1, std_1, n_1), (mean_2, std_2, n_2) = first, second
    difference = mean_1 - mean_2
    if std_1 == 0 and std_2 == 0:  # all seeds equal: no noise to compare the difference with
        limit = math.copysign(math.inf, difference) if difference else 0.0
        return Comparison(limit, 0.0 if difference else 1.0, limit)
    t, p = stats.ttest_ind_from_stats(mean_1, std_1, n_1, mean_2, std_2, n_2, equal_var=False)
    pooled = math.sqrt(((n_1 - 1) * std_1**2 + (n_2 - 1) * std_2**2) / (n_1 + n_2 - 2))
    return Comparison(float(t), float(p), difference / pooled)


def verdict(n_first: int, n_second: int, difference: float, certain: bool) -> str:
    """
    The verdict on the first of two methods: none with fewer than five seeds of either.

    :param difference: How much higher the first is
    :param certain: Whether the difference exceeds the noise
    """
    if min(n_first, n_second) < MIN_SEEDS:
        return "too few seeds"
    if not math.isfinite(difference):
        return "not a number"
    if not certain:
        return "inside the noise"
    return "better" if difference > 0 else "worse"


def iqm_interval(scores: np.ndarray) -> tuple[float, float, float]:
    """
    The interquartile mean, with the 95 % interval of a bootstrap that resamples the seeds of each environment.

    :param scores: Normalised, shape (seeds, environments)
    :return: The mean, and the interval's two ends; those of one seed are NaN
    """
    if not np.isfinite(scores).all():
        return math.nan, math.nan, math.nan
    point, low, high = _interval(_iqm, scores, IQM_RESAMPLES)
    return float(point[0]), float(low[0]), float(high[0])


def performance_profile(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    The share of runs that score at least tau, for every tau of ``TAUS``, with 95 % bootstrap intervals.

    rliable's own profile counts the runs above tau. Scores with a maximum need at or above: a perfect run of CartPole-v1 has
    exactly 1.

    :param scores: Normalised, shape (seeds, environments)
    :return: The share, and the interval's two ends, NaN with one seed, shape (len(TAUS),) each
    """
    return _interval(lambda sample: (sample[..., None] >= TAUS).mean(axis=(0, 1)), scores, PROFILE_RESAMPLES)


def _iqm(scores: np.ndarray) -> np.ndarray:
    """rliable's interquartile mean over all scores, in a tenth of the time."""
    cut = scores.size // 4
    return np.sort(scores, axis=None)[cut : scores.size - cut].mean(keepdims=True)


def _interval(
    statistic: Callable[[np.ndarray], np.ndarray], scores: np.ndarray, resamples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(scores) < 2:  # one seed, resampled, would have no spread
        point = statistic(scores)
        return point, np.full_like(point, np.nan), np.full_like(point, np.nan)
    with _seeded():
        points, intervals = library.get_interval_estimates({"scores": scores}, statistic, reps=resamples)
    return points["scores"], *intervals["scores"]


@contextmanager
def _seeded() -> Iterator[None]:
    """rliable draws from numpy's global generator and ignores its ``random_state``: seed that, and restore it afterwards."""
    state = np.random.get_state()
    np.random.seed(0)
    try:
        yield
    finally:
        np.random.set_state(state)
