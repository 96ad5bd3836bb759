"""Trained agents from files."""

import inspect
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file

from sb3_span.policies.registry import supported_algorithms
from sb3_span.trained import find_env_id, find_model
from sb3_span.viewing.environments import env_id_in

# Where the agents that come with a clone of the repository are.
AGENTS = Path("examples/agents")


def find_agent(name: str) -> Path:
    """
    :param name: A file, the folder of a study's run or of the RL Zoo, or the short name of an agent in ``examples/agents``,
        such as ``cartpole``
    :return: The file
    """
    path = Path(name)
    if path.exists():
        return find_model(path)
    agents = {file.stem.rpartition("-v")[0].lower(): file for file in sorted(AGENTS.glob("*.zip"))}
    if name.lower() in agents:
        return agents[name.lower()]
    known = f"choose one of {list(agents)}" if agents else f"there is no {AGENTS} here, as in a clone of the repository"
    raise ValueError(f"{name!r} is neither a file nor the name of an agent: {known}, or name a file that model.save wrote.")


def env_id_of(path: Path) -> str | None:
    """
    The environment that a file was trained on, as far as the folder of its run or its name tells: ``CartPole-v1.zip``, or
    any file in a folder of the RL Zoo, such as ``CartPole-v1_2/best_model.zip``.

    :param path: A model's file
    """
    return find_env_id(path) or env_id_in(path.stem) or env_id_in(path.absolute().parent.name)


def load_agent(path: Path) -> BaseAlgorithm:
    """
    Load a model without being told its algorithm. Loading unpickles: only for files that you trust.

    :param path: A file that ``model.save`` wrote
    """
    try:
        data, _, _ = load_from_zip_file(path, device="cpu")
    except Exception as error:  # whatever unpickling may raise
        raise ValueError(f"{path} cannot be read as a model of Stable-Baselines3: {error}") from error
    if not data or "policy_class" not in data:
        raise ValueError(f"{path} holds no model of Stable-Baselines3; it must be a file that model.save wrote.")
    policy_class = data["policy_class"]
    algorithms = [
        algorithm
        for algorithm in supported_algorithms().values()
        if issubclass(policy_class, tuple(algorithm.policy_aliases.values()))
    ]
    if not algorithms:
        known = list(supported_algorithms())
        raise ValueError(f"{path} has the policy {policy_class.__name__}, which is of none of the algorithms {known}.")
    return min(algorithms, key=lambda algorithm: _strangeness(algorithm, data)).load(path, device="cpu")


def _strangeness(algorithm: type[BaseAlgorithm], data: dict[str, Any]) -> tuple[bool, int, int]:
    """
    How badly a saved model fits an algorithm. The file does not name it, but it holds the algorithm's policy and most
    arguments of its constructor.
    """
    arguments = inspect.signature(algorithm).parameters.keys()
    stored = len(arguments & data.keys())
    return data["policy_class"] not in algorithm.policy_aliases.values(), -stored, len(arguments)
