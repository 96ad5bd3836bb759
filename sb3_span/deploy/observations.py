"""Observations to check an export with: from the environment, and random ones."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose

from sb3_span.deploy.policy import DeterministicPolicy, Normalization, Observation
from sb3_span.saved import env_name
from sb3_span.saved.spaces import mismatch

TOTAL = 10_000
RECORDED = TOTAL // 2
BATCH = 1_000
ENVIRONMENTS = 10
# Where a space has no bounds. A bound this large is none, only the largest float.
UNBOUNDED, LARGE, LARGE_INTEGER = 10.0, 1e30, 1e9


class RecordingError(ValueError):
    """No observations can be recorded from an environment, and why."""


def make_observations(policy: DeterministicPolicy, env: EnvSpec | str | None, seed: int = 0) -> tuple[list[Observation], int]:
    """
    :param policy: The policy that observes
    :param env: The environment to record half of them from; None for random ones only
    :param seed: The same seed gives the same observations
    :return: Batches of observations, and how many of them are recorded
    """
    rng = np.random.default_rng(seed)
    recorded = [] if env is None else _record(policy, env, rng)
    n_recorded = BATCH * len(recorded)
    drawn = [_draw(policy, BATCH, rng) for _ in range((TOTAL - n_recorded) // BATCH)]
    drawn[0] = _with_ends(policy, drawn[0])
    return recorded + drawn, n_recorded


def float32(observation: Observation) -> Observation:
    """Inputs of an export: floats in single precision, everything else unchanged."""
    if isinstance(observation, dict):
        return {key: float32(value) for key, value in observation.items()}  # type: ignore[misc]
    return observation.astype(np.float32) if observation.dtype.kind == "f" else observation


def _record(policy: DeterministicPolicy, env: EnvSpec | str, rng: np.random.Generator) -> list[Observation]:
    name = env_name(env)
    with contextlib.ExitStack() as stack:
        try:
            envs = [stack.enter_context(contextlib.closing(gym.make(env))) for _ in range(ENVIRONMENTS)]
        except Exception as error:  # a user's environment may raise anything
            unknown = isinstance(error, gym.error.UnregisteredEnv)
            advice = " If your module registers it, write module:id." if unknown else ""
            raise RecordingError(f"{name} cannot be made here: {error}{advice}") from error
        if problem := mismatch(policy, envs[0], name):
            raise RecordingError(f"{problem} Training must have used a wrapper or an option.")
        try:
            return list(_play(policy, envs, rng))
        except Exception as error:
            raise RecordingError(f"{name} ended with an error, {type(error).__name__}: {error}") from error


def _play(policy: DeterministicPolicy, envs: list[gym.Env], rng: np.random.Generator) -> Iterator[Observation]:
    """Batches from episodes in which the policy acts; every other environment gets a random action every other time."""
    seen = []
    for env in envs:
        env.action_space.seed(int(rng.integers(2**31)))
        seen.append(_as_seen(env.reset(seed=int(rng.integers(2**31)))[0], policy.observation_space))
    for _ in range(RECORDED // BATCH):
        steps = []
        for _ in range(BATCH // len(envs)):
            steps.append(_join(seen, np.stack))
            actions = policy.predict(steps[-1])
            for i, env in enumerate(envs):
                action = env.action_space.sample() if i % 2 and rng.random() < 0.5 else actions[i]
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    observation, _ = env.reset()
                seen[i] = _as_seen(observation, policy.observation_space)
        yield float32(_join(steps, np.concatenate))


def _as_seen(observation: Observation, space: spaces.Space) -> Observation:
    """Images channel first, as VecTransposeImage passes them to the policy."""
    if isinstance(space, spaces.Dict):
        return {key: _as_seen(observation[key], part) for key, part in space.spaces.items()}  # type: ignore[misc]
    return maybe_transpose(np.asarray(observation), space) if is_image_space(space) else np.asarray(observation)


def _join(observations: list[Observation], how: Callable[[list[Any]], np.ndarray]) -> Observation:
    first = observations[0]
    if isinstance(first, dict):
        return {key: how([observation[key] for observation in observations]) for key in first}
    return how(observations)


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
    if np.issubdtype(space.dtype, np.integer):
        return rng.integers(low, high, size=(n, *space.shape), endpoint=True).astype(space.dtype)
    drawn = rng.uniform(low, high, size=(n, *space.shape))
    # A fifth of all numbers at one of the ends, where errors are likely.
    at = rng.random(drawn.shape)
    return np.where(at < 0.1, low, np.where(at > 0.9, high, drawn)).astype(np.float32)


def _with_ends(policy: DeterministicPolicy, batch: Observation) -> Observation:
    """Set the first two observations to the lower and to the upper ends."""
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
    """The space's bounds; without bounds +-10, or where normalisation begins to clip."""
    if normalization is None:
        low, high = -UNBOUNDED * np.ones(space.shape), UNBOUNDED * np.ones(space.shape)
    else:
        reach = 1.1 * min(normalization.clip, UNBOUNDED) * normalization.std
        low, high = normalization.mean - reach, normalization.mean + reach
    large = LARGE if np.issubdtype(space.dtype, np.floating) else LARGE_INTEGER
    has_low, has_high = space.low > -large, space.high < large
    # With one bound only, the other end is as far from it as without.
    width = high - low
    low = np.where(has_low, space.low, np.where(has_high, space.high - width, low))
    high = np.where(has_high, space.high, np.where(has_low, space.low + width, high))
    return low, high
