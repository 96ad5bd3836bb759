"""
What a run leaves on disk: one folder, readable without this package.

``run.json`` has the settings, versions and machine, ``evaluations.csv`` one row per evaluation, ``model.zip`` the trained
model. Every file is written whole or not at all. A run is finished when its last evaluation is, because the model is
written before it.
"""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sb3_span.files import write_text

SETTINGS, EVALUATIONS, MODEL, ERROR = "run.json", "evaluations.csv", "model.zip", "error.txt"


@dataclass(frozen=True)
class Record:
    """
    :param settings: What is in ``run.json``
    :param steps: Training steps of the evaluations, shape (E,)
    :param train_seconds: Seconds of training until then, without evaluation, shape (E,)
    :param returns: Returns of all episodes, shape (E, n_eval_episodes)
    """

    settings: dict[str, Any]
    steps: np.ndarray
    train_seconds: np.ndarray
    returns: np.ndarray

    @property
    def finished(self) -> bool:
        return len(self.steps) > 0 and int(self.steps[-1]) >= self.settings["steps"]


def read_record(folder: Path) -> Record:
    """
    :param folder: A run's folder, which has a ``run.json``
    """
    settings = read_settings(folder)
    rows = read_evaluations(folder, settings["n_eval_episodes"])
    table = np.array(rows).reshape(len(rows), settings["n_eval_episodes"] + 2)
    return Record(settings, table[:, 0].astype(int), table[:, 1], table[:, 2:])


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    try:
        settings = json.loads(path.read_text())
        return {**settings, "steps": int(settings["steps"]), "n_eval_episodes": int(settings["n_eval_episodes"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is not a run's settings ({error!r}). Restore it, or delete its folder to run it anew."
        ) from error


def read_evaluations(folder: Path, n_episodes: int) -> list[list[float]]:
    """
    :return: The rows of ``evaluations.csv``; none when the file does not exist yet
    """
    path = folder / EVALUATIONS
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    rows: list[list[float]] = []
    lines = list(csv.reader(io.StringIO(text))) or [[]]
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1 and line != _header(n_episodes):
                raise ValueError(f"{len(line)} columns where {n_episodes + 2} are needed")
            if number > 1:
                rows.append([float(cell) for cell in line])
            is_cut = number == len(lines) and not text.endswith("\n")  # perhaps within a number
            if is_cut or len(line) != n_episodes + 2 or (len(rows) > 1 and rows[-1][0] <= rows[-2][0]):
                raise ValueError(f"the row is {','.join(line)!r}")
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: half written or damaged ({error}). Restore it, or delete its folder to run it anew."
            ) from error
    return rows


def write_evaluations(folder: Path, rows: list[list[float]]) -> None:
    """
    :param rows: Step, seconds of training, and all returns, of each evaluation
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_header(len(rows[0]) - 2))
    # Seven digits: more than the noise of an evaluation will ever need.
    writer.writerows([int(row[0]), f"{row[1]:.3f}", *(f"{value:.7g}" for value in row[2:])] for row in rows)
    write_text(folder / EVALUATIONS, text.getvalue())


def run_folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "runs").glob(f"*/{SETTINGS}"))


def _header(n_episodes: int) -> list[str]:
    return ["step", "train_seconds", *(f"return_{episode}" for episode in range(n_episodes))]
