"""
A search for settings: every method gets the same number of trials, each of which trains the study's runs with other settings.

One Optuna study for each method, all in one database in the folder: several processes may search at once. Methods take
turns, so that a search that is cut short is still fair.
"""

import csv
import dataclasses
import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import yaml
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sb3_span.atomic_files import write_text
from sb3_span.scores.references import area_under_curve, expert_scores, known_environments
from sb3_span.study.options import check_options
from sb3_span.study.paths import differences, get_option, replace_options
from sb3_span.study.plan import Plan, read_plan
from sb3_span.study.queue import no_experimental_warning, open_storage, sqlite_url
from sb3_span.study.run import train
from sb3_span.study.trust import check_runnable

# Trials before pruning, and before TPE, begin.
N_RANDOM = 5
ERROR, BASE = "error", "base"
# For a trial that repeats an interrupted one: that one's number, and the first one's, under which the runs are kept.
REPEATS, BEGUN_AS = "repeats", "begun as"
OVER = (TrialState.COMPLETE, TrialState.PRUNED)
SEARCH_FILE = "searched.yml"
SECONDS_BETWEEN_LOOKS = 2.0


def run_search(file: Path, folder: Path, n_trials: int, trust: bool = False) -> None:
    """
    Search, or continue, and write what was found: ``trials.csv`` and ``best.yml``.

    :param file: A study's file with the key ``search``: for each method its options, and the values to try
    :param folder: Folder for the records and the database
    :param n_trials: Trials for each method, including pruned ones
    :param trust: Whether the study may execute its own code
    """
    if n_trials < 1:
        raise ValueError(f"--trials is {n_trials}; at least 1 is needed. With 5 or fewer all but the first are random.")
    plan = dataclasses.replace(read_plan(file), trusted=trust)
    if not plan.search:
        raise ValueError(f"{file} has no key 'search': what to vary, for each method. See zoo_configs/search.")
    _check_scores(plan, file)
    check_runnable(plan, file)
    _check_options(plan)
    _remember(plan, folder)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # why a trial has failed is printed below, in a line
    storage = open_storage(sqlite_url(folder / "search.db"), "restore it, or give another --folder to start over")
    console = Console()
    studies = {method: _open(plan, method, storage) for method in plan.search}
    try:
        while method := _next(studies, n_trials):
            objective = _Objective(plan, method, folder)
            try:
                studies[method].optimize(objective, n_trials=1, catch=(Exception,))
            except ValueError as error:  # from Optuna, when it stores the result: the trial is no longer ours
                console.print(f"{method}: another process counted a trial as dead and repeats it. {escape(str(error))}")
                continue
            _write(studies, folder)
            _print(method, studies[method].trials[objective.number], console)
        _write(studies, folder)
    finally:
        storage.remove_session()
        storage.engine.dispose()
    console.print(_table(studies))
    console.print(f"Written: {folder / 'trials.csv'}, {folder / 'best.yml'}")
    if failed := [method for method, study in studies.items() if not _best(study, 1)]:
        raise ValueError(f"All trials of {', '.join(failed)} have failed; the reasons are in {folder / 'trials.csv'}.")


def _check_scores(plan: Plan, file: Path) -> None:
    envs = {run.env for run in plan.runs}
    unknown = sorted(envs - set(expert_scores()))
    if unknown and len(envs) > 1:
        raise ValueError(
            f"{file}: a trial's score is the mean over environments, and returns of {', '.join(unknown)} cannot be put on the "
            f"scale of the others, for lack of an expert's score. Search one such environment at a time, or take some of "
            f"{known_environments()}."
        )


def _check_options(plan: Plan) -> None:
    for method, space in plan.search.items():
        options = {name: values[0] if isinstance(values, list) else values["low"] for name, values in space.items()}
        runs = (run for run in plan.runs if run.method == method)
        check_options(dataclasses.replace(run, hyperparams=replace_options(run.hyperparams, options)) for run in runs)


