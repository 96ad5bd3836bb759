"""SBX, SB3's algorithms in JAX, as a contender."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import yaml
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

MISSING = "SBX is not installed, so the tables lack it: pip install 'sb3_span[bench]'."


def is_installed() -> bool:
    return importlib.util.find_spec("sbx") is not None


def make_sbx_agent(hyperparams: Path, env_id: str, **overrides: Any) -> BaseAlgorithm:
    """
    SBX's PPO or SAC with the MLP of the file, on one thread. It has no ``max_grad_norm`` for SAC.

    :param hyperparams: A Zoo file of plain values, such as ``hyperparams/mlp.yml``
    :param env_id: The environment
    :param overrides: What replaces the file's settings
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import sbx

    settings = {**yaml.safe_load(hyperparams.read_text())[env_id], **overrides}
    env = make_vec_env(env_id, n_envs=settings.pop("n_envs", 1), seed=0)
    algorithm = sbx.SAC if "buffer_size" in settings else sbx.PPO
    settings["policy_kwargs"] = {"net_arch": settings["policy_kwargs"]["net_arch"]}
    plain = {name: value for name, value in settings.items() if name not in ("policy", "n_timesteps", "normalize")}
    return algorithm("MlpPolicy", env, seed=0, **plain)
