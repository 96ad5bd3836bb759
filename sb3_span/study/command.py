"""``sb3-span study``: run, status, retry. Collecting records is in ``gathering``."""

import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from sqlalchemy import make_url

from sb3_span.atomic_files import write_text
from sb3_span.study.folder import STUDY_FILE, read_stored
from sb3_span.study.options import check_options
from sb3_span.study.packed import PACKED, is_packed
from sb3_span.study.plan import Plan, read_plan
from sb3_span.study.queue import DATABASE_ERRORS, Queue, RunState, sqlite_url
from sb3_span.study.screen import watch
from sb3_span.study.status import status_table
from sb3_span.study.supervisor import Supervisor
from sb3_span.study.trust import check_runnable

DATABASE = "study.db"
STORAGE_FILE = "storage.txt"  # says where the queue is, if not in the folder


def run_study(file: Path, folder: Path, storage: str | None, n_workers: int, trust: bool = False, **timing: int) -> bool:
    """
    Run a study, or continue one.

    :param file: The study's file
    :param folder: Folder for the records, and for the database when none is given
    :param storage: A database that machines share; None for SQLite in the folder
    :param n_workers: Runs at a time
    :param trust: Whether the study may execute its own code
    :return: Whether every run is done
    """
    check_workers(n_workers)
    plan = dataclasses.replace(read_plan(file), trusted=trust)
    check_runnable(plan, file)
    check_options(plan.runs)
    remember(plan, folder)
    return run_plan(plan, folder, storage, n_workers, **timing)


def run_plan(plan: Plan, folder: Path, storage: str | None, n_workers: int, **timing: int) -> bool:
    """
    Run a plan. For the other parameters see ``run_study``.

    :param plan: A plan that the folder remembers, or part of it
    """
    console = Console()
    with _answering(), Queue(plan, storage or _sqlite(folder), **timing) as queue:
        if storage is not None:
            write_text(folder / STORAGE_FILE, make_url(storage).render_as_string(hide_password=True))
        # A run may be done by the database and its record damaged: it runs again, and says what to do. With the folder's
        # own database, so does a run whose record is missing; with a shared one the record may be on another machine.
        stored = read_stored(folder, plan, models=True)
        finished = {key for key, record in stored.records.items() if record.finished}
        queue.discard(
            key for key in (run.key for run in plan.runs) if key in stored.broken or not (storage or key in finished)
        )
        queue.refill()
        # Sent first when a machine shuts down, or a scheduler's time is up.
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            watch(Supervisor(queue, folder, n_workers), console)
        finally:
            signal.signal(signal.SIGTERM, previous)
        return _show(plan, queue.states(), folder, console)


def check_workers(n_workers: int) -> None:
    if n_workers < 1:
        raise ValueError(f"--workers is {n_workers}; at least 1 is needed. The number of cores is a good choice.")


def show_status(folder: Path, storage: str | None) -> bool:
    """
    :return: Whether every record is usable
    """
    plan = open_study(folder)
    states = {run.key: RunState("waiting") for run in plan.runs}
    if storage is not None or _has_queue(folder):
        with _answering(), _to_look_at(folder, storage) as address, Queue(plan, address) as queue:
            states = queue.states()
    _show(plan, states, folder, Console())
    return not read_stored(folder, plan, models=True).broken


def retry(folder: Path, storage: str | None) -> None:
    """Queue the failed runs again."""
    plan, again = open_study(folder), []
    if storage is not None or _has_queue(folder):
        with _answering(), Queue(plan, storage or _sqlite(folder)) as queue:
            again = queue.retry()
    print(f"{len(again)} failed runs are queued again." + (" Start the study to run them." if again else ""))


def check_not_packed(folder: Path) -> None:
    if is_packed(folder):
        raise ValueError(
            f"{folder} is packed: it has the records of its runs in {PACKED}, for reports, and nothing to continue. Give "
            "another folder."
        )


def open_study(folder: Path) -> Plan:
    """
    :param folder: The folder of a study that was started
    """
    if not (folder / STUDY_FILE).is_file():
        raise ValueError(
            f"{folder} has no {STUDY_FILE}; it is not the folder of a study. Start one with: sb3-span study run FILE"
        )
    return read_plan(folder / STUDY_FILE)


def _show(plan: Plan, states: dict[str, RunState], folder: Path, console: Console) -> bool:
    stored = read_stored(folder, plan, models=True)
    finished = {key for key, record in stored.records.items() if record.finished}
    elsewhere = sum(state.name == "done" and key not in finished | set(stored.broken) for key, state in states.items())
    for key, state in states.items():
        if key in finished:  # a database that was lost, or never had these runs, gets them when they are next claimed
            states[key] = RunState("done")
        elif key in stored.broken and state.name != "running":
            states[key] = RunState("failed", stored.broken[key])
    console.print(status_table(plan, states, stored.records))
    if elsewhere:
        console.print(
            f"{elsewhere} of the runs that are done have no finished record in {folder}: "
            "collect them with sb3-span study gather."
        )
    for key, state in states.items():
        if state.error:
            console.print(f"[red]{key}[/]: {escape(state.error)}", highlight=False, soft_wrap=True)
    if any(state.error for state in states.values()):
        console.print(f"To run the failed ones again: sb3-span study retry --folder {folder}, then run.")
    return all(state.name == "done" for state in states.values())


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except DATABASE_ERRORS as error:
        raise ValueError(
            f"The database does not answer ({error.__cause__ or error}). The runs' folders have all records; try again later."
        ) from error


def remember(plan: Plan, folder: Path) -> None:
    """Keep a study's complete file in its folder; refuse one that has become another study."""
    check_not_packed(folder)
    known = folder / STUDY_FILE
    if known.exists():
        try:
            plan.check_extends(read_plan(known), known)
        except ValueError as error:
            raise ValueError(f"{error} Put it back, or give another --folder.") from error
    folder.mkdir(parents=True, exist_ok=True)
    write_text(known, yaml.safe_dump(plan.resolved, sort_keys=False))


def _sqlite(folder: Path) -> str:
    elsewhere = folder / STORAGE_FILE
    if elsewhere.is_file():
        raise ValueError(
            f"The queue of this study is in {elsewhere.read_text().strip()}: pass that with --storage, or delete {elsewhere} "
            "to continue without it."
        )
    return sqlite_url(folder / DATABASE)


@contextlib.contextmanager
def _to_look_at(folder: Path, storage: str | None) -> Iterator[str]:
    """The address of the queue, or of a copy if the folder is read-only: SQLite writes even when it only reads."""
    address = storage or _sqlite(folder)
    if storage is not None or (os.access(folder, os.W_OK) and os.access(folder / DATABASE, os.W_OK)):
        yield address
        return
    with tempfile.TemporaryDirectory() as copy:
        for path in folder.glob(f"{DATABASE}*"):  # and SQLite's files next to it
            shutil.copyfile(path, Path(copy, path.name))
        yield sqlite_url(Path(copy, DATABASE))


def _has_queue(folder: Path) -> bool:
    """Whether there is a database: opening one would create it."""
    return (folder / STORAGE_FILE).is_file() or (folder / DATABASE).is_file()
