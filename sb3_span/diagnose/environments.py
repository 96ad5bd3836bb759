"""A separate environment for the diagnosis."""

import dataclasses
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_span.inspection.environments import check_spaces, make_envs
from sb3_span.saved import env_name

ADVICE = "Give the callback one: DiagnosticsCallback(env=...), an id or an environment that is not normalised."


def make_own_env(model: BaseAlgorithm, env: EnvSpec | str | gym.Env | VecEnv | None, n_envs: int, seed: int) -> VecEnv:
    """
    :param model: The agent
    :param env: An environment, its id or its specification; None for the same as in training
    :param n_envs: How many to make
    :return: Not normalised, and not that of training
    """
    if env is None:
        env = _training_spec(model)
    if isinstance(env, EnvSpec | str):
        own = make_envs(model, env, n_envs, seed, vecnormalize=None)
        name = env_name(env)
    else:
        own, name = BaseAlgorithm._wrap_env(env, verbose=0), "env"
        if model.env is not None and {*map(id, _inner(own))} & {*map(id, _inner(model.env))}:
            raise ValueError("env is the environment of training, whose episodes would be cut short. Make a second one.")
    while isinstance(own, VecNormalize):  # the statistics are those of training
        own = own.venv
    own = BaseAlgorithm._wrap_env(own, verbose=0)  # images with their channels first, as for training
    check_spaces(model, own, name)
    return own


def _inner(env: VecEnv) -> list[Any]:
    unwrapped: Any = env.unwrapped
    return [unwrapped, *(each.unwrapped for each in getattr(unwrapped, "envs", ()))]


def _training_spec(model: BaseAlgorithm) -> EnvSpec:
    spec = model.env.get_attr("spec")[0] if model.env is not None else None
    if not isinstance(spec, EnvSpec):
        raise ValueError(f"The environment of training is not registered, so a second one cannot be made. {ADVICE}")
    # SB3's Monitor only counts; other wrappers that do not record their arguments cannot be made again.
    wrappers = [wrapper for wrapper in spec.additional_wrappers if wrapper.name != "Monitor"]
    unknown = [wrapper.name for wrapper in wrappers if wrapper.kwargs is None]
    if unknown:
        raise ValueError(f"The environment of training has the wrappers {unknown}, which cannot be made again. {ADVICE}")
    return dataclasses.replace(spec, additional_wrappers=tuple(wrappers))
