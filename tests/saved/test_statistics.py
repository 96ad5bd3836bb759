"""VecNormalize's statistics go to a file and come back, and reading them executes nothing, whatever the file holds."""

import os
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_span.saved.plain_spaces import space_from_data, space_to_data
from sb3_span.saved.statistics import load_statistics, save_statistics


class Pair(gym.Env):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(0, 5, (3,)), "c": spaces.Discrete(4)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {"object": Foreign()}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


class Foreign:
    """What an environment may leave in the wrapper's state."""


def trained(env, **options):
    vecnormalize = VecNormalize(env, **options)
    vecnormalize.seed(0)
    vecnormalize.reset()
    for _ in range(30):
        vecnormalize.step(np.array([vecnormalize.action_space.sample() for _ in range(env.num_envs)]))
    return vecnormalize


CASES = {
    "box": lambda: trained(make_vec_env("Pendulum-v1", 2), clip_obs=3.0),
    "rewards": lambda: trained(make_vec_env("Pendulum-v1", 2), norm_obs=False),
    "dict": lambda: trained(DummyVecEnv([Pair, Pair]), norm_obs_keys=["b", "a"], gamma=0.9),
}


@pytest.mark.parametrize("form", ["npz", "pkl"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_written_is_read(tmp_path, case, form):
    before, path = CASES[case](), tmp_path / f"statistics.{form}"
    save_statistics(before, path) if form == "npz" else before.save(str(path))
    after = load_statistics(path)
    observations = before.get_original_obs()
    expected, found = before.normalize_obs(observations), after.normalize_obs(observations)
    for key in expected if isinstance(expected, dict) else [...]:
        np.testing.assert_array_equal(expected[key], found[key])
    rewards = np.array([-3.0, 70.0])
    np.testing.assert_array_equal(before.normalize_reward(rewards), after.normalize_reward(rewards))
    after.set_venv(before.venv)  # and training goes on
    after.seed(1)
    after.reset()
    assert after.observation_space == before.observation_space and after.gamma == before.gamma


class Bomb:
    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_nothing_in_a_file_is_executed(tmp_path):
    """Neither instead of the statistics nor inside them."""
    bomb = Bomb()
    bomb.path = tmp_path / "executed"
    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(bomb))
    with pytest.raises(ValueError, match=r"holds a system; give the file that VecNormalize.save has written"):
        load_statistics(tmp_path / "bomb.pkl")
    vecnormalize = CASES["box"]()
    vecnormalize.hidden = bomb
    vecnormalize.save(str(tmp_path / "with_bomb.pkl"))
    assert load_statistics(tmp_path / "with_bomb.pkl").obs_rms.count == vecnormalize.obs_rms.count
    array = np.array([bomb], dtype=object)
    np.savez(tmp_path / "bomb.npz", options=array)
    with pytest.raises(ValueError, match=r"is not what VecNormalize.save has written, or it is damaged"):
        load_statistics(tmp_path / "bomb.npz")
    assert not bomb.path.exists()
    pickle.loads((tmp_path / "bomb.pkl").read_bytes())  # it would have
    assert bomb.path.exists()


@pytest.mark.parametrize("form", ["npz", "pkl"])
def test_a_damaged_file(tmp_path, form):
    path = tmp_path / f"statistics.{form}"
    save_statistics(CASES["box"](), path) if form == "npz" else CASES["box"]().save(str(path))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ValueError, match=r"statistics\..* is not what VecNormalize.save has written, or it is damaged"):
        load_statistics(path)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.array([1, np.inf], np.float32), (2,)),
        spaces.Box(0, 255, (84, 84, 4), np.uint8),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary([2, 3]),
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Box(-1, 1, (3,))})]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces(space):
    again = space_from_data(space_to_data(space))
    assert again == space and again.dtype == space.dtype
