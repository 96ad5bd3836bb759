"""Trained agents from files."""

import inspect
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file

from sb3_span.policies.registry import supported_algorithms
from sb3_span.saved.shared_file import is_shared, load_shared


def load_agent(path: Path) -> Any:
    """
    Load a model without being told its algorithm. Loading a zip unpickles: only for files that you trust.

    :param path: A file that ``model.save`` or ``save_shared`` wrote
    :return: What acts: an algorithm, or a :class:`~sb3_span.saved.shared_file.SharedAgent`
    """
    if is_shared(path):
        return load_shared(path)
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
