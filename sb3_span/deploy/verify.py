"""Whether an export acts as ``predict`` does, over 10,000 observations."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch as th
from gymnasium import spaces

from sb3_span.deploy.observations import LARGE
from sb3_span.deploy.policy import DeterministicPolicy, Observation, as_tensors

TOLERANCE = 1e-5
ROUNDINGS = 10


@dataclass(frozen=True)
class Verification:
    """
    :param observations: How many were compared
    :param recorded: How many of them came from the environment
    :param differing: Number of discrete actions that differ; 0 for continuous actions
    :param largest: Continuous actions: the largest difference, relative to the action's range. Discrete actions: how far
        apart the two best scores are, at most, where the actions differ; relative to the best where that is above 1
    """

    observations: int
    recorded: int
    differing: int
    largest: float
    discrete: bool

    def __str__(self) -> str:
        compared = f"{self.observations:,} observations, {self.recorded:,} of them recorded from the environment"
        if not self.discrete:
            return f"{compared}: the largest difference to predict is {self.largest:.1e} of the action's range"
        if not self.differing:
            return f"{compared}: the same actions as predict"
        where = f"where the two best scores are at most {self.largest:.1e} apart"
        return f"{compared}: the same actions as predict, but for {self.differing:,}, {where}"


def verify(
    policy: DeterministicPolicy,
    act: Callable[[Observation], np.ndarray],
    observations: tuple[list[Observation], int],
    what: str,
    tolerance: float = TOLERANCE,
) -> Verification:
    """
    :param policy: The policy as it was exported
    :param act: The export: a batch of observations to their actions
    :param observations: From ``make_observations``
    :param what: The export's name in the error, if it differs
    :param tolerance: How large ``Verification.largest`` may be
    """
    batches, recorded = observations
    discrete = not isinstance(policy.action_space, spaces.Box)
    compare = _compare_discrete if discrete else _compare_continuous
    largest, differing = 0.0, 0
    for batch in batches:
        difference, count = compare(policy, batch, policy.predict(batch), act(batch))
        # numpy's maximum keeps a NaN, Python's max may lose it
        largest, differing = float(np.maximum(largest, difference)), differing + count
    verification = Verification(sum(map(_length, batches)), recorded, differing, largest, discrete)
    if not largest <= tolerance:  # nor is a NaN
        # If single precision is not enough for predict itself, an export, which sums in another order, cannot be closer.
        tolerance = max(tolerance, ROUNDINGS * _rounding(policy, batches, compare))
    if not largest <= tolerance:
        raise ValueError(
            f"{what} does not act as predict does, so nothing was written. {verification}; {tolerance:.1g} is allowed. Very "
            "large weights or observations that are not normalised exceed single precision; otherwise please report it."
        )
    return verification


def _rounding(policy: DeterministicPolicy, batches: list[Observation], compare: Callable[..., tuple[float, int]]) -> float:
    """How far ``predict`` is from the same network in double precision."""
    exact = policy.in_double_precision()
    return max(compare(policy, batch, policy.predict(batch), exact(batch))[0] for batch in batches)


def _length(batch: Observation) -> int:
    return len(next(iter(batch.values())) if isinstance(batch, dict) else batch)


def _compare_continuous(
    policy: DeterministicPolicy, batch: Observation, expected: np.ndarray, actual: np.ndarray
) -> tuple[float, int]:
    space = policy.action_space
    assert isinstance(space, spaces.Box)
    width = space.high.astype(np.float64) - space.low
    # Without bounds, or with equal ones, the difference is relative to the action itself.
    scale = np.where((width > 0) & (width < LARGE), width, np.maximum(1.0, np.abs(expected)))
    return float((np.abs(actual.reshape(expected.shape).astype(np.float64) - expected) / scale).max()), 0


def _compare_discrete(
    policy: DeterministicPolicy, batch: Observation, expected: np.ndarray, actual: np.ndarray
) -> tuple[float, int]:
    n = len(expected)
    differs = actual.reshape(n, -1) != expected.reshape(n, -1)  # (B, parts)
    if not differs.any():
        return 0.0, 0
    with th.no_grad():
        scores = policy(as_tensors(batch))[1].numpy().astype(np.float64)
    gaps = _gaps(scores, policy.action_space)
    return float(gaps[differs].max()), int(differs.sum())


def _gaps(scores: np.ndarray, space: spaces.Space) -> np.ndarray:
    """
    :param scores: Shape (B, ...)
    :return: How far apart the two best scores of each part of the action are, shape (B, parts)
    """
    if isinstance(space, spaces.MultiBinary):
        return np.abs(scores)
    choices = [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec.ravel()]  # type: ignore[attr-defined]
    gaps = []
    for part in np.split(scores, np.cumsum(choices)[:-1], axis=1):
        if part.shape[1] == 1:  # no choice
            gaps.append(np.full(len(part), np.inf))
            continue
        second, best = np.sort(part, axis=1)[:, -2:].T
        gaps.append((best - second) / np.maximum(1.0, np.abs(best)))
    return np.stack(gaps, axis=1)
