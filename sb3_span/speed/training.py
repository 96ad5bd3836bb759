"""(a) The time of an environment step in training, SPAN against the MLP of the same size."""

from functools import partial
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3 import SAC

from sb3_span.nn import SPAN
from sb3_span.speed.timing import take_turns
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
# Training shrinks the scales of the kernel basis, and four bumps are above zero then instead of three.
DRIFT = 0.9


def drift_scales(module: th.nn.Module) -> None:
    """Bring the scales to where training brings them."""
    for part in module.modules():
        if isinstance(part, SPAN) and part.scale is not None:
            part.scale.data *= DRIFT


def time_training(hyperparams: Path, env_id: str, rounds: int) -> dict[str, Any]:
    """
    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param env_id: The environment
    :param rounds: Rounds to measure
    :return: One row of the table
    """
    models = {}
    for method in ("span", "mlp"):
        overrides = {"learning_starts": 200, "buffer_size": 50_000} if env_id.endswith("-v5") else {}
        models[method] = make_agent(hyperparams / f"{method}.yml", env_id, seed=0, **overrides)
        drift_scales(models[method].policy)
    is_sac = isinstance(models["span"], SAC)
    steps = 300 if is_sac else 2048  # two rollouts of PPO
    contenders = {method: partial(model.learn, steps, reset_num_timesteps=False) for method, model in models.items()}
    timings = take_turns(contenders, rounds, units=steps)
    lower, middle, upper = timings["span"].quartiles(timings["mlp"])
    return {
        "environment": env_id,
        "algorithm": "SAC" if is_sac else "PPO",
        "span_us": 1e6 * timings["span"].median,
        "mlp_us": 1e6 * timings["mlp"].median,
        "ratio": middle,
        "ratio_lower": lower,
        "ratio_upper": upper,
        "rounds": rounds,
    }
