"""The sustained criterion, on curves made by hand."""

import pytest

from sb3_span.report import steps_to_threshold
from sb3_span.scores.thresholds import PERCENTS, threshold_score


@pytest.mark.parametrize(
    "means, expected",
    [
        pytest.param([10] * 5, 5, id="from the start"),
        pytest.param([0, 10, 10, 10, 10, 10, 10], 6, id="the fifth counts, not the first or the last"),
        pytest.param([10, 10, 10, 10, 9, 10, 10, 10, 10, 10], 10, id="broken once, counted again"),
        pytest.param([10, 10, 10, 10, 10, 0, 0], 5, id="reached, then lost"),
        pytest.param([10, 10, 10, 10], None, id="too few"),
        pytest.param([9.99] * 20, None, id="never"),
        pytest.param([10, 10, float("nan"), 10, 10, 10], None, id="a NaN is not a score"),
        pytest.param([], None, id="no evaluation yet"),
    ],
)
def test_sustained(means, expected):
    steps = list(range(1, len(means) + 1))
    assert steps_to_threshold(steps, means, 10) == expected


def test_negative_scores():
    assert steps_to_threshold([1, 2, 3, 4, 5, 6], [-300, -99, -100, -90, -80, -100], -100) == 6


def test_lengths_must_agree():
    with pytest.raises(ValueError):
        steps_to_threshold([1, 2], [1.0], 0)


@pytest.mark.parametrize(
    "expert, expected",
    [
        pytest.param(500, [125, 250, 375, 475, 500], id="a share of a positive score"),
        pytest.param(-100, [-400, -200, -133.3, -105.3, -100], id="a negative score divided by the share"),
    ],
)
def test_threshold_scores(expert, expected):
    assert [round(threshold_score(expert, percent), 1) for percent in PERCENTS] == expected
