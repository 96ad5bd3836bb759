"""All records of a study's folder: the usable ones, and the others with the reason. Nothing is imported or unpickled."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sb3_span.study.packed import is_packed, read_packed
from sb3_span.study.plan import Plan
from sb3_span.study.records import SETTINGS, Record, check_model, read_record, run_folders

STUDY_FILE = "study.yml"


@dataclass(frozen=True)
class Stored:
    """
    :param records: By the runs' keys; a run that has just begun has no evaluation
    :param broken: The reasons why other records are unusable, by the runs' keys
    """

    records: dict[str, Record] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


def read_stored(folder: Path, plan: Plan | None = None, models: bool = False) -> Stored:
    """
    :param folder: The study's folder: one of runs, or packed
    :param plan: What the study runs; records that differ from it are broken
    :param models: Whether a finished run without its model is broken, where the plan keeps models
    """
    stored = Stored()
    planned = {run.key: run for run in plan.runs} if plan else {}
    for key, found in _found(folder):
        try:
            if isinstance(found, ValueError):
                raise found
            if (named := found.settings.get("key", key)) != key:
                raise ValueError(f"{folder / 'runs' / key / SETTINGS} is that of another run, {named}. Delete or rename it.")
            if key in planned:
                planned[key].check_settings(found.settings, folder / "runs" / key / SETTINGS)
            if models and plan and plan.keep_models and not is_packed(folder):
                check_model(found, folder / "runs" / key)
        except ValueError as error:
            stored.broken[key] = str(error)
        else:
            stored.records[key] = found
    return stored


def _found(folder: Path) -> Iterator[tuple[str, Record | ValueError]]:
    if is_packed(folder):
        yield from read_packed(folder).items()
        return
    for path in run_folders(folder):
        try:
            yield path.name, read_record(path)
        except ValueError as error:
            yield path.name, error
