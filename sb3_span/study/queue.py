"""
A study's queue: an Optuna study with one trial per run, in SQLite or in a database that machines share.

A run is identified by its key, in its trials' user attributes. If several trials have one key (two machines started the same
study at the same moment, a worker died), the one with the lowest number that is waiting, running or complete counts. The
database can be rebuilt from the study's file and the runs' folders.
"""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL, Engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sb3_span.study.plan import Plan, Run

HEARTBEAT, GRACE = 10, 60
DISCARDED = "discarded"
DATABASE_ERRORS = (StorageInternalError, SQLAlchemyError)
CONNECT_ARGS: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": 60},
    # A server whose machine is down does not answer at all.
    "postgresql": {
        "connect_timeout": 10,
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 50_000,
    },
}
LIVE = (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE)
T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """A run that this worker has claimed."""

    run: Run
    trial_id: int


@dataclass(frozen=True)
class RunState:
    """
    :param name: One of waiting, running, done, failed
    :param error: Why it failed
    """

    name: str
    error: str = ""


class Queue:
    """
    :param plan: What to run
    :param storage: A database's address, such as ``sqlite:///study.db``
    :param heartbeat: Seconds between two heartbeats of a running run
    :param grace: Seconds without one after which a run counts as dead
    """

    def __init__(self, plan: Plan, storage: str, heartbeat: int = HEARTBEAT, grace: int = GRACE) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.plan, self.heartbeat = plan, heartbeat
        self._looked, self._patient_until = math.inf, -math.inf  # of the wall clock, which continues while a laptop sleeps
        self.opening = (plan, storage, heartbeat, grace)  # for other processes that open it too
        self._storage = open_storage(storage, "delete it: the study continues from the records", heartbeat, grace)
        self._study = _patiently(
            lambda: optuna.create_study(study_name=plan.name, storage=self._storage, direction="maximize", load_if_exists=True)
        )

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def refill(self) -> None:
        """Add a trial for every run without one: at the start, and when a worker has died."""
        if time.time() - self._looked > 2 * self.heartbeat:
            # The database was away, or this machine asleep: other workers could not send heartbeats either.
            self._patient_until = time.time() + 2 * self.heartbeat
        if time.time() >= self._patient_until:
            with no_experimental_warning():
                optuna.storages.fail_stale_trials(self._study)
        trials = self._trials()
        self._looked = time.time()
        for run in self.plan.runs:
            known = trials.get(run.key, [])
            for trial in known:
                if trial.user_attrs["digest"] != run.digest:
                    raise ValueError(
                        f"The database has the run {run.key!r} of a study {self.plan.name!r} with other settings. "
                        "Give this study another name (the key 'name' in its file)."
                    )
            live = [trial for trial in known if trial.state in LIVE]
            if not live and not _error(known):
                self._add(run)
            for trial in live[1:]:
                if trial.state == TrialState.WAITING:
                    self._finish(trial._trial_id, TrialState.PRUNED)

    def claim(self) -> Claim | None:
        """
        :return: The first waiting run of the plan, now this worker's; None if there is none
        """
        trials = self._trials()
        for run in self.plan.runs:
            trial = next((trial for trial in trials.get(run.key, []) if trial.state in LIVE), None)
            if trial is None or trial.state != TrialState.WAITING:
                continue
            # The heartbeat first: a trial without one would never count as dead.
            self.beat(trial._trial_id)
            with contextlib.suppress(UpdateFinishedTrialError):
                if self._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                    return Claim(run, trial._trial_id)
        return None

    def beat(self, trial_id: int) -> None:
        self._storage.record_heartbeat(trial_id)

    def is_running(self, trial_id: int) -> bool:
        return self._storage.get_trial(trial_id).state == TrialState.RUNNING

    def report(self, trial_id: int, step: int, mean_return: float) -> None:
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_intermediate_value(trial_id, step, mean_return)

    def complete(self, trial_id: int, mean_return: float) -> None:
        # Values that are not finite would make Optuna's tables unreadable: such an agent gets the worst value.
        self._finish(trial_id, TrialState.COMPLETE, -math.inf if math.isnan(mean_return) else mean_return)

    def fail(self, trial_id: int, error: str) -> None:
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(trial_id, "error", error)
        self._finish(trial_id, TrialState.FAIL)

    def release(self, trial_id: int) -> None:
        """Return a run to the queue."""
        self._finish(trial_id, TrialState.WAITING)

    def discard(self, keys: Iterable[str]) -> None:
        """Mark these runs as not done: their records are missing."""
        trials = self._trials()
        lost = [trial.number for key in keys for trial in trials.get(key, []) if trial.state == TrialState.COMPLETE]
        if lost:
            self._study.set_user_attr(DISCARDED, [*self._study.user_attrs.get(DISCARDED, []), *lost])

    def retry(self) -> list[Run]:
        """
        :return: The runs that had failed and are waiting again
        """
        states = self.states()
        failed = [run for run in self.plan.runs if states[run.key].name == "failed"]
        for run in failed:
            self._add(run)
        return failed

    def states(self) -> dict[str, RunState]:
        """
        :return: The state of every run, by key
        """
        trials = self._trials()
        return {run.key: _state(trials.get(run.key, [])) for run in self.plan.runs}

    def _trials(self) -> dict[str, list[FrozenTrial]]:
        trials: dict[str, list[FrozenTrial]] = {}
        discarded = self._study.user_attrs.get(DISCARDED, [])
        for trial in self._study.get_trials(deepcopy=False):
            if "key" in trial.user_attrs and trial.number not in discarded:
                trials.setdefault(trial.user_attrs["key"], []).append(trial)
        return trials

    def _add(self, run: Run) -> None:
        attributes = {"key": run.key, "digest": run.digest, "env": run.env, "method": run.method, "seed": run.seed}
        self._study.enqueue_trial({}, user_attrs={**attributes, **run.cell})

    def _finish(self, trial_id: int, state: TrialState, value: float | None = None) -> None:
        # Already finished: it counted as dead, and another worker has the run now.
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_state_values(trial_id, state, None if value is None else [value])


