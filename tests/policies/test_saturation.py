"""Observations that a sigmoid cannot tell apart are warned of; all others are not."""

import warnings

import numpy as np
import pytest
import stable_baselines3
from gymnasium import spaces

import sb3_span
from tests.policies.envs import ACTIONS, RandomEnv


class LargeEnv(RandomEnv):
    """Says nothing about bounds, and observes millions."""

    def __init__(self):
        super().__init__(spaces.Box(-np.inf, np.inf, (3,)), ACTIONS["discrete"])

    def _observe(self):
        return np.full(3, -2e6, dtype=np.float32)

    def reset(self, **kwargs):
        return self._observe(), super().reset(**kwargs)[1]

    def step(self, action):
        return self._observe(), *super().step(action)[1:]


def test_bounds():
    env = RandomEnv(spaces.Box(-1e6, 1e6, (3,)), ACTIONS["discrete"])
    with pytest.warns(UserWarning, match=r"Observations may be as large as 1e\+06\. .*VecNormalize"):
        stable_baselines3.PPO("SPANPolicy", env, device="cpu")


def test_observations():
    model = sb3_span.PPO("SPANPolicy", LargeEnv(), n_steps=64, device="cpu")
    with pytest.warns(UserWarning, match=r"Observations reach 2e\+06\. .*VecNormalize"):
        model.learn(64)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [(stable_baselines3.PPO, dict(n_steps=64)), (stable_baselines3.DQN, dict(learning_starts=60, train_freq=4))],
)
def test_observations_with_algorithms_of_sb3(algorithm, options):
    """SB3's own algorithms are warned once, when the first batch is trained on."""
    model = algorithm("SPANPolicy", LargeEnv(), device="cpu", **options)
    with pytest.warns(UserWarning, match=r"Observations reach 2e\+06\. .*VecNormalize") as warned:
        model.learn(80)
    assert len([each for each in warned if "Observations reach" in str(each.message)]) == 1


def test_no_warning():
    largest = np.finfo(np.float32).max  # of a space without bounds
    parts = {
        "a": spaces.Box(-largest, largest, (2,)),
        "b": spaces.Box(0, 500, (2,)),
        "c": spaces.Box(0, 65535, (3,), np.uint16),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for space in (spaces.Dict(parts), parts["a"]):
            sb3_span.PPO("SPANPolicy", RandomEnv(space, ACTIONS["discrete"]), n_steps=64, device="cpu")
        for algorithm in (sb3_span.PPO, stable_baselines3.PPO):
            algorithm("MlpPolicy", LargeEnv(), n_steps=64, device="cpu").learn(64)
