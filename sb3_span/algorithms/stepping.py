"""A step of SB3's vectorised environments, without copies of what nobody can change."""

from copy import deepcopy
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from sb3_span.algorithms.extension import extension

Stepped = tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]
UNCHANGEABLE = (bool, int, float, str, type(None), np.bool_, np.float64, np.float32, np.int64, np.int32)


def step(env: VecEnv, actions: np.ndarray) -> Stepped:
    """``env.step(actions)``, which copies observations and infos by way of ``deepcopy``: as much time as a physics engine."""
    if type(env) is VecNormalize and knows(env) and _is_untouched(env):
        return _normalize(env, step(env.venv, actions))
    if type(env) is DummyVecEnv and env.keys == [None] and _is_untouched(env):
        return _step_each(env, actions)
    return env.step(actions)


def knows(env: VecEnv) -> bool:
    """Whether it is SB3's VecNormalize with statistics that native code takes: of vectors, in double precision."""
    if type(env) is not VecNormalize:
        return False
    statistics = env.obs_rms if env.norm_obs else None  # without norm_obs there need not be any
    return statistics is None or (
        type(statistics) is RunningMeanStd and statistics.mean.dtype.char == "d" and statistics.var.dtype.char == "d"
    )


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
    normalized = _normalize_obs(env, obs) if env.norm_obs else env.normalize_obs(obs)
    if env.training:
        env.returns = env.returns * env.gamma + rewards
        if len(rewards) == 1:
            _join(env.ret_rms, float(env.returns[0]))
        else:
            env.ret_rms.update(env.returns)
    for i in dones.nonzero()[0]:
        if "terminal_observation" in infos[i]:
            infos[i]["terminal_observation"] = env.normalize_obs(infos[i]["terminal_observation"])
        env.returns[i] = 0
    return normalized, env.normalize_reward(rewards), dones, infos


def _normalize_obs(env: VecNormalize, obs: np.ndarray) -> np.ndarray:
    """Normalised by statistics that have these observations too, if the environment is one that trains."""
    statistics: Any = env.obs_rms
    if not (extension is not None and obs.dtype.char in "fd" and obs.flags.c_contiguous):
        if env.training:
            statistics.update(obs)
        return env.normalize_obs(obs)  # type: ignore[return-value]
    count = None
    if env.training and len(obs) > 1:
        statistics.update(obs)
    elif env.training:  # in C too, and not in the arrays that somebody may have kept
        statistics.mean, statistics.var, count = statistics.mean.copy(), statistics.var.copy(), statistics.count
        statistics.count = count + 1
    normalized = np.empty(obs.shape, dtype=np.float32)
    extension.normalize(obs, statistics.mean, statistics.var, count, env.epsilon, env.clip_obs, normalized)
    return normalized


def _join(statistics: RunningMeanStd, value: float) -> None:
    """``statistics.update`` with one number."""
    count, delta = statistics.count, value - statistics.mean
    total = count + 1
    statistics.mean = statistics.mean + delta / total
    statistics.var = (statistics.var * count + delta * delta * count / total) / total
    statistics.count = total


def listens(callback: BaseCallback, name: str) -> bool:
    """
    Whether calling this function of a callback runs code other than SB3's.

    :param name: ``on_step``, ``on_rollout_start`` or ``on_rollout_end``
    """
    if type(callback) is CallbackList:
        return any(listens(one, name) for one in callback.callbacks)
    if type(callback) is ConvertCallback:
        return name == "on_step" and callback.callback is not None
    cls = type(callback)
    return any(getattr(cls, one) is not getattr(BaseCallback, one) for one in (name, f"_{name}")) or name in vars(callback)
