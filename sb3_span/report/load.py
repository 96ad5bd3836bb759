"""From a study's folder to its runs, finished or not."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sb3_span.study.folder import STUDY_FILE, read_stored
from sb3_span.study.plan import Plan, read_plan
from sb3_span.study.records import ERROR, Record

# The settings of a run that a report needs.
SETTINGS = {name: str for name in ("key", "env", "method", "algo")} | {
    name: int for name in ("seed", "steps", "eval_freq", "n_eval_episodes")
}
KINDS = {str: "a word", int: "a whole number"}


@dataclass(frozen=True)
class Run:
    """
    One training run, finished or not.

    :param cell: The grid's options that differ from the base setting; empty outside ablations
    :param base: The base setting's values of the grid's options; empty outside ablations
    :param budget: Steps of the finished run
    :param steps: Training steps of the evaluations, shape (E,)
    :param seconds: Seconds of training so far, shape (E,)
    :param eval_seconds: Seconds of evaluating so far, shape (E,); NaN where not measured
    :param means: Mean return of each evaluation, shape (E,)
    :param settings: All of ``run.json``
    """

    env: str
    method: str
    seed: int
    cell: dict[str, Any]
    base: dict[str, Any]
    budget: int
    finished: bool
    steps: np.ndarray
    seconds: np.ndarray
    eval_seconds: np.ndarray
    means: np.ndarray
    settings: dict[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        return self.settings["key"]

    @property
    def algo(self) -> str:
        return self.settings["algo"]

    @property
    def final(self) -> float:
        """Mean return of the last evaluation."""
        return float(self.means[-1])

    @property
    def is_finite(self) -> bool:
        """Whether every evaluation has a return; a network that diverged may have none."""
        return bool(np.isfinite(self.means).all())

    @property
    def final_seconds(self) -> float:
        return float(self.seconds[-1])


@dataclass(frozen=True)
class Study:
    """
    :param runs: Those with at least one evaluation, ordered by environment, method and seed
    :param planned: The number of planned runs outside ablation cells, by environment and method. Without a plan, those
        with a record
    :param n_planned: The number of all planned runs, None without a plan
    :param unplanned: Keys of runs with a record, readable or not, that are not in the plan
    :param algos: The algorithms in each environment, planned or run
    :param broken: Unreadable records: the run's folder and why
    :param failed: Runs that ended with an error, and its last line
    :param remarks: What a reader should know about the study as a whole
    """

    name: str
    envs: list[str]
    methods: list[str]
    runs: list[Run]
    planned: Counter[tuple[str, str]]
    n_planned: int | None
    unplanned: set[str]
    algos: dict[str, set[str]]
    broken: dict[str, str]
    failed: dict[str, str]
    remarks: list[str]

    def select(self, env: str, method: str) -> list[Run]:
        """The runs of a method in an environment, without ablation cells."""
        return self._selected.get((env, method), [])

    def finished(self, env: str, method: str) -> list[Run]:
        return [run for run in self.select(env, method) if run.finished]

    def finals(self, env: str, method: str) -> np.ndarray:
        """Final returns of the finished runs, shape (seeds,)."""
        return np.array([run.final for run in self.finished(env, method)])

    def budgets(self, env: str, *methods: str) -> list[int]:
        """The budgets of these methods' finished runs, the smallest first; of those under way while none is finished."""
        runs = [run for method in methods for run in self.select(env, method)]
        return sorted({run.budget for run in [run for run in runs if run.finished] or runs})

    @property
    def others(self) -> list[str]:
        """The methods that the first one is compared with."""
        return self.methods[1:]

    @cached_property
    def _selected(self) -> dict[tuple[str, str], list[Run]]:
        selected: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            if not run.cell:
                selected.setdefault((run.env, run.method), []).append(run)
        return selected


def load_study(folder: Path) -> Study:
    """
    Read every record of a study. An unreadable one is listed with its error, and the others are still read.

    :param folder: The study's folder: ``runs``, or packed into one table, and, usually, ``study.yml``
    """
    plan, remarks = _read_plan(folder / STUDY_FILE)
    stored = read_stored(folder, plan)
    if not stored.records and not stored.broken:
        raise ValueError(
            f"There are no records in {folder / 'runs'}. Give the folder of a study: sb3-span study run ... --folder FOLDER."
        )
    runs, broken = [], {key: why.replace(f"{folder}/", "") for key, why in stored.broken.items()}
    for key, record in stored.records.items():
        try:
            run = _to_run(record)
        except ValueError as error:
            broken[key] = str(error)
            continue
        if len(run.steps):
            runs.append(run)
    if not runs and broken:
        name, why = next(iter(broken.items()))
        raise ValueError(
            f"No run in {folder / 'runs'} can be reported; {len(broken)} cannot be read, the first being {name}: {why}"
        )
    if not runs:
        raise ValueError(
            f"None of the {len(stored.records)} runs in {folder / 'runs'} has an evaluation yet. Try again later."
        )
    described: list[Any] = [*(plan.runs if plan else []), *runs]
    envs = list(dict.fromkeys(run.env for run in described))
    # Without a plan SPAN comes first: the others are compared with it.
    methods = list(dict.fromkeys(run.method for run in (described if plan else sorted(runs, key=_span_first))))
    runs.sort(key=lambda run: (envs.index(run.env), methods.index(run.method), run.seed))
    return Study(
        name=plan.name if plan else folder.resolve().name,
        envs=envs,
        methods=methods,
        runs=runs,
        planned=_count(plan.runs if plan else runs),
        n_planned=len(plan.runs) if plan else None,
        unplanned=({run.key for run in runs} | set(broken)) - {run.key for run in plan.runs} if plan else set(),
        algos={env: {run.algo for run in described if run.env == env} for env in envs},
        broken=broken,
        failed={path.parent.name: _last_line(path) for path in sorted(folder.glob(f"runs/*/{ERROR}"))},
        remarks=remarks,
    )


def _read_plan(path: Path) -> tuple[Plan | None, list[str]]:
    if not path.exists():
        return None, [
            "There is no study.yml in the folder: what was planned is not known, and all that was found is reported."
        ]
    try:
        return read_plan(path), []
    except ValueError as error:
        # An environment's package may be missing here while its records are fine.
        return None, [f"The plan could not be read, so what is missing is not known. {error}"]


def _to_run(record: Record) -> Run:
    settings = record.settings
    for name, kind in SETTINGS.items():
        value = settings.get(name)
        if not isinstance(value, kind):
            what = f"has no {name}" if value is None else f"has {value!r} for {name}"
            raise ValueError(f"run.json {what}, not {KINDS[kind]}. Restore it, or delete its folder to run it again.")
    return Run(
        env=settings["env"],
        method=settings["method"],
        seed=settings["seed"],
        cell=settings.get("cell", {}),
        base=settings.get("base", {}),
        budget=settings["steps"],
        finished=record.finished,
        steps=record.steps,
        seconds=record.train_seconds,
        eval_seconds=record.eval_seconds,
        means=record.returns.mean(axis=1),
        settings=settings,
    )


def _last_line(path: Path) -> str:
    return (path.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]


def _span_first(run: Run) -> tuple[bool, str]:
    return run.method != "span", run.method


def _count(runs: Iterable[Any]) -> Counter[tuple[str, str]]:
    return Counter((run.env, run.method) for run in runs if not run.cell)