def _remember(plan: Plan, folder: Path) -> None:
    """Keep the search's settings in the folder, and refuse another search there, whose scores could not be compared."""
    known = folder / SEARCH_FILE
    if known.exists():
        for option, was, is_now in differences(read_plan(known).resolved, plan.resolved):
            raise ValueError(
                f"{option} is {is_now!r}, but the search was started with {was!r} ({known}). "
                "Put it back, or give another --folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(known, yaml.safe_dump(plan.resolved, sort_keys=False))


def _next(studies: dict[str, optuna.Study], n_trials: int) -> str | None:
    """
    :return: The method whose turn it is; None when every method has had its trials, including other processes'
    """
    while True:
        trials = {}
        for method, study in studies.items():
            with no_experimental_warning():
                optuna.storages.fail_stale_trials(study)
            _repeat_interrupted(study)
            trials[method] = study.get_trials(deepcopy=False)
        taken = {
            method: sum(_counts(trial) or trial.state == TrialState.RUNNING for trial in trials[method]) for method in trials
        }
        if min(taken.values()) < n_trials:
            return min(taken, key=taken.__getitem__)
        if not any(trial.state == TrialState.RUNNING for own in trials.values() for trial in own):
            return None
        time.sleep(SECONDS_BETWEEN_LOOKS)  # other processes have the last trials


def _repeat_interrupted(study: optuna.Study) -> None:
    """Put trials that were interrupted back into the queue, with the settings and the runs that they had."""
    trials = study.get_trials(deepcopy=False)
    repeated = {trial.user_attrs[REPEATS] for trial in trials if REPEATS in trial.user_attrs}
    for trial in trials:
        if trial.state == TrialState.FAIL and not _counts(trial) and trial.number not in repeated:
            begun_as = trial.user_attrs.get(BEGUN_AS, trial.number)
            study.enqueue_trial(trial.params, {**trial.user_attrs, REPEATS: trial.number, BEGUN_AS: begun_as})


class _Objective:
    """
    The mean score of a method's runs with a trial's settings.

    ``number`` is the trial's: other processes may have begun further ones meanwhile.
    """

    number: int

    def __init__(self, plan: Plan, method: str, folder: Path) -> None:
        self._runs = [run for run in plan.runs if run.method == method]
        self._n_envs = len({run.env for run in self._runs})
        self._space = plan.search[method]
        self._folder, self._trust = folder, plan.trusted

    def __call__(self, trial: optuna.Trial) -> float:
        self.number = trial.number
        try:
            return self._score(trial)
        except optuna.TrialPruned:
            raise
        except Exception as error:  # settings that make training fail are a result too
            trial.set_user_attr(ERROR, str(error))
            raise

    def _score(self, trial: optuna.Trial) -> float:
        options = {name: _suggest(trial, name, values) for name, values in self._space.items()}
        number = trial.user_attrs.get(BEGUN_AS, trial.number)
        scores: list[float] = []
        for run in sorted(self._runs, key=lambda run: run.seed):
            of_trial = dataclasses.replace(
                run, hyperparams=replace_options(run.hyperparams, options), cell={"trial": number}, base={"trial": None}
            )
            try:
                record = train(of_trial, self._folder / "runs" / of_trial.key, trust=self._trust)
            except Exception as error:
                raise RuntimeError(f"{of_trial.key}: {error!r}") from error
            scores.append(area_under_curve(run.env, record.returns.mean(axis=1)))
            if not math.isfinite(scores[-1]):
                raise ValueError(f"{of_trial.key} has returns that are not finite")
            trial.report(float(np.mean(scores)), len(scores))
            if self._n_envs <= len(scores) < len(self._runs) and _is_bad(trial, len(scores), float(np.mean(scores))):
                raise optuna.TrialPruned
        return float(np.mean(scores))


def _is_bad(trial: optuna.Trial, n_runs: int, score: float) -> bool:
    """
    Whether a trial is below the median of the others after as many runs.

    Optuna's ``MedianPruner`` compares a trial's best report so far, which is that of the easiest environment.
    """
    others = trial.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return len(others) >= N_RANDOM and score < np.median([other.intermediate_values[n_runs] for other in others])


def _suggest(trial: optuna.Trial, name: str, values: Any) -> Any:
    if isinstance(values, list):
        return trial.suggest_categorical(name, values)
    whole = isinstance(values["low"], int) and isinstance(values["high"], int)
    return trial.suggest_int(name, **values) if whole else trial.suggest_float(name, **values)


def _open(plan: Plan, method: str, storage: optuna.storages.RDBStorage) -> optuna.Study:
    study = optuna.create_study(
        study_name=f"{plan.name}-{method}",
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(n_startup_trials=N_RANDOM),
    )
    if not any(BASE in trial.user_attrs for trial in study.trials):  # the file's own settings come first
        run = next(run for run in plan.runs if run.method == method)
        base = {option: get_option(run.hyperparams, option) for option in plan.search[method]}
        allowed = {option: value for option, value in base.items() if _allows(plan.search[method][option], value)}
        study.enqueue_trial(allowed, user_attrs={BASE: True})
    return study


def _allows(values: Any, value: Any) -> bool:
    if isinstance(values, list):
        return value in values
    return isinstance(value, int | float) and values["low"] <= value <= values["high"]


def _counts(trial: FrozenTrial) -> bool:
    """Whether it counts as one of the method's trials. An interrupted one does not."""
    return trial.state in OVER or ERROR in trial.user_attrs


def _best(study: optuna.Study, n: int) -> list[FrozenTrial]:
    complete = study.get_trials(states=(TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: -(trial.value if trial.value is not None else -math.inf))[:n]


def _write(studies: dict[str, optuna.Study], folder: Path) -> None:
    options = list(dict.fromkeys(name for study in studies.values() for trial in study.trials for name in trial.params))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "trial", "state", "score", "runs", "minutes", *options, ERROR])
    for method, study in studies.items():
        for trial in study.trials:
            values = list(trial.intermediate_values.values())
            minutes = f"{trial.duration.total_seconds() / 60:.1f}" if trial.duration else ""
            row = [method, trial.number, trial.state.name.lower(), f"{values[-1]:.4f}" if values else "", len(values), minutes]
            chosen = [trial.params.get(name, "") for name in options]
            writer.writerow(row + chosen + [trial.user_attrs.get(ERROR, "")])
    write_text(folder / "trials.csv", text.getvalue())
    best = {
        method: {"score": found[0].value, **found[0].params} for method, study in studies.items() if (found := _best(study, 1))
    }
    write_text(folder / "best.yml", yaml.safe_dump(best, sort_keys=False))


def _print(method: str, trial: FrozenTrial, console: Console) -> None:
    value = "given up on" if trial.state == TrialState.PRUNED else trial.user_attrs.get(ERROR, "")
    if trial.state == TrialState.COMPLETE:
        value = f"{trial.value:.3f}"
    console.print(f"{method} {trial.number}: {escape(value)}  {_describe(trial)}", highlight=False)


def _table(studies: dict[str, optuna.Study]) -> Table:
    table = Table("method", "trial", "score", "settings", title="The best of each method")
    for method, study in studies.items():
        for trial in _best(study, 5):
            table.add_row(method, str(trial.number), f"{trial.value:.3f}", _describe(trial))
        table.add_section()
    return table


def _describe(trial: FrozenTrial) -> str:
    show: Callable[[Any], str] = lambda value: f"{value:.3g}" if isinstance(value, float) else str(value)  # noqa: E731
    return ", ".join(f"{name} {show(value)}" for name, value in trial.params.items())
