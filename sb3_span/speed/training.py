"""(a) Steps of training and ``predict``, SPAN and the MLP of its size, in SB3, sb3_span and SBX; the environment alone."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch as th
import yaml
from stable_baselines3 import SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

import sb3_span
from sb3_span.nn import SPAN
from sb3_span.speed import rltools
from sb3_span.speed.sbx import is_installed, make_sbx_agent
from sb3_span.speed.timing import Timing, take_turns
from sb3_span.zoo import make_agent

ENVIRONMENTS = (
    "CartPole-v1",
    "Acrobot-v1",
    "LunarLander-v3",
    "InvertedPendulum-v5",
    "Hopper-v5",
    "HalfCheetah-v5",
    "Walker2d-v5",
)
WITH_DEFAULTS = ("CartPole-v1", "LunarLander-v3", "Hopper-v5", "HalfCheetah-v5")
PREDICTING = ("CartPole-v1", "Hopper-v5")
OBSERVATIONS = (1, 64)  # at once
VECTORISED = ("CartPole-v1", (8, 16, 32, 64))  # environments at once
# The contenders whose time is told relative to that of SB3's algorithm with the MLP, and how their columns begin.
RATIOS = {"span": "", "native_span": "native_", "native_mlp": "native_mlp_", "sbx": "sbx_", "rltools": "rltools_"}
OF_SAC: dict[str, Any] = {"learning_starts": 200, "buffer_size": 50_000}
# Training shrinks the scales of the kernel basis, and four bumps are above zero then instead of three.
DRIFT = 0.9


def drift_scales(module: th.nn.Module) -> None:
    """Set the scales to typical values after training."""
    for part in module.modules():
        if isinstance(part, SPAN) and part.scale is not None:
            part.scale.data *= DRIFT


def make_agents(hyperparams: Path, env_id: str, **overrides: Any) -> dict[str, BaseAlgorithm]:
    """
    SPAN and MLP of the same size in SB3's algorithm, both in sb3_span's, and the MLP in SBX's where that is installed.

    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param env_id: The environment
    :param overrides: What replaces the file's settings
    """
    agents = {}
    overrides = {**(OF_SAC if _is_for_sac(env_id) else {}), **overrides}
    for prefix, sb3 in (("", True), ("native_", False)):
        for method in ("span", "mlp"):
            agent = make_agent(hyperparams / f"{method}.yml", env_id, seed=0, sb3=sb3, **overrides)
            drift_scales(agent.policy)
            agents[prefix + method] = agent
    if is_installed():
        agents["sbx"] = make_sbx_agent(env_id, {**_settings(hyperparams, env_id), **overrides})
    return agents


def make_rltools_agent(hyperparams: Path, env_id: str) -> dict[str, Any]:
    """That with the MLP in RLtools, where it is installed and has the algorithm."""
    if not (rltools.is_installed() and _is_for_sac(env_id)):
        return {}
    return {"rltools": rltools.RLtoolsAgent(env_id, {**_settings(hyperparams, env_id), **OF_SAC})}


def _settings(hyperparams: Path, env_id: str) -> dict[str, Any]:
    return yaml.safe_load((hyperparams / "mlp.yml").read_text())[env_id]


def make_default_agents(env_id: str) -> dict[str, BaseAlgorithm]:
    """
    The same contenders with the default settings of each: what changing one word of a script does.

    :param env_id: The environment
    """
    agents = {}
    options: dict[str, Any] = {"buffer_size": 50_000} if _is_for_sac(env_id) else {}
    for prefix, module in (("", stable_baselines3), ("native_", sb3_span)):
        algorithm = module.SAC if _is_for_sac(env_id) else module.PPO
        for method, policy in (("span", "SPANPolicy"), ("mlp", "MlpPolicy")):
            agent = algorithm(policy, env_id, seed=0, device="cpu", **options)
            drift_scales(agent.policy)
            agents[prefix + method] = agent
    if is_installed():
        agents["sbx"] = make_sbx_agent(env_id, options)
    return agents


def _is_for_sac(env_id: str) -> bool:
    return env_id.endswith("-v5")


class EnvironmentAlone:
    """
    What a step costs without learning: the environment's own ``step`` and ``reset``, with random actions.

    :param env_id: The environment
    :param n_envs: How many; one is stepped directly, several as SB3's vectorised environment, as in PPO
    """

    def __init__(self, env_id: str, n_envs: int) -> None:
        self._n_envs = n_envs
        self._env: Any = gym.make(env_id) if n_envs == 1 else make_vec_env(env_id, n_envs=n_envs, seed=0)
        self._env.action_space.seed(0)
        self._actions = [self._env.action_space.sample() for _ in range(1000)]
        self._env.reset()

    def step(self, steps: int) -> None:
        """A number of steps, counted over all environments."""
        for i in range(steps // self._n_envs):
            action = self._actions[i % len(self._actions)]
            if self._n_envs > 1:
                self._env.step(np.array([action] * self._n_envs))
            else:
                _, _, terminated, truncated, _ = self._env.step(action)
                if terminated or truncated:
                    self._env.reset()


def time_training(env_id: str, agents: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """
    :param agents: The contenders
    :return: One row of the table; ratios are to SB3's algorithm with the MLP
    """
    n_envs = agents["span"].n_envs
    steps = 300 if isinstance(agents["span"], SAC) else max(2048, 128 * n_envs)  # whole rollouts of PPO
    contenders: dict[str, Any] = {
        name: partial(agent.learn, steps, reset_num_timesteps=False) for name, agent in agents.items()
    }
    contenders["env"] = partial(EnvironmentAlone(env_id, n_envs).step, steps)
    row = _row(env_id, agents, take_turns(contenders, rounds, units=steps))
    return {**row, "environments": n_envs, "rounds": rounds}


def time_predict(hyperparams: Path, env_id: str, rounds: int, observations: int = 1) -> dict[str, Any]:
    """
    The best actions.

    :param observations: For how many observations at once
    :return: One row of the table; ratios are to SB3's algorithm with the MLP
    """
    agents = make_agents(hyperparams, env_id)
    space = agents["span"].observation_space
    seen = np.stack([space.sample() for _ in range(observations)])
    seen = seen[0] if observations == 1 else seen
    contenders = {name: partial(agent.predict, seen, deterministic=True) for name, agent in agents.items()}
    row = _row(env_id, agents, take_turns(contenders, rounds, calls=50))
    return {**row, "observations": observations, "rounds": rounds}


def _row(env_id: str, agents: Mapping[str, Any], timings: dict[str, Timing]) -> dict[str, Any]:
    row: dict[str, Any] = {"environment": env_id, "algorithm": "SAC" if isinstance(agents["span"], SAC) else "PPO"}
    row.update({f"{name}_us": 1e6 * timing.median for name, timing in timings.items()})
    for name, prefix in RATIOS.items():
        if name in timings:
            quartiles = timings[name].quartiles(timings["mlp"])
            row.update(zip((f"{prefix}ratio_lower", f"{prefix}ratio", f"{prefix}ratio_upper"), quartiles, strict=True))
    return row
