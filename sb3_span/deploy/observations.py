"""Observations to check an export with: what the environment shows, and what it might."""

from collections.abc import Iterator

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose

from sb3_span.deploy.policy import DeterministicPolicy, Normalization, Observation

TOTAL = 10_000
RECORDED = TOTAL // 2
BATCH = 1_000
# Where a space has no bounds. A bound this large is none: it only says what a float can hold.
UNBOUNDED, LARGE = 10.0, 1e30


def make_observations(policy: DeterministicPolicy, env: gym.Env | None, seed: int = 0) -> tuple[list[Observation], int]:
    """
    :param policy: Whose observations
    :param env: The environment to record half of them from; None for random ones only
    :param seed: The same seed gives the same observations
    :return: Batches of observations, and how many of them are recorded
    """
    rng = np.random.default_rng(seed)
    recorded = [] if env is None else list(_record(policy, env, rng))
    n_recorded = BATCH * len(recorded)
    drawn = [_draw(policy, BATCH, rng) for _ in range((TOTAL - n_recorded) // BATCH)]
    drawn[0] = _with_ends(policy, drawn[0])
    return recorded + drawn, n_recorded


def float32(observation: Observation) -> Observation:
    """What an export is given: floats in single precision, everything else as it is."""
    if isinstance(observation, dict):
        return {key: float32(value) for key, value in observation.items()}  # type: ignore[misc]
    return observation.astype(np.float32) if observation.dtype.kind == "f" else observation


def _record(policy: DeterministicPolicy, env: gym.Env, rng: np.random.Generator) -> Iterator[Observation]:
    """Batches from episodes in which the policy acts, and every other step's action is random in every other episode."""
    env.action_space.seed(int(rng.integers(2**31)))
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    wanders = False
    for _ in range(RECORDED // BATCH):
        batch = []
        for _ in range(BATCH):
            shown = _as_seen(observation, policy.observation_space)
            batch.append(shown)
            action = policy.predict(_stack([shown]))[0]
            if wanders and rng.random() < 0.5:
                action = env.action_space.sample()
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                observation, _ = env.reset()
                wanders = not wanders
        yield float32(_stack(batch))


def _as_seen(observation: Observation, space: spaces.Space) -> Observation:
    """Images channel first, as VecTransposeImage gives them to the policy."""
    if isinstance(space, spaces.Dict):
        return {key: _as_seen(observation[key], part) for key, part in space.spaces.items()}  # type: ignore[misc]
    return maybe_transpose(np.asarray(observation), space) if is_image_space(space) else np.asarray(observation)


def _stack(observations: list[Observation]) -> Observation:
    first = observations[0]
    if isinstance(first, dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in first}
    return np.stack(observations)  # type: ignore[arg-type]


def _draw(policy: DeterministicPolicy, n: int, rng: np.random.Generator) -> Observation:
    space = policy.observation_space
    if isinstance(space, spaces.Dict):
        return {key: _draw_part(part, policy.normalization.get(key), n, rng) for key, part in space.spaces.items()}
    return _draw_part(space, policy.normalization.get(""), n, rng)


def _draw_part(space: spaces.Space, normalization: Normalization | None, n: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=n)
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(space.nvec, size=(n, *space.shape))
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(2, size=(n, *space.shape)).astype(np.int8)
    assert isinstance(space, spaces.Box)
    low, high = _bounds(space, normalization)
    if space.dtype.kind in "iu":
        return rng.integers(low, high, size=(n, *space.shape), endpoint=True).astype(space.dtype)
    drawn = rng.uniform(low, high, size=(n, *space.shape))
    # A fifth of all numbers at one of the ends, where things go wrong.
    at = rng.random(drawn.shape)
    return np.where(at < 0.1, low, np.where(at > 0.9, high, drawn)).astype(np.float32)


def _with_ends(policy: DeterministicPolicy, batch: Observation) -> Observation:
    """The first two observations become those with everything at the lower and at the upper end."""
    space = policy.observation_space
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}
    for key, part in parts.items():
        values = batch[key] if isinstance(batch, dict) else batch
        if isinstance(part, spaces.Box):
            values[0], values[1] = _bounds(part, policy.normalization.get(key))
        else:
            values[0], values[1] = 0, values.max(axis=0)
    return batch


def _bounds(space: spaces.Box, normalization: Normalization | None) -> tuple[np.ndarray, np.ndarray]:
    """The space's bounds; where there are none +-10, or what normalisation just begins to clip."""
    if normalization is None:
        low, high = -UNBOUNDED * np.ones(space.shape), UNBOUNDED * np.ones(space.shape)
    else:
        reach = 1.1 * normalization.clip * normalization.std
        low, high = normalization.mean - reach, normalization.mean + reach
    has_low, has_high = space.low > -LARGE, space.high < LARGE
    # With one bound only, the other end is as far from it as without.
    width = high - low
    low = np.where(has_low, space.low, np.where(has_high, space.high - width, low))
    high = np.where(has_high, space.high, np.where(has_low, space.low + width, high))
    return low, high
