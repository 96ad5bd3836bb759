"""Environments by their id, and names of their observations and actions."""

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from sb3_span.saved import env_name, load_statistics
from sb3_span.saved.spaces import mismatch


def make_env(env: EnvSpec | str, **kwargs: Any) -> gym.Env:
    """``gym.make``, for which an environment that is unknown or not installed is a user's mistake."""
    try:
        return gym.make(env, **kwargs)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(
            f"There is no environment {env_name(env)!r}: {error} Check the id, install what it needs, "
            "or write module:id so that the module which registers it is imported first."
        ) from error


def make_envs(model: BaseAlgorithm, env: EnvSpec | str, n_envs: int, seed: int, vecnormalize: Path | None) -> VecEnv:
    """
    :param model: The agent that will act in them
    :param env: The environment: its id or specification
    :param n_envs: How many of them
    :param vecnormalize: VecNormalize's file, if the agent was trained with one: observations are normalised, rewards are not
    """
    envs = make_vec_env(lambda: make_env(env), n_envs=n_envs, seed=seed)
    check_spaces(model, envs, env_name(env))
    if vecnormalize is None:
        return envs
    normalised = load_statistics(vecnormalize)
    normalised.set_venv(envs)
    normalised.training = normalised.norm_reward = False
    return normalised


def check_spaces(model: BaseAlgorithm, env: gym.Env | VecEnv, env_id: str) -> None:
    """Refuse an environment whose observations or actions are not the agent's."""
    if problem := mismatch(model, env, env_id):
        raise ValueError(f"{problem} Name the environment that it was trained on.")


_HOPPER = ["thigh", "leg", "foot"]
_TWO_LEGS = [f"{side}{part}" for side in ("", "left ") for part in _HOPPER]
_CHEETAH = [f"{where} {part}" for where in ("back", "front") for part in ("thigh", "shin", "foot")]


def _planar_body(root: list[str], joints: list[str]) -> list[str]:
    """MuJoCo's walkers: all positions but the one along the track, then all velocities."""
    return [*root, *joints, "x vel.", *(f"{name} vel." for name in [*root, *joints])]


# By id, without the version.
OBSERVATIONS = {
    "CartPole": ["position", "velocity", "angle", "angular velocity"],
    "Acrobot": ["cos θ1", "sin θ1", "cos θ2", "sin θ2", "θ1 velocity", "θ2 velocity"],
    "MountainCar": ["position", "velocity"],
    "MountainCarContinuous": ["position", "velocity"],
    "Pendulum": ["cos θ", "sin θ", "angular velocity"],
    "LunarLander": ["x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg", "right leg"],
    "InvertedPendulum": ["position", "angle", "velocity", "angular velocity"],
    "Hopper": _planar_body(["z", "torso"], _HOPPER),
    "Walker2d": _planar_body(["z", "torso"], _TWO_LEGS),
    "HalfCheetah": _planar_body(["z", "torso"], _CHEETAH),
}
ACTIONS = {
    "CartPole": ["push left", "push right"],
    "Acrobot": ["torque -1", "no torque", "torque +1"],
    "MountainCar": ["left", "coast", "right"],
    "MountainCarContinuous": ["force"],
    "Pendulum": ["torque"],
    "LunarLander": ["coast", "left engine", "main engine", "right engine"],
    "InvertedPendulum": ["force"],
    "Hopper": _HOPPER,
    "Walker2d": _TWO_LEGS,
    "HalfCheetah": _CHEETAH,
}


def observation_names(space: spaces.Space, env_id: str | None = None) -> list[str]:
    """
    :param space: Observations that are one vector
    :param env_id: Their environment, if known
    :return: A name for each number of an observation: ``obs[0]`` ... if the environment is not one of those below
    """
    return _names(OBSERVATIONS, env_id, "obs", int(np.prod(space.shape or 1)))


def action_names(space: spaces.Space, env_id: str | None = None) -> list[str]:
    """
    :param space: Actions: a Discrete space, or a vector
    :param env_id: Their environment, if it is known
    :return: A name for each choice or each number of an action
    """
    return _names(ACTIONS, env_id, "action", int(space.n if isinstance(space, spaces.Discrete) else np.prod(space.shape or 1)))


def _names(known: dict[str, list[str]], env_id: str | None, prefix: str, size: int) -> list[str]:
    name = re.sub(r"-v\d+$", "", env_id or "")
    # An environment that is wrapped, or has options, may observe more than its classic form.
    if len(known.get(name, [])) == size:
        return known[name]
    return [f"{prefix}[{i}]" for i in range(size)]
