"""The repository's records, as the claims need them: which runs are the paper's, and what command made them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from claims.rules import NotRun
from sb3_span.hvac.buildings import DEFAULT
from sb3_span.hvac.results import Results, load_results
from sb3_span.report.data_sets import scores
from sb3_span.report.formats import short_number
from sb3_span.report.load import Run, Study, load_study
from sb3_span.report.scores import ablations
from sb3_span.report.statistics import MIN_SEEDS
from sb3_span.scores.references import paper, thresholds
from sb3_span.scores.thresholds import steps_to_threshold
from sb3_span.shipped import STUDIES
from sb3_span.study.paths import replace_options

METHODS = ("span", "mlp")
FULL_RUNS = "sb3-span study run paper"  # what makes the paper's runs in full
EVIDENCE = "evidence"  # the study whose settings are the paper's
PAPERS_NAMES = {DEFAULT: "Eplus-datacenter_cw-mixed-continuous-v1"}  # of environments that have another name here


def paper_setting(env: str, column: str) -> int:
    return int(paper("settings").set_index("env")[column][PAPERS_NAMES.get(env, env)])


def basis(seeds: list[int], steps: int, paper_steps: int) -> str:
    """Seeds and steps as a cell: ``5 seeds, 300k of 1M``."""
    counts = " / ".join(map(str, dict.fromkeys(seeds)))
    return f"{counts} seeds, {short_number(steps)}" + (f" of {short_number(paper_steps)}" if steps < paper_steps else "")


@dataclass(frozen=True)
class Pair:
    """
    SPAN and the MLP with the paper's settings in one environment: finished runs of one study.

    :param steps: Their budget
    :param command: What made them
    """

    env: str
    span: list[Run]
    mlp: list[Run]
    steps: int
    command: str

    @property
    def sides(self) -> tuple[list[Run], list[Run]]:
        return self.span, self.mlp

    @property
    def seeds(self) -> int:
        return min(map(len, self.sides))

    @property
    def paper_steps(self) -> int:
        return paper_setting(self.env, "train_steps")

    @property
    def has_paper_steps(self) -> bool:
        return self.steps >= self.paper_steps

    @property
    def basis(self) -> str:
        return basis([len(side) for side in self.sides], self.steps, self.paper_steps)

    def finals(self) -> list[np.ndarray]:
        return [np.array([run.final for run in side]) for side in self.sides]

    def returns_at(self, step: float) -> list[np.ndarray]:
        """The first evaluations at or after a step."""
        if self.steps < step:
            raise NotRun(self.basis, FULL_RUNS)
        return [np.array([run.means[np.searchsorted(run.steps, step)] for run in side]) for side in self.sides]

    def arrivals(self, percent: int) -> list[np.ndarray]:
        """The steps at which a share of the expert's score was met, infinite where it was not."""
        score = thresholds(self.env)[percent]
        found = [[steps_to_threshold(run.steps, run.means, score) for run in side] for side in self.sides]
        return [np.array([np.inf if step is None else step for step in side], dtype=float) for side in found]


class Records:
    """
    :param folder: The repository's ``results``
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pairs: dict[str, Pair | None] = {}

    @cached_property
    def studies(self) -> dict[str, Study]:
        """Every study with records, by its folder's name."""
        return {path.parent.name: load_study(path.parent) for path in sorted(self.folder.glob("*/study.yml"))}

    def command(self, name: str) -> str:
        """What makes a study's records again, by its folder's name."""
        for shipped in (self.studies[name].name, f"ablation/{self.studies[name].name}"):
            if (STUDIES / f"{shipped}.yml").exists():
                return f"sb3-span study run {shipped}"
        return f"sb3-span study run results/{name}/study.yml"

    def pair(self, env: str) -> Pair:
        """Of all studies with the paper's settings that with five seeds, most steps and most seeds, in this order."""
        if env not in self._pairs:
            self._pairs[env] = max(self._candidates(env), key=_worth, default=None)
        found = self._pairs[env]
        if found is None:
            raise NotRun(basis([0], 0, paper_setting(env, "train_steps")), FULL_RUNS)
        return found

    def _candidates(self, env: str) -> Iterator[Pair]:
        wanted = {method: _settings(run) for method in METHODS if (run := self._with_papers_settings(env, method))}
        for name, study in self.studies.items():
            runs = {
                method: [run for run in study.finished(env, method) if _settings(run) == wanted[method]] for method in wanted
            }
            budgets = {run.budget for side in runs.values() for run in side}
            if len(runs) == len(METHODS) and all(runs.values()) and len(budgets) == 1:
                yield Pair(env, *runs.values(), budgets.pop(), self.command(name))

    def _with_papers_settings(self, env: str, method: str) -> Run | None:
        return next(iter(self.studies[EVIDENCE].select(env, method)), None)

    def ablation(self, env: str, option: str) -> tuple[pd.DataFrame, str]:
        """
        :return: A row for each value of an option, see :func:`sb3_span.report.scores.ablations`, around the paper's settings;
            and what made them, or would
        """
        wanted = self._with_papers_settings(env, "span")
        found = [(pd.DataFrame(), f"sb3-span study run ablation/{env}")]
        for name, study in self.studies.items():
            base = next((run for run in study.finished(env, "span") if run.base), None)
            if base and wanted and _hyperparams(base, base.base) == _hyperparams(wanted, base.base):
                table = ablations(study)
                rows = table[(table.env == env) & (table.method == "span") & (table.option == option)]
                found.append((rows, self.command(name)))
        return max(found, key=lambda rows: rows[0].seeds.sum() if len(rows[0]) else 0)

    @cached_property
    def offline(self) -> pd.DataFrame:
        """Scores by data set and method, see :func:`sb3_span.report.data_sets.scores`."""
        return scores(self.studies["offline"])

    @cached_property
    def hvac(self) -> Results:
        """The data centre's study with five seeds, most steps and most seeds, in this order."""
        worth = {
            name: _worth(Pair(DEFAULT, *sides, study.budgets(DEFAULT, *METHODS)[0], ""))
            for name, study in self.studies.items()
            if all(sides := [study.finished(DEFAULT, method) for method in METHODS])
        }
        return load_results(self.folder / max(worth, key=worth.__getitem__))

    def speed(self, name: str) -> pd.DataFrame:
        """A table of ``sb3-span speed``."""
        return pd.read_csv(self.folder / "speed" / f"{name}.csv")


def _hyperparams(run: Run, options: Iterable[str] = ()) -> dict[str, Any]:
    """What decides a run's outcome, but for the number of steps and the given options."""
    entry = replace_options(run.settings["hyperparams"], dict.fromkeys(options))
    return {name: value for name, value in entry.items() if name != "n_timesteps"}


def _settings(run: Run) -> tuple[Any, ...]:
    return run.algo, _hyperparams(run), run.settings["eval_freq"], run.settings["n_eval_episodes"]


def _worth(pair: Pair) -> tuple[bool, int, int]:
    return pair.seeds >= MIN_SEEDS, min(pair.steps, pair.paper_steps), pair.seeds


def name_of(env: str) -> str:
    return env.rsplit("-v", 1)[0]
