"""What a claim is, and how it is judged. The rules were written before the page was built for the first time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from sb3_span.report.statistics import MIN_SEEDS, SIGNIFICANCE

if TYPE_CHECKING:
    from claims.records import Records

HOLDS, FAILS, NOISE = "holds", "does not hold", "inside the noise"
FEW, NOT_RUN, UNTESTABLE = "too few seeds", "not run yet", "cannot be tested here"
VERDICTS = (HOLDS, FAILS, NOISE, FEW, NOT_RUN, UNTESTABLE)
RESAMPLES = 5000

RULES = [
    f"No verdict on fewer than {MIN_SEEDS} seeds of either network: **{FEW}**.",
    "A claim about the end of training is judged at the paper's number of steps. Where ours is smaller, our number stands "
    f"beside the paper's and the verdict is **{NOT_RUN}**, unless every run has reached the threshold already.",
    f"A comparison is judged by its direction: **{HOLDS}** with p < {SIGNIFICANCE} in the paper's direction, **{FAILS}** with "
    f"p < {SIGNIFICANCE} in the other, else **{NOISE}**. p is two-sided and not corrected: of twenty comparisons without any "
    "difference one has p < 0.05 by chance.",
    "Returns and scores: Welch's t. Shares of runs: Fisher's exact test. Spread: Levene's test around the median. Ablations: "
    "Mann and Whitney's U of the two values that the paper names. Interquartile means: 95 % intervals that do not overlap.",
    "Steps to a threshold: Mann and Whitney's U of the steps of all runs, one that never gets there being later than any. "
    f"With a smaller budget than the paper's and runs still on their way, **{NOT_RUN}** takes the place of **{NOISE}**. With "
    "the paper's, where the network that is first in the paper arrives in fewer runs than there (Fisher) and is not ahead: "
    f"**{FAILS}**.",
    f"Where the paper sees no difference: **{FAILS}** with p < {SIGNIFICANCE}, whoever is ahead; else **{HOLDS}** with as "
    f"many seeds as the paper's or more, **{NOISE}** with fewer. Where neither gets there: **{FAILS}** if any run of ours "
    "does.",
    f"A size, such as 40 % fewer steps: **{FAILS}** where the 95 % interval of a bootstrap over seeds ends below it; else "
    f"**{HOLDS}** where the interval excludes no difference, else **{NOISE}**. A run that never arrives counts in medians as "
    f"later than any. Costs: **{HOLDS}** where the interval is above 1.",
    f"A flat ablation: **{HOLDS}** where the medians of all values are within 5 % of the way from a random policy to the "
    f"expert; else **{FAILS}** where Kruskal and Wallis's p < {SIGNIFICANCE}, else **{NOISE}**.",
    "The time of a step: quartiles of the ratio over rounds, both above 1, both below, or neither. Splines beside "
    "Kolmogorov-Arnold networks: less than half of their time, by quartiles. Numbers of parameters: equal. Negligible: up to "
    "5 %. Memory: within a tenth.",
    f"A claim about many rows: **{FAILS}** where one row does not hold, **{HOLDS}** where all do; else what keeps it open, "
    f"**{NOT_RUN}** before **{FEW}** before **{NOISE}**.",
]


@dataclass(frozen=True)
class Finding:
    """
    Our side of a claim.

    :param ours: Our number
    :param detail: What the verdict rests on, such as a p-value
    :param basis: Seeds and steps
    :param command: What made the number, or would make it
    """

    ours: str
    detail: str
    basis: str
    verdict: str
    command: str


@dataclass(frozen=True)
class Claim:
    """
    :param topic: The heading that it stands under
    :param text: What the paper claims, in our words
    :param paper: The paper's number
    :param measure: Our side of it
    """

    topic: str
    text: str
    paper: str
    measure: "Callable[[Records], Finding]"


class NotRun(Exception):
    """
    The repository has no record for a claim.

    :param basis: Seeds and steps that there are
    :param command: What would make one
    """

    def __init__(self, basis: str, command: str) -> None:
        super().__init__(command)
        self.basis, self.command = basis, command


def judge(claim: Claim, records: "Records") -> Finding:
    try:
        return claim.measure(records)
    except NotRun as missing:
        return Finding("", "", missing.basis, NOT_RUN, missing.command)


def by_test(seeds: int, p: float, difference: float) -> str:
    """
    :param seeds: Of the method with fewer
    :param difference: Positive in the paper's direction
    """
    if seeds < MIN_SEEDS:
        return FEW
    if not p < SIGNIFICANCE or difference == 0:
        return NOISE
    return HOLDS if difference > 0 else FAILS


def no_difference(seeds: int, paper_seeds: int, p: float) -> str:
    if seeds < MIN_SEEDS:
        return FEW
    if p < SIGNIFICANCE:
        return FAILS
    return HOLDS if seeds >= paper_seeds else NOISE


def reaches(seeds: int, low: float, high: float, size: float, none: float) -> str:
    """
    :param low: The lower end of the interval of our number
    :param size: The paper's number
    :param none: What the number is where there is no difference
    """
    if seeds < MIN_SEEDS:
        return FEW
    if high < size:
        return FAILS
    return HOLDS if low > none else NOISE


def all_of(verdicts: Iterable[str]) -> str:
    """The verdict on all rows together: the most telling of theirs."""
    found = set(verdicts)
    return next(verdict for verdict in (FAILS, UNTESTABLE, NOT_RUN, FEW, NOISE, HOLDS) if verdict in found)


def fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """
    :param first: How many runs of how many
    :return: p of a difference between the two shares
    """
    table = [[met, n - met] for met, n in (first, second)]
    return float(stats.fisher_exact(table).pvalue)


def rank_test(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """
    :return: p, and by how much the first is larger in more than half of all pairs, from -1 to 1. Infinities are ties
    """
    result = stats.mannwhitneyu(*(np.nan_to_num(values, posinf=np.finfo(float).max) for values in (first, second)))
    return float(result.pvalue), float(2 * result.statistic / (len(first) * len(second)) - 1)


def bootstrap(statistic: Callable[..., np.ndarray], *samples: np.ndarray) -> tuple[float, float, float]:
    """
    :param statistic: Of samples of shape (..., seeds), shape (...)
    :param samples: Of several groups of seeds, which are drawn independently of one another
    :return: The statistic, and the ends of its 95 % interval
    """
    rng = np.random.default_rng(0)
    drawn = [sample[rng.integers(len(sample), size=(RESAMPLES, len(sample)))] for sample in samples]
    # An interpolation between infinities is no number.
    low, high = np.quantile(statistic(*drawn), [0.025, 0.975], method="nearest")
    return float(statistic(*samples)), float(low), float(high)
