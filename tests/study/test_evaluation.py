"""Thirty episodes at once are the thirty episodes that one would play one by one."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_span.study.evaluation import OneEpisodeEach, evaluate
from sb3_span.study.run import StudyManager
from tests.study.runs import sac_run


def play(model, seed, normalize=lambda observation: observation):
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action, _ = model.predict(normalize(observation), deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + reward, terminated or truncated
    return total


def make_eval_env(n_envs):
    return OneEpisodeEach([lambda: Monitor(gym.make("CartPole-v1")) for _ in range(n_envs)])


def test_returns_are_those_of_single_episodes():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu").learn(512)
    returns = evaluate(model, make_eval_env(8), seed=42)
    assert len(set(returns)) > 1  # of different length: the short ones must wait for the long ones
    assert list(returns) == [play(model, 42 + i) for i in range(8)]


def test_evaluation_can_be_repeated():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu")
    env = make_eval_env(4)
    first = evaluate(model, env, seed=1)
    assert not np.array_equal(evaluate(model, env, seed=2), first)
    np.testing.assert_array_equal(evaluate(model, env, seed=1), first)


def test_observations_are_normalised_as_in_training():
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]), norm_reward=True)
    model = PPO("MlpPolicy", env, n_steps=64, seed=0, device="cpu").learn(512)
    eval_env = VecNormalize(make_eval_env(4), training=False, norm_reward=False)
    count = env.obs_rms.count
    returns = evaluate(model, eval_env, seed=7)
    assert list(returns) == [play(model, 7 + i, env.normalize_obs) for i in range(4)]
    assert env.obs_rms.count == eval_env.obs_rms.count == count  # evaluation does not teach the statistics


@pytest.mark.parametrize("n_steps", [1, 3])
def test_nothing_moves_after_the_end(n_steps):
    env = OneEpisodeEach([lambda steps=steps: Monitor(gym.make("CartPole-v1", max_episode_steps=steps)) for steps in (2, 9)])
    env.seed(0)
    env.reset()
    for _ in range(2):
        last, *_ = env.step([0, 0])
    assert env.returns == [2.0, None]
    for _ in range(n_steps):
        observations, _, dones, _ = env.step([1, 1])
        assert np.array_equal(observations[0], last[0]) and not dones.any()
        assert not np.array_equal(observations[1], last[1])
    env.reset()
    assert env.returns == [None, None]


class EndsEarly(gym.Wrapper):
    """Around Monitor, which does not hear of the end."""

    def step(self, action):
        observation, reward, _, truncated, info = self.env.step(action)
        return observation, reward, len(self.env.rewards) == 3, truncated, info


def test_episodes_that_a_wrapper_ends():
    env = OneEpisodeEach([lambda: EndsEarly(Monitor(gym.make("CartPole-v1")))])
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu")
    assert list(evaluate(model, env, seed=0)) == [3.0]


class Lives(gym.Env):
    """A game with three lives of ten steps, a point for each step."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

    def __init__(self):
        self.ale = self

    def lives(self):
        return 3 - self.n_steps // 10

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.n_steps += 1
        return np.zeros(1, np.float32), 1.0, self.lives() == 0, False, {}


def test_a_life_is_not_a_game():
    """As with Atari's games in the Zoo, which end an episode with each life, around Monitor."""
    env = OneEpisodeEach([lambda: EpisodicLifeEnv(Monitor(Lives()))] * 2)
    model = PPO("MlpPolicy", Lives(), n_steps=64, seed=0, device="cpu")
    for _ in range(2):
        assert list(evaluate(model, env, seed=0)) == [30.0, 30.0]


def test_it_plays_the_environment_of_training():
    run = sac_run(env_kwargs={"g": 5.0})
    manager = StudyManager(run)
    agent, eval_env = manager.make_agent(), manager.make_eval_env()
    for env in (agent.env, eval_env):
        assert set(env.get_attr("g")) == {5.0}
        env.close()
