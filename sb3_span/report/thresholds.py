"""When a run has reached a score: the paper's sustained criterion."""

from collections.abc import Sequence

SUSTAINED_EVALUATIONS = 5


def steps_to_threshold(steps: Sequence[int], means: Sequence[float], threshold: float) -> int | None:
    """
    The step at which a score was met for good measure: at the last of five consecutive evaluations at or above it.

    :param steps: Training steps of the evaluations, in order
    :param means: Mean return of each evaluation
    :param threshold: The score to meet
    :return: The step of the fifth evaluation of the first such five, None when there are none
    """
    in_a_row = 0
    for step, mean in zip(steps, means, strict=True):
        in_a_row = in_a_row + 1 if mean >= threshold else 0
        if in_a_row == SUSTAINED_EVALUATIONS:
            return step
    return None
