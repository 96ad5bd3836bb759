"""What an export checks itself with: observations recorded from environments of all kinds, and their statistics."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize

from sb3_span.deploy import export_c
from sb3_span.deploy.observations import TOTAL
from tests.deploy.models import check, lively
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv


def test_vecnormalize_and_recorded_observations(tmp_path):
    """Means that are large next to the spread would lose their digits in single precision."""
    env = VecNormalize(make_vec_env("Pendulum-v1"), clip_obs=3.0)
    model = lively(SAC, env=env)
    env.obs_rms.mean[:] = [0.3, -0.1, 1234.56789]
    env.obs_rms.var[:] = [0.5, 0.4, 1e-2]
    verification = check(model, tmp_path)
    assert verification.recorded == TOTAL // 2
    assert "VecNormalize" in (tmp_path / "policy.h").read_text()
    assert "1234.56" in (tmp_path / "policy.c").read_text()


class Shifted(gym.ObservationWrapper):
    def observation(self, observation):
        return observation + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: VecFrameStack(make_vec_env("Pendulum-v1"), 3),
        lambda: VecNormalize(VecFrameStack(make_vec_env("Pendulum-v1"), 2)),
        lambda: make_vec_env("Pendulum-v1", wrapper_class=Shifted),
    ],
    ids=["stacked", "stacked and normalised", "wrapper"],
)
def test_environments_that_cannot_be_made_again(make, tmp_path):
    """Observations are random then."""
    assert check(lively(SAC, env=make()), tmp_path).recorded == 0
    with pytest.raises(ValueError, match=r"The agent observes Box.*, and CartPole-v1 gives Box"):
        export_c(lively(SAC, env=make()), tmp_path, env="CartPole-v1")


class Difficult(RandomEnv):
    """
    Of whose kind there is only one, like a device, or which refuses an action, like a game.

    :param only: Whether there may be no second one
    """

    made = 0

    def __init__(self, only):
        super().__init__(OBSERVATIONS["vector"], ACTIONS["discrete"])
        Difficult.made += 1
        self.only = only
        if only and Difficult.made > 1:
            raise RuntimeError("The device is busy")

    def step(self, action):
        if action == 1 and not self.only:
            raise RuntimeError("This move is not allowed")
        return super().step(action)


@pytest.mark.parametrize(
    "only, message", [(True, "cannot be made here: The device is busy"), (False, "with an error, RuntimeError: This move")]
)
def test_environments_that_nothing_can_be_recorded_from(only, message, tmp_path, monkeypatch):
    """Only who asks for their observations is told."""
    monkeypatch.setitem(gym.registry, "Difficult-v0", gym.envs.registration.EnvSpec("Difficult-v0", Difficult))
    monkeypatch.setattr(Difficult, "made", 0)
    env = gym.make("Difficult-v0", only=only)
    model = lively(env=env)
    assert check(model, tmp_path).recorded == 0
    with pytest.raises(ValueError, match=message):
        export_c(model, tmp_path, env=env.spec)


def test_processes_of_environments_survive(tmp_path, monkeypatch):
    """Not even what they cannot send is asked of them."""
    spec = gym.envs.registration.EnvSpec("Local-v0", lambda: RandomEnv(OBSERVATIONS["vector"], ACTIONS["box"]))
    monkeypatch.setitem(gym.registry, "Local-v0", spec)
    model = lively(env=SubprocVecEnv([lambda: gym.make("Local-v0")] * 2, start_method="fork"))
    assert check(model, tmp_path).recorded == 0
    model.env.reset()
    model.env.close()


def test_an_environment_of_other_actions(tmp_path):
    model = lively(env=RandomEnv(OBSERVATIONS["vector"], spaces.MultiDiscrete([5, 5])))
    fewer = gym.envs.registration.EnvSpec("Fewer-v0", lambda: RandomEnv(OBSERVATIONS["vector"], spaces.MultiDiscrete([2, 2])))
    with pytest.raises(ValueError, match=r"actions are MultiDiscrete.*, and Fewer-v0 has MultiDiscrete\(\[2 2\]\)"):
        export_c(model, tmp_path, env=fewer)


def test_images_in_the_header(tmp_path, monkeypatch):
    """Channel first, as the policy sees them; of normalised ones the bounds are not known."""
    monkeypatch.setattr("sb3_span.deploy.observations.TOTAL", 1_000)
    env = RandomEnv(spaces.Box(0, 255, (4, 5, 3), np.uint8), ACTIONS["box"])
    export_c(lively(env=env), tmp_path)
    header = " ".join((tmp_path / "policy.h").read_text().replace("*", " ").split())
    assert "60 floats: [0..59] 0 to 255, in the environment's own units, channel first: shape (3, 4, 5), row" in header
    export_c(lively(env=VecNormalize(DummyVecEnv([lambda: env]))), tmp_path)
    header = " ".join((tmp_path / "policy.h").read_text().replace("*", " ").split())
    assert "60 floats: [0..59] any, in the environment's own order and units of shape (4, 5, 3), row by row" in header


def test_statistics_inside_a_wrapper(tmp_path):
    env = VecFrameStack(VecNormalize(make_vec_env("Pendulum-v1")), 2)
    with pytest.raises(ValueError, match=r"VecNormalize\(VecFrameStack\(env, 4\)\)"):
        export_c(PPO("SPANPolicy", env), tmp_path)
