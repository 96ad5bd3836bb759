"""
The environment of a saved model, as far as its folder and its name tell.

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
    :return: Its environment, as the study's run or the Zoo's folder has it
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
    """The packages that a study's run was trained with: one of them registers its environment."""
    settings = file.parent / STUDY_RUN
    return _read_run(settings).get("gym_packages", []) if settings.is_file() else []


def env_options(file: Path) -> dict[str, Any]:
    """The options of the environment (``env_kwargs``) that a model was trained with, as far as its folder tells."""
    if (file.parent / STUDY_RUN).is_file():
        return _read_run(file.parent / STUDY_RUN).get("hyperparams", {}).get("env_kwargs") or {}
    folder = _zoo_folder(file)
    if folder is None:
        return {}
    import yaml  # the Zoo needs it too; who exports to C need not have it

    for name in ("args.yml", "config.yml"):  # given with the command, or in the hyperparameters
        if (folder / name).is_file():
            settings = yaml.load((folder / name).read_text(), Loader=yaml.UnsafeLoader)  # an OrderedDict of Python's
            if options := (settings or {}).get("env_kwargs"):
                return dict(options)
    return {}


def env_of(path: Path) -> EnvSpec | str | None:
    """
    The environment that a file was trained on, as far as the folder of its run or its name tells: ``CartPole-v1.zip``, or
    any file in a folder of the RL Zoo, such as ``CartPole-v1_2/best_model.zip``. The packages that a study names for it are
    imported.

    :param path: A model's file
    :return: Its id, or a specification where it was trained with options of its own; None if nothing tells
    """
    if is_shared(path):  # which is not trusted: what lies beside it stays unread
        return load_shared(path).env_id or env_id_in(path.stem)
    env_id = find_env_id(path)
    if env_id is None:
        return env_id_in(path.stem) or env_id_in(path.absolute().parent.name)
    for package in _gym_packages(path):
        try:
            importlib.import_module(package)
        except Exception:
            return f"{package}:{env_id}"  # Gymnasium imports it again, and making the environment says what is wrong
    options = env_options(path)
    if not options:
        return env_id
    try:
        spec = gym.spec(env_id)
    except gym.error.Error:
        return env_id  # making it says what is missing
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **options})


def env_needed(path: Path, given: str | None) -> EnvSpec | str:
    """
    The environment, where nothing can be done without one.

    :param path: A model's file
    :param given: The environment as the user has named it; None to look for it
    """
    env = given or env_of(path)
    if env is None:
        raise ValueError(
            f"The name of {path} does not tell the environment. Name it, for example --env CartPole-v1, or --env MODULE:ID if "
            "a module of yours registers it."
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
