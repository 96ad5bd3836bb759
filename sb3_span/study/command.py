"""``sb3-span study``: run, status, retry, gather."""

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
from sb3_span.study.plan import Plan, read_plan
from sb3_span.study.queue import DATABASE_ERRORS, Queue, RunState, sqlite_url
from sb3_span.study.records import SETTINGS, has_model, read_record, run_folders
from sb3_span.study.screen import watch
from sb3_span.study.status import status_table
from sb3_span.study.supervisor import Supervisor
from sb3_span.study.training import OWNER
from sb3_span.study.trust import check_runnable

DATABASE = "study.db"
STORAGE_FILE = "storage.txt"  # where the queue is, if it is not in the folder


def run_study(file: Path, folder: Path, storage: str | None, n_workers: int, trust: bool = False, **timing: int) -> bool:
    """
    Run a study, or go on with it.

    :param file: The study's file
    :param folder: Folder for the records, and for the database when none is given
    :param storage: A database that machines share; None for SQLite in the folder
    :param n_workers: Runs at a time
    :param trust: Whether the study may execute code of its own
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
    Run what a plan has. For the parameters see ``run_study``.

    :param plan: A plan that the folder remembers, or part of it
    """
    console = Console()
    with _answering(), Queue(plan, storage or _sqlite(folder), **timing) as queue:
        if storage is not None:
            write_text(folder / STORAGE_FILE, make_url(storage).render_as_string(hide_password=True))
        # A database may say that a run is done whose record is damaged: it is taken again, and says what to do. In the
        # folder's own database, that also holds for a record that is gone; of a shared one it may be on another machine.
        stored = read_stored(folder, plan, models=True)
        finished = {key for key, record in stored.records.items() if record.finished}
        queue.discard(
            key for key in (run.key for run in plan.runs) if key in stored.broken or not (storage or key in finished)
        )
        queue.refill()
        # A machine that shuts down, or a scheduler whose time is up, asks nicely first.
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            watch(Supervisor(queue, folder, n_workers), console)
        finally:
            signal.signal(signal.SIGTERM, previous)
        return _show(plan, queue.states(), folder, console)


def check_workers(n_workers: int) -> None:
    if n_workers < 1:
        raise ValueError(f"--workers is {n_workers}; at least 1 is needed. As many as there are cores is a good number.")


def show_status(folder: Path, storage: str | None) -> bool:
    """
    :return: Whether every record can be used
    """
    plan = open_study(folder)
    states = {run.key: RunState("waiting") for run in plan.runs}
    if storage is not None or _has_queue(folder):
        with _answering(), _to_look_at(folder, storage) as address, Queue(plan, address) as queue:
            states = queue.states()
    _show(plan, states, folder, Console())
    return not read_stored(folder, plan, models=True).broken


def retry(folder: Path, storage: str | None) -> None:
    """Let the failed runs wait again."""
    plan, again = open_study(folder), []
    if storage is not None or _has_queue(folder):
        with _answering(), Queue(plan, storage or _sqlite(folder)) as queue:
            again = queue.retry()
    print(f"{len(again)} failed runs wait again." + (" Start the study to run them." if again else ""))


def gather(sources: list[Path], folder: Path) -> bool:
    """
    Bring the runs of several machines together. Of a run that is there twice the one that got further stays.

    :param sources: Folders of the same study
    :param folder: The folder to gather them in
    :return: Whether all of them could be read
    """
    copied = kept = damaged = 0
    plans = {source: open_study(source) for source in sources}
    if (folder / STUDY_FILE).exists():
        plans[folder] = open_study(folder)
    # One of them may have grown: the whole study is the one with the most runs.
    whole = max(plans, key=lambda source: len(plans[source].runs))
    for source, plan in plans.items():
        try:
            plans[whole].check_extends(plan, source / STUDY_FILE)
        except ValueError as error:
            raise ValueError(
                f"{source} and {whole} are not folders of the same study. {error} If only their seeds differ, put a "
                f"{STUDY_FILE} with the seeds of all folders into {folder}, and gather them again."
            ) from error
    remember(plans[whole], folder)
    for source in sources:
        for run_folder in run_folders(source):
            target = folder / "runs" / run_folder.name
            try:
                reached = _reached(run_folder)
            except ValueError as error:
                print(f"Left out: {error}")
                damaged += 1
                continue
            try:
                is_new = reached > _reached(target)
            except ValueError:  # what is there is damaged
                is_new = True
            if is_new:
                try:
                    _copy_patiently(run_folder, target)
                except OSError as error:
                    print(f"Left out: {run_folder} could not be copied: {_why(error)}")
                    damaged += 1
                    continue
            copied, kept = copied + is_new, kept + (not is_new)
    print(f"{copied} runs gathered in {folder}; {kept} were there already" + (f"; {damaged} left out." if damaged else "."))
    return not damaged


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
        if key in finished:  # a database that was lost, or never saw these runs, learns of them when they are next taken
            states[key] = RunState("done")
        elif key in stored.broken and state.name != "running":
            states[key] = RunState("failed", stored.broken[key])
    console.print(status_table(plan, states, stored.records))
    if elsewhere:
        console.print(
            f"{elsewhere} of the runs that are done have no finished record in {folder}: "
            "sb3-span study gather brings them here."
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
            f"The database does not answer ({error.__cause__ or error}). The runs' folders have everything; try again later."
        ) from error


def remember(plan: Plan, folder: Path) -> None:
    """Keep a study's file, complete, in its folder; refuse one that has become another study."""
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
            f"The queue of this study is in {elsewhere.read_text().strip()}: give that with --storage, or delete {elsewhere} "
            "to go on without it."
        )
    return sqlite_url(folder / DATABASE)


@contextlib.contextmanager
def _to_look_at(folder: Path, storage: str | None) -> Iterator[str]:
    """The address of the queue; of a copy, where the folder cannot be written to: a database writes even to be read."""
    address = storage or _sqlite(folder)
    if storage is not None or (os.access(folder, os.W_OK) and os.access(folder / DATABASE, os.W_OK)):
        yield address
        return
    with tempfile.TemporaryDirectory() as copy:
        for path in folder.glob(f"{DATABASE}*"):  # and what SQLite has beside it
            shutil.copyfile(path, Path(copy, path.name))
        yield sqlite_url(Path(copy, DATABASE))


def _has_queue(folder: Path) -> bool:
    """Whether there is one to look into: looking makes none."""
    return (folder / STORAGE_FILE).is_file() or (folder / DATABASE).is_file()


def _reached(run_folder: Path) -> tuple[int, bool]:
    """How far a run has got: its last evaluation, and whether it has its model."""
    if not (run_folder / SETTINGS).exists():
        return -1, False
    return int(max(read_record(run_folder).steps, default=0)), has_model(run_folder)


def _copy_patiently(source: Path, target: Path) -> None:
    try:
        _copy(source, target)
    except OSError:  # the run goes on meanwhile, and has replaced its checkpoint by another
        _copy(source, target)


def _why(error: OSError) -> str:
    """The first reason, of what may be a list of files that could not be copied."""
    return str(error.args[0][0][-1] if isinstance(error, shutil.Error) else error)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix="."))
    try:
        shutil.copytree(source, temporary / target.name, ignore=shutil.ignore_patterns(OWNER, ".*"))
        if target.exists():
            shutil.rmtree(target)
        (temporary / target.name).rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
