"""A step of SB3's vectorised environments without its copies is the same step."""

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.algorithms.stepping import step
from tests.algorithms.twins import needs_native

STATISTICS = ("obs_rms", "ret_rms")


@needs_native
@pytest.mark.parametrize(
    "options", [{}, dict(norm_obs=False), dict(norm_reward=False, clip_obs=0.5), dict(training=False)], ids=str
)
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_normalized_steps(env_id, n_envs, options):
    theirs, ours = (VecNormalize(make_vec_env(env_id, n_envs=n_envs, seed=0), **options) for _ in range(2))
    assert np.array_equal(theirs.reset(), ours.reset())
    theirs.action_space.seed(0)
    for _ in range(250):  # both end episodes
        actions = np.array([theirs.action_space.sample() for _ in range(n_envs)])
        known, own = theirs.step(actions), step(ours, actions)
        for expected, value in zip(known[:3], own[:3], strict=True):
            assert np.array_equal(expected, value) and expected.dtype == value.dtype
        for one, other in zip(known[3], own[3], strict=True):
            assert one.keys() == other.keys()
            assert np.array_equal(one.get("terminal_observation", 0), other.get("terminal_observation", 0))
        assert np.array_equal(theirs.get_original_obs(), ours.get_original_obs())
    for name in STATISTICS if theirs.norm_obs else STATISTICS[1:]:
        expected, value = getattr(theirs, name), getattr(ours, name)
        assert np.array_equal(expected.mean, value.mean) and np.array_equal(expected.var, value.var)
        assert expected.count == value.count
    assert np.array_equal(theirs.returns, ours.returns)
