"""
What a run leaves on disk: one folder, readable without this package.

``run.json`` has the settings, versions and machine, ``evaluations.csv`` one row per evaluation, ``model.zip`` the trained
model. Every file is written whole or not at all. A run is finished when its last evaluation is, because the model is
written before it.
"""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_span.files import write_text

SETTINGS, EVALUATIONS, MODEL, ERROR = "run.json", "evaluations.csv", "model.zip", "error.txt"
EVAL_SECONDS = "eval_seconds"


class Evaluation(NamedTuple):
    """
    A row of ``evaluations.csv``.

    :param step: Training steps until then
    :param train_seconds: Seconds of training until then, without evaluation
    :param eval_seconds: Seconds of evaluating and saving until then, this time included; NaN in records from before these
        were measured
    :param returns: Returns of the episodes, shape (n_eval_episodes,)
    """

    step: int
    train_seconds: float
    eval_seconds: float
    returns: Sequence[float]


@dataclass(frozen=True)
class Record:
    """
    :param settings: What is in ``run.json``
    :param steps: Training steps of the evaluations, shape (E,)
    :param train_seconds: See :class:`Evaluation`, shape (E,)
    :param eval_seconds: See :class:`Evaluation`, shape (E,)
    :param returns: Returns of all episodes, shape (E, n_eval_episodes)
    """

    settings: dict[str, Any]
    steps: np.ndarray
    train_seconds: np.ndarray
    eval_seconds: np.ndarray
    returns: np.ndarray

    @property
    def finished(self) -> bool:
        return len(self.steps) > 0 and int(self.steps[-1]) >= self.settings["steps"]


def read_record(folder: Path) -> Record:
    """
    :param folder: A run's folder, which has a ``run.json``
    """
    settings = read_settings(folder)
    evaluations = read_evaluations(folder, settings["n_eval_episodes"])
    return Record(
        settings,
        steps=np.array([each.step for each in evaluations], dtype=int),
        train_seconds=np.array([each.train_seconds for each in evaluations]),
        eval_seconds=np.array([each.eval_seconds for each in evaluations]),
        returns=np.array([each.returns for each in evaluations]).reshape(len(evaluations), settings["n_eval_episodes"]),
    )


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    try:
        settings = json.loads(path.read_text())
        return {**settings, "steps": int(settings["steps"]), "n_eval_episodes": int(settings["n_eval_episodes"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is not a run's settings ({error!r}). Restore it, or delete its folder to run it anew."
        ) from error


def read_evaluations(folder: Path, n_episodes: int) -> list[Evaluation]:
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
    rows: list[Evaluation] = []
    lines = list(csv.reader(io.StringIO(text))) or [[]]
    header = _header(n_episodes)
    is_timed = EVAL_SECONDS in lines[0]
    if not is_timed:
        header.remove(EVAL_SECONDS)
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1 and line != header:
                raise ValueError(f"{len(line)} columns where {len(header)} are needed")
            is_cut = number == len(lines) and not text.endswith("\n")  # perhaps within a number
            if is_cut or len(line) != len(header):
                raise ValueError(f"the row is {','.join(line)!r}")
            if number > 1:
                step, train_seconds, *others = line
                eval_seconds = others.pop(0) if is_timed else math.nan
                rows.append(Evaluation(int(step), float(train_seconds), float(eval_seconds), [float(cell) for cell in others]))
            if len(rows) > 1 and rows[-1].step <= rows[-2].step:
                raise ValueError(f"step {rows[-1].step} after {rows[-2].step}")
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: half written or damaged ({error}). Restore it, or delete its folder to run it anew."
            ) from error
    return rows


def write_evaluations(folder: Path, evaluations: list[Evaluation]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_header(len(evaluations[0].returns)))
    # Seven digits: more than the noise of an evaluation will ever need.
    writer.writerows(
        [each.step, f"{each.train_seconds:.3f}", f"{each.eval_seconds:.3f}", *(f"{value:.7g}" for value in each.returns)]
        for each in evaluations
    )
    write_text(folder / EVALUATIONS, text.getvalue())


def run_folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "runs").glob(f"*/{SETTINGS}"))


def _header(n_episodes: int) -> list[str]:
    return ["step", "train_seconds", EVAL_SECONDS, *(f"return_{episode}" for episode in range(n_episodes))]