def _state(trials: list[FrozenTrial]) -> RunState:
    live = next((trial.state for trial in trials if trial.state in LIVE), None)
    if live is not None:
        return RunState({TrialState.WAITING: "waiting", TrialState.RUNNING: "running"}.get(live, "done"))
    error = _error(trials)
    return RunState("failed", error) if error else RunState("waiting")


def _error(trials: list[FrozenTrial]) -> str:
    """
    :return: Why the last attempt failed; nothing if it did not
    """
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    return failed[-1].user_attrs.get("error", "") if failed else ""


def sqlite_url(file: Path) -> str:
    """The address of a database in a file, in folders of any name."""
    return URL.create("sqlite", database=str(file)).render_as_string()


def open_storage(url: str, if_damaged: str, heartbeat: int = HEARTBEAT, grace: int = GRACE) -> RDBStorage:
    """
    :param url: The database's address
    :param if_damaged: The advice for a file that is no database
    """
    connect_args = next((options for start, options in CONNECT_ARGS.items() if url.startswith(start)), {})
    options = {"connect_args": connect_args, "pool_pre_ping": True}
    try:
        with no_experimental_warning():
            opened = _patiently(lambda: RDBStorage(url, options, heartbeat_interval=heartbeat, grace_period=grace))
    except (ImportError, ArgumentError) as error:
        shown = url if isinstance(error, ArgumentError) else make_url(url).render_as_string(hide_password=True)
        raise ValueError(
            f"--storage {shown}: {error}. Give an address such as postgresql://user@host/database; "
            "PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'."
        ) from error
    except DATABASE_ERRORS as error:
        address, why = make_url(url), error.__cause__ or error
        if url.startswith("sqlite"):  # most often the folder's own, which was not given with --storage
            raise ValueError(f"{address.database} cannot be opened ({why}). If it is damaged, {if_damaged}.") from error
        shown = address.render_as_string(hide_password=True)
        raise ValueError(f"--storage {shown}: the database does not answer ({why}).") from error
    if url.startswith("sqlite"):
        _lock_before_reading(opened.engine)
    return opened


def _lock_before_reading(engine: Engine) -> None:
    """
    Optuna reads a trial's state, with a lock, and then changes it. SQLite has no such lock: two workers could both read that a
    trial is waiting and both claim it. So every transaction begins with the lock that writing needs.
    """

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()  # connections from before


def _patiently(action: Callable[[], T]) -> T:
    """Two machines that create the same tables at the same moment fail once."""
    for seconds in (0.2, 0.5, 1.0, 2.0):
        try:
            return action()
        except ArgumentError:  # not an address at all
            raise
        except DATABASE_ERRORS:
            time.sleep(seconds)
    return action()


@contextlib.contextmanager
def no_experimental_warning() -> Iterator[None]:
    """Optuna calls heartbeats experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
