"""SBX, SB3's algorithms in JAX, as a contender."""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

MISSING = "SBX is not installed, so the tables lack it: pip install 'sb3_span[bench]'."


def is_installed() -> bool:
    return importlib.util.find_spec("sbx") is not None


def make_sbx_agent(env_id: str, settings: Mapping[str, Any]) -> BaseAlgorithm:
    """
    SBX's PPO or SAC with an MLP, on one thread. It has no ``max_grad_norm`` for SAC.

    :param env_id: The environment
    :param settings: Of the algorithm, as in ``hyperparams/mlp.yml``
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import sbx

    plain = {name: value for name, value in settings.items() if name not in ("policy", "n_timesteps", "normalize", "n_envs")}
    if "policy_kwargs" in plain:
        plain["policy_kwargs"] = {"net_arch": plain["policy_kwargs"]["net_arch"]}
    algorithm = sbx.SAC if "buffer_size" in plain else sbx.PPO
    env = make_vec_env(env_id, n_envs=settings.get("n_envs", 1), seed=0)
    return algorithm("MlpPolicy", env, seed=0, **plain)
