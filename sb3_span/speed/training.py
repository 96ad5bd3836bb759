"""(a) The time of a step in training and of ``predict``, SPAN and the MLP of the same size, in SB3's algorithms and ours."""

from functools import partial
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3 import SAC
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_span.nn import SPAN
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
PREDICTING = ("CartPole-v1", "Hopper-v5")
# Training shrinks the scales of the kernel basis, and four bumps are above zero then instead of three.
DRIFT = 0.9


def drift_scales(module: th.nn.Module) -> None:
    """Bring the scales to where training brings them."""
    for part in module.modules():
        if isinstance(part, SPAN) and part.scale is not None:
            part.scale.data *= DRIFT


def make_agents(hyperparams: Path, env_id: str) -> dict[str, BaseAlgorithm]:
    """
    SPAN and MLP in SB3's algorithm, and both in sb3_span's.

    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param env_id: The environment
    """
    agents = {}
    overrides = {"learning_starts": 200, "buffer_size": 50_000} if env_id.endswith("-v5") else {}
    for prefix, sb3 in (("", True), ("native_", False)):
        for method in ("span", "mlp"):
            agent = make_agent(hyperparams / f"{method}.yml", env_id, seed=0, sb3=sb3, **overrides)
            drift_scales(agent.policy)
            agents[prefix + method] = agent
    return agents


def time_training(hyperparams: Path, env_id: str, rounds: int) -> dict[str, Any]:
    """
    :return: One row of the table; ratios are to SB3's algorithm with the MLP
    """
    agents = make_agents(hyperparams, env_id)
    steps = 300 if isinstance(agents["span"], SAC) else 2048  # two rollouts of PPO
    contenders = {name: partial(agent.learn, steps, reset_num_timesteps=False) for name, agent in agents.items()}
    return {**_row(env_id, agents, take_turns(contenders, rounds, units=steps)), "rounds": rounds}


def time_predict(hyperparams: Path, env_id: str, rounds: int) -> dict[str, Any]:
    """
    The best action for one observation.

    :return: One row of the table; ratios are to SB3's algorithm with the MLP
    """
    agents = make_agents(hyperparams, env_id)
    observation = agents["span"].observation_space.sample()
    contenders = {name: partial(agent.predict, observation, deterministic=True) for name, agent in agents.items()}
    return {**_row(env_id, agents, take_turns(contenders, rounds, calls=50)), "rounds": rounds}


def _row(env_id: str, agents: dict[str, BaseAlgorithm], timings: dict[str, Timing]) -> dict[str, Any]:
    row: dict[str, Any] = {"environment": env_id, "algorithm": "SAC" if isinstance(agents["span"], SAC) else "PPO"}
    row.update({f"{name}_us": 1e6 * timing.median for name, timing in timings.items()})
    for prefix, name in (("", "span"), ("native_", "native_span"), ("native_mlp_", "native_mlp")):
        quartiles = timings[name].quartiles(timings["mlp"])
        row.update(zip((f"{prefix}ratio_lower", f"{prefix}ratio", f"{prefix}ratio_upper"), quartiles, strict=True))
    return row
