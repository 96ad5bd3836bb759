"""A step of SB3's vectorised environments, without copies of what nobody can change."""

from copy import deepcopy
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

Stepped = tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]
UNCHANGEABLE = (bool, int, float, str, type(None), np.bool_, np.float64, np.float32, np.int64, np.int32)


def step(env: VecEnv, actions: np.ndarray) -> Stepped:
    """``env.step(actions)``, which copies observations and infos by way of ``deepcopy``: as much time as a physics engine."""
    if type(env) is VecNormalize and _has_vectors(env) and _is_untouched(env):
        return _normalize(env, step(env.venv, actions))
    if type(env) is DummyVecEnv and env.keys == [None] and _is_untouched(env):
        return _step_each(env, actions)
    return env.step(actions)


def _has_vectors(env: VecNormalize) -> bool:
    """Whether the statistics are not those of a Dict; without ``norm_obs`` there are none of observations."""
    return not env.norm_obs or type(env.obs_rms) is RunningMeanStd


def _is_untouched(env: VecEnv) -> bool:
    return not {"step", "step_async", "step_wait"} & vars(env).keys()


def _step_each(env: DummyVecEnv, actions: np.ndarray) -> Stepped:
    env.step_async(actions)
    into, infos = env.buf_obs[None], env.buf_infos  # type: ignore[index]
    for i, one in enumerate(env.envs):
        obs, env.buf_rews[i], terminated, truncated, info = one.step(actions[i])
        env.buf_dones[i] = is_done = terminated or truncated
        info["TimeLimit.truncated"] = truncated and not terminated
        infos[i] = info
        if is_done:
            info["terminal_observation"] = obs
            obs, env.reset_infos[i] = one.reset()
        into[i] = obs
    return into.copy(), env.buf_rews.copy(), env.buf_dones.copy(), [_copied(info) for info in infos]


def _copied(info: dict[str, Any]) -> dict[str, Any]:
    """As ``deepcopy`` does it."""
    if type(info) is not dict:
        return deepcopy(info)
    return {name: value if type(value) in UNCHANGEABLE else deepcopy(value) for name, value in info.items()}


def _normalize(env: VecNormalize, stepped: Stepped) -> Stepped:
    """What ``VecNormalize.step_wait`` does with a step of the environments that it is around."""
    obs, rewards, dones, infos = stepped
    env.old_obs, env.old_reward = obs, rewards
    if env.training and env.norm_obs:
        _update(env.obs_rms, obs)  # type: ignore[arg-type]
    normalized = env.normalize_obs(obs)
    if env.training:
        env.returns = env.returns * env.gamma + rewards
        _update(env.ret_rms, env.returns)
    for i in np.flatnonzero(dones):
        if "terminal_observation" in infos[i]:
            infos[i]["terminal_observation"] = env.normalize_obs(infos[i]["terminal_observation"])
    rewards = env.normalize_reward(rewards)
    env.returns[dones] = 0
    return normalized, rewards, dones, infos


def _update(statistics: RunningMeanStd, values: np.ndarray) -> None:
    if len(values) == 1:  # its mean is itself
        statistics.update_from_moments(values[0], np.zeros_like(values[0]), 1)
    else:
        statistics.update(values)


def does_nothing(callback: BaseCallback) -> bool:
    """Whether it is what SB3 makes of no callback."""
    return type(callback) is ConvertCallback and callback.callback is None
