"""
A run's records on disk: one folder, readable without this package.

``run.json`` has the settings, versions and machine, ``evaluations.csv`` one row per evaluation, ``model.zip`` the trained
model. Every file is written completely or not at all. A record has the evaluations that its settings ask for, each once and in
order, up to the run's present step; one with a gap is refused. A run is finished when its last evaluation is, because the
model is written before it. Reading a record imports nothing and unpickles nothing.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_span.atomic_files import write_text

SETTINGS, EVALUATIONS, MODEL, ERROR = "run.json", "evaluations.csv", "model.zip", "error.txt"
OFFLINE_MODEL = "model.d3"
EVAL_SECONDS = "eval_seconds"
WHAT_TO_DO = (
    "Restore it, or delete it: the run then continues from its checkpoint, which has the evaluations, or, without one, "
    "starts over."
)


class Evaluation(NamedTuple):
    """
    A row of ``evaluations.csv``.

    :param step: Training steps so far
    :param train_seconds: Seconds of training so far, without evaluation
    :param eval_seconds: Seconds of evaluating and saving so far, including this time; NaN in older records, without
        that measurement
    :param returns: Returns of the episodes, shape (n_eval_episodes,)
    """

    step: int
    train_seconds: float
    eval_seconds: float
    returns: Sequence[float]


@dataclass(frozen=True)
class Record:
    """
    :param settings: The content of ``run.json``
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


def planned_steps(settings: Mapping[str, Any]) -> list[int]:
    """
    :param settings: A run's settings, with ``steps`` and ``eval_freq``
    :return: The steps at which it is evaluated
    """
    steps, every = settings["steps"], settings["eval_freq"]
    return [*range(every, steps, every), steps]


def read_record(folder: Path) -> Record:
    """
    :param folder: A run's folder, which has a ``run.json``
    """
    settings = read_settings(folder)
    return make_record(settings, read_evaluations(folder, settings))


def make_record(settings: dict[str, Any], evaluations: Sequence[Evaluation]) -> Record:
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
        return parse_settings(path.read_text())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is not a run's settings ({error!r}). Restore it, or delete its folder to run it again."
        ) from error


def parse_settings(text: str) -> dict[str, Any]:
    """
    :param text: The content of ``run.json``
    """
    settings = json.loads(text)
    counts = {name: int(settings[name]) for name in ("steps", "eval_freq", "n_eval_episodes")}
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count}")
    return {**settings, **counts}


def read_evaluations(folder: Path, settings: Mapping[str, Any]) -> list[Evaluation]:
    """
    :param settings: The run's settings, see :func:`planned_steps`
    :return: The rows of ``evaluations.csv``; none when the file does not exist yet
    """
    path = folder / EVALUATIONS
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged ({error}). {WHAT_TO_DO}") from error
    rows: list[Evaluation] = []
    lines = list(csv.reader(io.StringIO(text))) or [[]]
    columns = header(settings["n_eval_episodes"])
    is_timed = EVAL_SECONDS in lines[0]
    if not is_timed:
        columns.remove(EVAL_SECONDS)
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1 and line != columns:
                raise ValueError(f"{len(line)} columns where {len(columns)} are needed")
            is_cut = number == len(lines) and not text.endswith("\n")  # perhaps within a number
            if is_cut or len(line) != len(columns):
                raise ValueError(f"the row is {','.join(line)!r}")
            if number > 1:
                rows.append(parse_evaluation(line if is_timed else [*line[:2], "nan", *line[2:]]))
            if len(rows) > 1 and rows[-1].step <= rows[-2].step:
                raise ValueError(f"step {rows[-1].step} after {rows[-2].step}")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: half written or damaged ({error}). {WHAT_TO_DO}") from error
    check_complete(rows, settings, path)
    return rows


def parse_evaluation(cells: Sequence[str]) -> Evaluation:
    step, train_seconds, eval_seconds, *returns = cells
    return Evaluation(int(step), float(train_seconds), float(eval_seconds), [float(cell) for cell in returns])


def check_complete(evaluations: Sequence[Evaluation], settings: Mapping[str, Any], where: Path | str) -> None:
    """
    Refuse evaluations other than those that the settings ask for, from the first one on.

    :param where: Their file
    """
    steps = [each.step for each in evaluations]
    planned = planned_steps(settings)
    if steps == planned[: len(steps)]:
        return
    if unplanned := sorted(set(steps) - set(planned)):
        why = f"has an evaluation at step {unplanned[0]}, which the run's settings do not ask for"
    else:
        missing = [step for step in planned if step < steps[-1] and step not in steps]
        why = f"lacks the evaluation at step {', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''}"
    every = f"one every {settings['eval_freq']} steps up to {settings['steps']}"
    raise ValueError(f"{where} {why}; needed is {every}, each once. {WHAT_TO_DO}")


def check_model(record: Record, folder: Path) -> None:
    """Refuse a finished run whose model is missing."""
    if record.finished and not has_model(folder):
        raise ValueError(
            f"{folder} has every evaluation but no {MODEL}: the run is not done. Restore it, or delete {EVALUATIONS} there to "
            "train it again. If the study does not need models, write 'keep_models: false' into its file."
        )


def has_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (MODEL, OFFLINE_MODEL))


def write_evaluations(folder: Path, evaluations: list[Evaluation]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header(len(evaluations[0].returns)))
    writer.writerows(map(format_evaluation, evaluations))
    write_text(folder / EVALUATIONS, text.getvalue())


def format_evaluation(each: Evaluation) -> list[str]:
    """Returns have seven digits, far below the noise of an evaluation."""
    return [
        str(each.step),
        f"{each.train_seconds:.3f}",
        f"{each.eval_seconds:.3f}",
        *(f"{value:.7g}" for value in each.returns),
    ]


def run_folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "runs").glob(f"*/{SETTINGS}"))


def header(n_episodes: int) -> list[str]:
    return ["step", "train_seconds", EVAL_SECONDS, *(f"return_{episode}" for episode in range(n_episodes))]
