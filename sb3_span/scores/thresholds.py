"""When a run has reached a score: the paper's thresholds and its sustained criterion."""

from collections.abc import Sequence

PERCENTS = (25, 50, 75, 95, 100)
SUSTAINED_EVALUATIONS = 5


def threshold_score(expert: float, percent: int) -> float:
    """
    The score at a percentage of the expert's. Of a negative score, half is twice as negative: -200 for an expert's -100.

    :param expert: The expert's score
    :param percent: Above 0, up to 100
    """
    return expert * percent / 100 if expert > 0 else expert * 100 / percent


def sustained_at(means: Sequence[float], threshold: float) -> int | None:
    """
    The evaluation at which a score was reached: the last of five consecutive ones at or above it.

    :param means: Mean return of each evaluation, in order
    :param threshold: The score to meet
    :return: The index of the fifth evaluation of the first such five, None if there are none
    """
    in_a_row = 0
    for i, mean in enumerate(means):
        in_a_row = in_a_row + 1 if mean >= threshold else 0
        if in_a_row == SUSTAINED_EVALUATIONS:
            return i
    return None


def steps_to_threshold(steps: Sequence[int], means: Sequence[float], threshold: float) -> int | None:
    """
    The step at which a score was reached, see :func:`sustained_at`.

    :param steps: Training steps of the evaluations, in order
    :param means: Mean return of each evaluation
    :param threshold: The score to meet
    :return: The step of the fifth evaluation of the first five in a row, None when there are none
    """
    if len(steps) != len(means):
        raise ValueError(f"There are {len(steps)} steps and {len(means)} means; each evaluation needs both.")
    met = sustained_at(means, threshold)
    return None if met is None else steps[met]
