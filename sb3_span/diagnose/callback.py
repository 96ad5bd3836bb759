"""Diagnoses while an agent learns."""

from numbers import Integral
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_span.diagnose.diagnosis import diagnose
from sb3_span.diagnose.environments import make_own_env
from sb3_span.diagnose.parts import find_networks
from sb3_span.diagnose.transitions import n_collected

NOT_ON_SCREEN = ("/grad/", "/step/")


class DiagnosticsCallback(BaseCallback):
    """
    Log what happens inside an agent every ``every`` steps, under ``diagnose/``, wherever SB3's logger writes to.

    Training is the same with and without it: it plays and updates copies of the agent, in its own environment, and restores
    the random numbers. Between the diagnoses it does nothing.

    :param every: Steps between diagnoses. Agents that learn from rollouts (PPO, A2C) are diagnosed at the end of one
    :param env: The environment to play in: an id, a specification, or an environment that is not normalised; None for the
        same as in training
    :param n_episodes: Episodes to play each time
    :param seed: Seed of the diagnosis: it sees the same first states each time
    :param verbose: As for every callback of SB3
    """

    def __init__(
        self,
        every: int = 10_000,
        env: EnvSpec | str | gym.Env | VecEnv | None = None,
        n_episodes: int = 5,
        seed: int = 0,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        for name, value, usual in (("every", every, 10_000), ("n_episodes", n_episodes, 5)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1. Try {usual}.")
        if not isinstance(env, EnvSpec | str | gym.Env | VecEnv | None):
            raise ValueError(
                f"env is {env!r}; it must be the id of an environment, its specification, a gym.Env, a VecEnv, or None."
            )
        self.every, self.n_episodes, self.seed = every, n_episodes, seed
        self._env = env
        self._own: VecEnv | None = None
        self._next = 0

    def _on_training_start(self) -> None:
        find_networks(self.model.policy)  # refuses unknown policies now rather than hours later
        if self._own is None:
            self._own = make_own_env(self.model, self._env, self.n_episodes, self.seed)
        self._next = self.every * (self.num_timesteps // self.every + 1)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if self.num_timesteps < self._next or n_collected(self.model) < (getattr(self.model, "batch_size", None) or 2):
            return
        self._next = self.every * (self.num_timesteps // self.every + 1)
        assert self._own is not None
        diagnosis = diagnose(self.model, self._own, self.n_episodes, self.seed)
        for name, value in diagnosis.numbers.items():
            is_detail = any(mark in name for mark in NOT_ON_SCREEN)
            self.logger.record(f"diagnose/{name}", value, exclude=("stdout", "log") if is_detail else None)
        for role, seen in diagnosis.seen.items():
            if seen.latents:  # each dimension, as a histogram
                only_tensorboard: Any = ("stdout", "log", "csv", "json")
                self.logger.record(f"diagnose/{role}/z_ranges", diagnosis.ranges(role), exclude=only_tensorboard)
        # At once, as SB3's EvalCallback does: when the agent logs next, it is at a later step.
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _on_training_end(self) -> None:
        if self._own is not None and not isinstance(self._env, gym.Env | VecEnv):
            self._own.close()
            self._own = None
