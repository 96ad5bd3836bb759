"""Statistics against scipy, against the paper's own, and what may be said because of them."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sb3_span.report import statistics
from sb3_span.report.statistics import TAUS, compare, compare_moments, iqm_interval, performance_profile, verdict
from sb3_span.scores.references import paper


@pytest.mark.parametrize("shape", [(2, 1), (5, 1), (6, 1), (20, 1), (7, 3), (20, 7)])
def test_interquartile_mean_is_scipys_trimmed_mean(shape, monkeypatch):
    monkeypatch.setattr(statistics, "IQM_RESAMPLES", 200)
    scores = np.random.default_rng(0).normal(size=shape)
    point, low, high = iqm_interval(scores)
    assert point == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))
    assert low <= point <= high


def test_one_seed_has_no_interval():
    scores = np.array([[0.75, 1.0]])
    point, low, high = iqm_interval(scores)
    assert point == 0.875 and math.isnan(low) and math.isnan(high)
    share, low, high = performance_profile(scores)
    assert set(share) == {0, 0.5, 1} and np.isnan(low).all() and np.isnan(high).all()


def test_intervals_are_reproducible_and_leave_numpys_generator_alone():
    scores = np.random.default_rng(0).normal(size=(10, 2))
    np.random.seed(7)
    first = iqm_interval(scores)
    drawn = np.random.random()
    np.random.seed(8)
    assert iqm_interval(scores) == first
    np.random.seed(7)
    assert np.random.random() == drawn


def test_resampling_keeps_environments_apart():
    """Stratified: with equal scores within each environment, there is nothing to resample."""
    scores = np.tile([0.0, 1.0, 5.0, 9.0], (6, 1))
    assert iqm_interval(scores) == (3.0, 3.0, 3.0)


def test_profile_counts_runs_at_or_above():
    share, low, high = performance_profile(np.array([[0.0], [0.5], [1.0], [1.0]]))
    at = {round(tau, 2): value for tau, value in zip(TAUS, share, strict=True)}
    assert [at[-0.2], at[0.0], at[0.01], at[0.5], at[0.51], at[1.0], at[1.01]] == [1, 1, 0.75, 0.75, 0.5, 0.5, 0]
    assert np.all(low <= share) and np.all(share <= high)


def test_comparison_is_scipys():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 2, size=8), rng.normal(0, 1, size=6)
    result = compare(first, second)
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert (result.t, result.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    pooled = math.sqrt((7 * first.var(ddof=1) + 5 * second.var(ddof=1)) / 12)
    assert result.d == pytest.approx((first.mean() - second.mean()) / pooled)


@pytest.mark.parametrize(
    "first, second, t, p",
    [
        ([500.0] * 5, [500.0] * 5, 0, 1),
        ([500.0] * 5, [400.0] * 5, math.inf, 0),
        ([400.0] * 5, [500.0] * 5, -math.inf, 0),
        ([194.2688] * 5, [194.2688] * 7, 0, 1),  # which has no exact mean
    ],
)
def test_seeds_without_any_spread(first, second, t, p):
    """A task with a maximum is often solved perfectly by every seed."""
    result = compare(np.array(first), np.array(second))
    assert (result.t, result.p, result.d) == (t, p, t)


def test_one_seed_cannot_be_compared():
    result = compare(np.array([1.0]), np.array([2.0, 3.0]))
    assert math.isnan(result.t) and math.isnan(result.p) and math.isnan(result.d)


@pytest.mark.parametrize("row", list(paper("significance").itertuples()), ids=lambda row: row.env)
def test_the_papers_own_tests(row):
    """Its t, p and d follow from the means and deviations that it prints, as far as these are rounded."""
    moments = [row.span_mean, row.span_std, row.mlp_mean, row.mlp_std]
    results = []
    for signs in itertools.product((-0.5, 0, 0.5), repeat=4):
        span_mean, span_std, mlp_mean, mlp_std = np.add(moments, signs)
        results.append(compare_moments((span_mean, span_std, 20), (mlp_mean, mlp_std, 20)))
    assert min(result.t for result in results) - 5e-4 <= row.t <= max(result.t for result in results) + 5e-4
    assert min(result.d for result in results) - 5e-4 <= row.cohen_d <= max(result.d for result in results) + 5e-4
    p = [result.p for result in results]
    if row.p.startswith("<"):
        assert max(p) < float(row.p[1:])
    else:
        assert min(p) - 5e-4 <= float(row.p) <= max(p) + 5e-4


@pytest.mark.parametrize(
    "n_first, n_second, difference, certain, expected",
    [
        (5, 5, 1.0, True, "better"),
        (20, 5, -1.0, True, "worse"),
        (20, 20, 1.0, False, "inside the noise"),
        (4, 20, 1.0, True, "too few seeds"),
        (20, 4, -1.0, True, "too few seeds"),
        (0, 20, math.nan, False, "too few seeds"),
    ],
)
def test_nothing_is_called_better_on_fewer_than_five_seeds(n_first, n_second, difference, certain, expected):
    assert verdict(n_first, n_second, difference, certain) == expected
