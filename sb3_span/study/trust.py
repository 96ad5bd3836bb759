"""
The code that a study would execute from outside installed packages. It is not executed without the user's consent.

A study's file and its hyperparameters name modules to import, classes to call and strings to evaluate. Those of installed
packages are accepted if they are of the right kind; other modules, such as one in a downloaded folder, and Python in a string
need ``--trust``.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from rl_zoo3.utils import get_class_by_name
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnvWrapper

from sb3_span.study.plan import Plan, Run
from sb3_span.study.study_file import OFFLINE_ALGORITHMS
from sb3_span.study.zoo_strings import EVALUATED, NotPlainError, read_zoo_string

# The entries of a hyperparameter file that name classes, and the kinds of these.
NAMED: dict[str, type] = {
    "policy": BasePolicy,
    "env_wrapper": gym.Wrapper,
    "vec_env_wrapper": VecEnvWrapper,
    "callback": BaseCallback,
}


def check_runnable(plan: Plan, file: Path) -> None:
    """
    Refuse a study that would execute code without the user's consent, or with unknown environments.

    :param file: The study's file
    """
    try:
        if not plan.trusted:
            check_trust(plan.runs)
        check_environments(plan.runs)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def check_trust(runs: Iterable[Run]) -> None:
    """Refuse runs that would execute their own code."""
    found = list(dict.fromkeys(what for run in runs for what in foreign_code(run)))
    if found:
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        raise ValueError(
            f"The study executes code from outside installed packages: {'; '.join(found[:3])}{more}. Look at it; if you "
            "trust it, repeat the command with --trust."
        )


def check_environments(runs: Iterable[Run]) -> None:
    """Import the packages that register environments, and refuse an environment that none of them has."""
    for env, packages in dict.fromkeys((run.env, run.gym_packages) for run in runs if run.algo not in OFFLINE_ALGORITHMS):
        for package in packages:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise ValueError(f"gym_packages: {error}") from error
        try:
            gym.spec(env)
        except gym.error.Error as error:
            raise ValueError(
                f"environments.{env}: Gymnasium does not know it ({error}). Name the package that registers it under "
                "gym_packages"
            ) from error


def foreign_code(run: Run) -> Iterator[str]:
    """
    :return: Descriptions of what needs the user's consent
    """
    for package in run.gym_packages:
        if not _is_installed(package):
            yield f"gym_packages imports the module {package!r}"
    if run.algo in OFFLINE_ALGORITHMS:
        return
    for option in EVALUATED:
        if isinstance(text := run.hyperparams.get(option), str):
            try:
                read_zoo_string(text)
            except NotPlainError as error:
                yield f"{option} for {run.env}: {error}"
    for option, kind in NAMED.items():
        for name in _names(run.hyperparams.get(option)):
            if "." in name and not _is_known(name, kind):
                yield f"{option} for {run.env} names {name!r}, which is no {kind.__name__} of an installed package"
    policy_kwargs = run.hyperparams.get("policy_kwargs")
    activation = policy_kwargs.get("activation_fn") if isinstance(policy_kwargs, Mapping) else None
    if isinstance(activation, str) and not _is_known(activation, th.nn.Module):
        yield f"activation_fn for {run.env} names {activation!r}, which is no Module of an installed package"


def _names(value: Any) -> list[str]:
    """One name, several, or names with options, as the Zoo allows."""
    values = value if isinstance(value, list) else [value]
    return [str(name) for each in values for name in (each if isinstance(each, Mapping) else [each]) if name is not None]


@lru_cache
def _is_known(name: str, kind: type) -> bool:
    if not _is_installed(name):
        return False
    try:
        found = get_class_by_name(name)
    except (ImportError, AttributeError, ValueError):
        return True  # the run will report it
    return isinstance(found, type) and issubclass(found, kind)


@lru_cache
def _is_installed(name: str) -> bool:
    package = name.split(".")[0]
    return package == "sb3_span" or package in packages_distributions()
