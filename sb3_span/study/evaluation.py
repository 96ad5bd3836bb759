"""The paper's evaluation, 30 deterministic episodes, with all environments stepped together."""

from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, sync_envs_normalization
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class OneEpisodeEach(DummyVecEnv):
    """
    Environments that play one episode each, and then wait until all are reset.

    So no time goes into further episodes of those that end early, nor into what SB3 keeps for training: rewards and infos are
    not passed on. Each environment needs a ``Monitor``.

    ``returns`` are the sums of the environments' own rewards; None for an unfinished episode.
    """

    returns: list[float | None]

    def reset(self) -> VecEnvObs:
        self.returns = [None] * self.num_envs
        return super().reset()

    def step_wait(self) -> VecEnvStepReturn:
        dones = np.zeros(self.num_envs, dtype=bool)
        infos: list[dict[str, Any]] = [{} for _ in self.envs]
        for i, env in enumerate(self.envs):
            if self.returns[i] is None:
                obs, _, terminated, truncated, info = env.step(self.actions[i])
                if "episode" in info:
                    self.returns[i] = float(info["episode"]["r"])
                elif terminated or truncated:
                    # A wrapper around Monitor has ended the episode, or a part of it, such as a life in Atari.
                    total, last = float(sum(env.get_wrapper_attr("rewards"))), obs
                    obs, _ = env.reset()
                    if env.get_wrapper_attr("rewards"):  # Monitor was not reset: the game continues
                        dones[i], infos[i] = True, {"terminal_observation": last}
                    else:
                        self.returns[i] = total
                self._save_obs(i, obs)
        return self._obs_from_buf(), np.zeros(self.num_envs, np.float32), dones, infos


def evaluate(model: BaseAlgorithm, eval_env: VecEnv, seed: int) -> np.ndarray:
    """
    One deterministic episode in each environment.

    :param model: The agent
    :param eval_env: ``OneEpisodeEach``, perhaps wrapped as the environments of training
    :param seed: Seed of the first environment, the next ones follow
    :return: Returns of the episodes, shape (n_envs,)
    """
    if model.env is not None:
        sync_envs_normalization(model.env, eval_env)
    envs = eval_env.unwrapped
    assert isinstance(envs, OneEpisodeEach)
    eval_env.seed(seed)
    observations: Any = eval_env.reset()
    state, starts = None, np.ones(eval_env.num_envs, dtype=bool)
    while None in envs.returns:
        actions, state = model.predict(observations, state=state, episode_start=starts, deterministic=True)
        observations, _, starts, _ = eval_env.step(actions)
    return np.array(envs.returns)
