"""Training through the study queue: from methods, years and seeds to a study, and from its models to controlled years."""

import tempfile
from pathlib import Path
from typing import Any

import yaml

from sb3_span.hvac.env import BuildingEnv
from sb3_span.shipped import HYPERPARAMS
from sb3_span.study.command import retry, run_study
from sb3_span.study.folder import STUDY_FILE
from sb3_span.study.records import ERROR

METHODS = ("span", "mlp")


def train(
    env_id: str,
    methods: list[str],
    years: int,
    seeds: list[int],
    folder: Path,
    n_workers: int = 1,
    hyperparams: Path = HYPERPARAMS,
    days: dict[str, Any] | None = None,
) -> bool:
    """
    Train SAC agents, with an evaluation year after each training year, or continue after a stop or a failure.

    :param env_id: The building and its climate
    :param methods: ``span``, ``mlp`` or both, which are files in ``hyperparams``
    :param years: Years to train
    :param seeds: One agent of each method for each of them
    :param folder: The study's folder
    :param n_workers: Agents to train at a time
    :param hyperparams: Folder with ``span.yml`` and ``mlp.yml``
    :param days: ``first_day`` and ``last_day``, for years that are shorter
    :return: Whether all of them are trained
    """
    if years < 1:
        raise ValueError(f"--years is {years}; at least 1 is needed. The paper has 10.")
    if (folder / STUDY_FILE).exists() and any(folder.glob(f"runs/*/{ERROR}")):
        retry(folder, None)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / STUDY_FILE
        file.write_text(yaml.safe_dump(make_study(env_id, methods, years, seeds, hyperparams, days or {}), sort_keys=False))
        return run_study(file, folder, None, n_workers)


def make_study(
    env_id: str, methods: list[str], years: int, seeds: list[int], hyperparams: Path, days: dict[str, Any]
) -> dict[str, Any]:
    """
    :return: The content of a study's file, see ``docs/studies.md``; other parameters are those of :func:`train`
    """
    env = BuildingEnv(env_id, **days)
    env_id = env.site.env_id
    entries = {method: {env_id: _entry(hyperparams / f"{method}.yml", env_id)} for method in methods}
    for entry in entries.values():
        if days:
            entry[env_id]["env_kwargs"] = days
    return {
        "name": env_id,
        "gym_packages": ["sb3_span.hvac"],
        "environments": {env_id: {"algo": "sac", "steps": years * env.n_steps}},
        "methods": {method: {"hyperparams": entry} for method, entry in entries.items()},
        "seeds": seeds,
        "evaluation": {"every": env.n_steps, "episodes": 1},
    }


def _entry(file: Path, env_id: str) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"There is no {file}. Name a folder that has it with --hyperparams.")
    entries = yaml.safe_load(file.read_text())
    if env_id not in entries:
        raise ValueError(f"{file} has no entry for {env_id!r}; copy that of another building, or choose another --env.")
    return entries[env_id]
