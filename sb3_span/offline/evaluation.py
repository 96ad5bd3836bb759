"""Evaluation with several environments stepped together, with one call of the agent for all of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

# More would hardly save time: the agent's share of a step is then small, and every Adroit hand needs 30 MB.
N_ENVS = 20


class Agent(Protocol):
    """Every algorithm of d3rlpy."""

    def predict(self, x: np.ndarray) -> np.ndarray: ...


def make_envs(env: gym.Env, n_episodes: int) -> list[gym.Env]:
    """
    :param env: An environment
    :param n_episodes: Episodes that an evaluation will have
    :return: That environment and copies of it, as many as speed up such an evaluation
    """
    assert env.spec is not None
    return [env, *(gym.make(env.spec) for _ in range(min(N_ENVS, n_episodes) - 1))]


def evaluate(agent: Agent, envs: Sequence[gym.Env], n_episodes: int, seed: int) -> np.ndarray:
    """
    Play deterministic episodes. It does not matter which environment plays an episode: every episode has its own seed.

    :param agent: The agent
    :param envs: Environments of one kind; one is enough, more are quicker
    :param n_episodes: Number of episodes
    :param seed: Seed of the first episode, the next ones follow
    :return: Returns of the episodes, shape (n_episodes,)
    """
    returns = np.zeros(n_episodes)
    waiting = iter(range(n_episodes))
    playing: dict[int, int] = {}  # episode by environment
    observations: dict[int, Any] = {}
    for place, episode in zip(range(len(envs)), waiting, strict=False):
        playing[place] = episode
        observations[place], _ = envs[place].reset(seed=seed + episode)
    while playing:
        actions = agent.predict(np.stack([observations[place] for place in playing]))
        for (place, episode), action in zip(list(playing.items()), actions, strict=True):
            observations[place], reward, terminated, truncated, _ = envs[place].step(action)
            returns[episode] += float(reward)
            if terminated or truncated:
                del playing[place]
                following = next(waiting, None)
                if following is not None:
                    playing[place] = following
                    observations[place], _ = envs[place].reset(seed=seed + following)
    return returns
