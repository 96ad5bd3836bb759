"""
The environment of a saved model, if its folder or its name says which it is.

Reading the Zoo's settings unpickles, which can run any code: only for files that you trust.
"""

import dataclasses
import importlib
import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from sb3_span.saved.names import STUDY_RUN
from sb3_span.saved.shared_file import is_shared, load_shared


def find_env_id(file: Path) -> str | None:
    """
    :param file: A model's zip
    :return: Its environment, from the settings of a study's run or the Zoo's folder
    """
    if (file.parent / STUDY_RUN).is_file():
        return str(_read_run(file.parent / STUDY_RUN)["env"])
    folder = _zoo_folder(file)
    return None if folder is None else folder.name


def _read_run(settings: Path) -> dict[str, Any]:
    try:
        run = json.loads(settings.read_text())
    except ValueError as error:
        raise ValueError(f"{settings} is not a run's settings ({error!r}).") from error
    if not isinstance(run, dict) or "env" not in run:
        raise ValueError(f"{settings} is not a run's settings: it names no environment.")
    return run


def _zoo_folder(file: Path) -> Path | None:
    """The Zoo keeps a run's settings in <folder>/<env>/config.yml."""
    configs = sorted(file.parent.glob("*/config.yml"))
    return configs[0].parent if len(configs) == 1 else None


def _gym_packages(file: Path) -> list[str]:
    """The ``gym_packages`` of a study's run: one of them registers its environment."""
    settings = file.parent / STUDY_RUN
    return _read_run(settings).get("gym_packages", []) if settings.is_file() else []


def env_options(file: Path) -> dict[str, Any]:
    """The options of the environment (``env_kwargs``) that a model was trained with, if its folder has them."""
    if (file.parent / STUDY_RUN).is_file():
        return _read_run(file.parent / STUDY_RUN).get("hyperparams", {}).get("env_kwargs") or {}
    folder = _zoo_folder(file)
    if folder is None:
        return {}
    import yaml  # comes with the Zoo; exporting to C does not need it

    for name in ("args.yml", "config.yml"):  # from the command line, or from the hyperparameters
        if (folder / name).is_file():
            settings = yaml.load((folder / name).read_text(), Loader=yaml.UnsafeLoader)  # an OrderedDict of Python's
            if options := (settings or {}).get("env_kwargs"):
                return dict(options)
    return {}


def env_of(path: Path) -> EnvSpec | str | None:
    """
    The environment that a file was trained on, from the folder of its run or its name: ``CartPole-v1.zip``, or
    any file in a folder of the RL Zoo, such as ``CartPole-v1_2/best_model.zip``. The packages that a study names for it are
    imported.

    :param path: A model's file
    :return: Its id, or a specification if it was trained with its own options; None if unknown
    """
    if is_shared(path):  # not trusted: files next to it are not read
        return load_shared(path).env_id or env_id_in(path.stem)
    env_id = find_env_id(path)
    if env_id is None:
        return env_id_in(path.stem) or env_id_in(path.absolute().parent.name)
    for package in _gym_packages(path):
        try:
            importlib.import_module(package)
        except Exception:
            return f"{package}:{env_id}"  # Gymnasium imports it again, and reports what is wrong when it makes the environment
    options = env_options(path)
    if not options:
        return env_id
    try:
        spec = gym.spec(env_id)
    except gym.error.Error:
        return env_id  # making it reports what is missing
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **options})


def env_needed(path: Path, given: str | None) -> EnvSpec | str:
    """
    The environment, for commands that need one.

    :param path: A model's file
    :param given: The environment that the user has named; None to look for it
    """
    env = given or env_of(path)
    if env is None:
        raise ValueError(
            f"The environment of {path} is not known. Name it, for example --env CartPole-v1, or --env MODULE:ID if your "
            "module registers it."
        )
    return env


def env_name(env: EnvSpec | str) -> str:
    return env.id if isinstance(env, EnvSpec) else env


def env_id_in(text: str) -> str | None:
    """
    :param text: The name of a file or a folder, such as the RL Zoo's ``CartPole-v1_2``
    :return: The registered environment that it begins with; None if there is none
    """
    beginnings = [text[: match.end()] for match in re.finditer(r"-v\d+", text)]
    return next((beginning for beginning in reversed(beginnings) if beginning in gym.registry), None)
