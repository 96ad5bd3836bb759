"""Evaluation: the same episodes, whichever way they are played."""

import gymnasium as gym
import numpy as np
import pytest

from sb3_span.offline import evaluate
from sb3_span.offline.evaluation import N_ENVS, make_envs


class Push:
    """Pushes the cart where the pole leans, except at some observations: episodes have different lengths."""

    calls = 0

    def predict(self, x):
        self.calls += 1
        return (x[:, 2] + 0.3 * np.sin(50 * x[:, 0]) > 0).astype(int)


@pytest.mark.parametrize("n_envs", [2, 5, 7, 20])
def test_batched_episodes_are_those_played_one_by_one(n_envs):
    env = gym.make("CartPole-v1")
    alone = evaluate(Push(), [env], n_episodes=7, seed=3)
    together = evaluate(Push(), [gym.make("CartPole-v1") for _ in range(n_envs)], n_episodes=7, seed=3)
    assert len(set(alone)) > 2
    np.testing.assert_array_equal(alone, together)


def test_an_episode_is_that_of_its_seed():
    env, agent = gym.make("CartPole-v1"), Push()
    observation, _ = env.reset(seed=5)
    total, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(agent.predict(observation[None])[0])
        total, done = total + reward, terminated or truncated
    assert evaluate(agent, [env], n_episodes=3, seed=4)[1] == total


def test_the_agent_is_asked_once_for_all():
    agent = Push()
    returns = evaluate(agent, [gym.make("CartPole-v1") for _ in range(4)], n_episodes=4, seed=0)
    assert agent.calls == returns.max()


def test_as_many_environments_as_are_of_use():
    env = gym.make("CartPole-v1", max_episode_steps=9)
    assert len(make_envs(env, 3)) == 3 and len(make_envs(env, 100)) == N_ENVS
    assert all(other.spec.max_episode_steps == 9 for other in make_envs(env, 3))
