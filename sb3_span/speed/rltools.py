"""RLtools, reinforcement learning in C++, as a contender: SAC, compiled for each environment."""

import importlib.util
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import RescaleAction

MISSING = "RLtools is not installed, so the tables lack it: pip install 'sb3_span[bench]'."


def is_installed() -> bool:
    return importlib.util.find_spec("rltools") is not None


class RLtoolsAgent:
    """
    SAC with an MLP. All hidden layers are of the same width, the largest of the file's, and gradients are not clipped.

    :param env_id: The environment
    :param settings: As in ``hyperparams/mlp.yml``
    """

    def __init__(self, env_id: str, settings: Mapping[str, Any]) -> None:
        import rltools

        widths = settings["policy_kwargs"]["net_arch"]

        def make_env() -> gym.Env:
            return RescaleAction(gym.make(env_id), np.float32(-1.0), np.float32(1.0))

        module = rltools.SAC(
            make_env,
            enable_evaluation=False,
            enable_blas=False,  # its own loops are compiled for these sizes
            interface_name="".join(letter for letter in env_id if letter.isalnum()),
            GAMMA=settings["gamma"],
            ACTOR_BATCH_SIZE=settings["batch_size"],
            CRITIC_BATCH_SIZE=settings["batch_size"],
            ACTOR_POLYAK=1.0 - settings["tau"],
            CRITIC_POLYAK=1.0 - settings["tau"],
            N_WARMUP_STEPS=settings["learning_starts"],
            REPLAY_BUFFER_CAP=settings["buffer_size"],
            STEP_LIMIT=10**9,
            ACTOR_HIDDEN_DIM=max(widths["pi"]),
            CRITIC_HIDDEN_DIM=max(widths["qf"]),
            OPTIMIZER_ALPHA=settings["learning_rate"],
        )
        self._state = module.State(0)

    def learn(self, steps: int, reset_num_timesteps: bool = False) -> None:
        """So many steps of the environment, with an update after each."""
        for _ in range(steps):
            self._state.step()
