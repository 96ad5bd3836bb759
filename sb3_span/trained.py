"""
What training leaves on disk: where a model's environment and the statistics of its observations are.

Reading the Zoo's settings unpickles, which can run any code: only for files that you trust.
"""

import dataclasses
import importlib
import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.saved.shared_file import is_shared, load_shared
from sb3_span.saved.statistics import find_statistics, load_statistics

MODEL, STUDY_RUN = "model.zip", "run.json"
NONE = "none"
# Where the agents that come with a clone of the repository are.
AGENTS = Path("examples/agents")


def load_vecnormalize(file: Path | str) -> VecNormalize:
    """
    :param file: What ``VecNormalize.save`` wrote, or a study
    """
    if is_shared(file):
        statistics = load_shared(file).vecnormalize
        if statistics is None:
            raise ValueError(f"{file} has no statistics of VecNormalize.")
        return statistics
    return load_statistics(file)


def find_model(path: Path) -> Path:
    """
    :param path: A model's zip, or a folder of the Zoo or of a study's run
    :return: The zip
    """
    if not path.is_dir():
        return path
    if (path / MODEL).is_file():
        return path / MODEL
    # The Zoo numbers its folders: logs/sac/Hopper-v5_1 has Hopper-v5.zip, and perhaps best_model.zip and checkpoints.
    final = path / f"{path.resolve().name.rsplit('_', 1)[0]}.zip"
    if final.is_file():
        return final
    zips = sorted(path.glob("*.zip"))
    if len(zips) == 1:
        return zips[0]
    runs = sorted(run.parent.name for run in path.glob(f"runs/*/{STUDY_RUN}"))
    if runs:
        raise ValueError(f"{path} is a whole study; name one of its runs, for instance {path / 'runs' / runs[0]}.")
    found = f"several models ({', '.join(file.name for file in zips)})" if zips else "no model"
    raise ValueError(f"{path} has {found}. Name the zip that model.save has written, or the folder of one run.")


def find_vecnormalize(file: Path, given: Path | None = None) -> Path | None:
    """
    :param file: A model's zip
    :param given: VecNormalize's file as the user has named it, or the word "none"; None to look for it
    :return: VecNormalize's file: beside the model in a study's run, in a subfolder with the environment's name in the Zoo,
        and in one with the model's name in ``examples/agents``
    """
    if given is not None:
        return None if str(given) == NONE else given
    if is_shared(file):  # they are in it
        return file if load_shared(file).vecnormalize is not None else None
    if in_zoo := find_statistics(file.parent / (find_env_id(file) or file.stem)):
        return in_zoo
    beside = find_statistics(file.parent)
    if beside is None:
        return None
    if not (file.parent / STUDY_RUN).is_file():
        raise ValueError(
            f"{beside} lies beside {file.name}, and nothing tells whether the model was trained with it. If it was, give "
            f"--vecnormalize {beside}; if not, --vecnormalize {NONE}."
        )
    return beside


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


def find_agent(name: str) -> Path:
    """
    :param name: A file, the folder of a study's run or of the RL Zoo, or the short name of an agent in ``examples/agents``,
        such as ``cartpole``
    :return: The file
    """
    path = Path(name)
    files = [file for ending in ("zip", "safetensors") for file in sorted(AGENTS.glob(f"*.{ending}"))]
    agents = {file.stem.rpartition("-v")[0].lower(): file for file in files}
    try:
        if path.exists():
            return find_model(path)
        for ending in ("zip", "safetensors"):  # which SB3 adds too
            if (with_ending := path.with_name(f"{path.name}.{ending}")).is_file():
                return with_ending
    except ValueError:
        if name.lower() not in agents:  # a folder of that name, such as one with exported code, does not hide the agent
            raise
    if name.lower() in agents:
        return agents[name.lower()]
    known = f"choose one of {list(agents)}" if agents else f"there is no {AGENTS} here, as in a clone of the repository"
    raise ValueError(f"{name!r} is neither a file nor the name of an agent: {known}, or name a file that model.save wrote.")


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


def env_name(env: EnvSpec | str) -> str:
    return env.id if isinstance(env, EnvSpec) else env


def same_actions(own: spaces.Space, other: spaces.Space) -> bool:
    """Whether actions of one space may be given to an environment of the other; bounds may differ."""
    if type(own) is not type(other) or own.shape != other.shape:
        return False
    return all(np.array_equal(getattr(own, name, 0), getattr(other, name, 0)) for name in ("n", "nvec"))


def env_id_in(text: str) -> str | None:
    """
    :param text: The name of a file or a folder, such as the RL Zoo's ``CartPole-v1_2``
    :return: The registered environment that it begins with; None if there is none
    """
    beginnings = [text[: match.end()] for match in re.finditer(r"-v\d+", text)]
    return next((beginning for beginning in reversed(beginnings) if beginning in gym.registry), None)
