"""The paper's evaluation, 30 deterministic episodes, with all environments stepped together."""

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization


class OneEpisode(gym.Wrapper):
    """
    Plays one episode, then stands still until it is reset: its neighbours in a vectorized environment are not slowed down by
    an episode that nobody asked for.

    ``episode_return`` is what ``Monitor``, which lies further inside, saw: the environment's own rewards.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.episode_return: float | None = None
        self._last: Any = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self.episode_return = None
        self._last, info = self.env.reset(**kwargs)
        return self._last, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.episode_return is None:
            self._last, reward, terminated, truncated, info = self.env.step(action)
            if not (terminated or truncated):
                return self._last, float(reward), False, False, info
            # A wrapper between here and Monitor may have ended the episode: then Monitor has not summed it up.
            self.episode_return = float(info["episode"]["r"] if "episode" in info else sum(self.get_wrapper_attr("rewards")))
        # The end is not passed on: the vectorized environment would reset.
        return self._last, 0.0, False, False, {}


def evaluate(model: BaseAlgorithm, eval_env: VecEnv, seed: int) -> np.ndarray:
    """
    One deterministic episode in each environment.

    :param model: The agent
    :param eval_env: Environments wrapped into ``OneEpisode``
    :param seed: Seed of the first environment, the next ones follow
    :return: Returns of the episodes, shape (n_envs,)
    """
    if model.env is not None:
        sync_envs_normalization(model.env, eval_env)
    eval_env.seed(seed)
    observations: Any = eval_env.reset()
    state, starts = None, np.ones(eval_env.num_envs, dtype=bool)
    returns = eval_env.get_attr("episode_return")
    while None in returns:
        actions, state = model.predict(observations, state=state, episode_start=starts, deterministic=True)
        observations, _, _, _ = eval_env.step(actions)
        starts = np.zeros(eval_env.num_envs, dtype=bool)
        returns = eval_env.get_attr("episode_return")
    return np.array(returns)
