"""A worker: claims runs from the queue and trains them, one after the other, until none is left."""

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sb3_span.atomic_files import write_text
from sb3_span.study.queue import DATABASE_ERRORS, Claim, Queue
from sb3_span.study.records import ERROR, Evaluation, read_evaluations
from sb3_span.study.run import train
from sb3_span.study.training import Interrupted, LostRun, Watcher

# A worker's message to the supervisor: an event's name and its details.
Tell = Callable[[str, dict[str, Any]], None]
PAUSE = 2.0
SECONDS_BETWEEN_NEWS = 0.5


def work(queue: Queue, folder: Path, stop: threading.Event, tell: Tell) -> None:
    """
    Train the queue's runs until all are done or failed. It waits for other workers' runs, since these may die.

    :param queue: The study's queue
    :param folder: The study's folder
    :param stop: Set to stop; the run under way is saved and returned to the queue
    :param tell: Called with every event
    """
    # Often enough that the queue does not mistake the pauses for an outage.
    pause = min(PAUSE, queue.heartbeat / 2)
    while not stop.is_set():
        try:
            queue.refill()
            claim = queue.claim()
            if claim is None and all(state.name in ("done", "failed") for state in queue.states().values()):
                return
        except DATABASE_ERRORS as error:
            tell("waiting", {"why": _no_answer(error)})
            stop.wait(pause)
            continue
        if claim is None:
            tell("waiting", {"why": "other workers have the remaining runs"})
            stop.wait(pause)
            continue
        _work_on(queue, claim, folder / "runs" / claim.run.key, stop, tell)


def _work_on(queue: Queue, claim: Claim, folder: Path, stop: threading.Event, tell: Tell) -> None:
    run = claim.run
    tell("started", {"key": run.key, "trial_id": claim.trial_id, "steps": run.steps})
    with _heartbeat(queue, claim.trial_id):
        watcher = _Reporter(queue, claim, stop, tell)
        try:
            (folder / ERROR).unlink(missing_ok=True)  # of an earlier attempt
            watcher.catch_up(read_evaluations(folder, run.settings()))
            record = train(run, folder, watcher, queue.plan.keep_models, queue.plan.trusted)
        except Interrupted:
            _insist(lambda: queue.release(claim.trial_id), stop, tell)
            tell("stopped", {"key": run.key})
        except LostRun as error:
            tell("lost", {"key": run.key, "why": str(error)})
        except Exception as error:  # whatever it is, the rest of the study continues
            why = _describe(error, folder)
            with contextlib.suppress(OSError):  # the disk may be full
                write_text(folder / ERROR, traceback.format_exc())
            _insist(lambda: queue.fail(claim.trial_id, why), stop, tell)
            tell("failed", {"key": run.key, "why": why})
        else:
            (folder / ERROR).unlink(missing_ok=True)
            final = float(np.mean(record.returns[-1]))
            _insist(watcher.flush, stop, tell)
            _insist(lambda: queue.complete(claim.trial_id, final), stop, tell)
            tell("finished", {"key": run.key, "mean_return": final, "train_seconds": float(record.train_seconds[-1])})


class _Reporter(Watcher):
    """Informs the database and the screen. A run does not depend on the database: what that misses is sent later."""

    def __init__(self, queue: Queue, claim: Claim, stop: threading.Event, tell: Tell) -> None:
        self._queue, self._claim, self._stop, self._tell = queue, claim, stop, tell
        self._unsent: list[tuple[int, float]] = []
        self._next_news = 0.0

    def should_stop(self) -> bool:
        return self._stop.is_set()

    def stepped(self, step: int) -> None:
        now = time.monotonic()
        if now >= self._next_news:
            self._next_news = now + SECONDS_BETWEEN_NEWS
            self._tell("stepped", {"step": step})

    def evaluating(self) -> None:
        with contextlib.suppress(*DATABASE_ERRORS):
            if not self._queue.is_running(self._claim.trial_id):
                raise LostRun(f"The run {self._claim.run.key} sent no heartbeat for too long and went to another worker.")

    def evaluated(self, step: int, mean_return: float) -> None:
        self._tell("evaluated", {"step": step, "mean_return": mean_return})
        self._unsent.append((step, mean_return))
        with contextlib.suppress(*DATABASE_ERRORS):
            self.flush()

    def catch_up(self, evaluations: list[Evaluation]) -> None:
        """The run's earlier evaluations, perhaps from another trial or another database."""
        self._unsent = [(each.step, float(np.mean(each.returns))) for each in evaluations]
        with contextlib.suppress(*DATABASE_ERRORS):
            self.flush()

    def flush(self) -> None:
        while self._unsent:
            self._queue.report(self._claim.trial_id, *self._unsent[0])
            self._unsent.pop(0)


@contextlib.contextmanager
def _heartbeat(queue: Queue, trial_id: int) -> Iterator[None]:
    """Heartbeats that continue after errors of the database, unlike Optuna's own thread."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(queue.heartbeat):
            with contextlib.suppress(Exception):  # whatever it is, the next one may get through
                queue.beat(trial_id)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _insist(action: Callable[[], None], stop: threading.Event, tell: Tell) -> None:
    """
    Report a run's result to the database, however long that is away. Except when the worker must stop: then the next worker
    that claims the run finds the result in its folder.
    """
    while True:
        try:
            return action()
        except DATABASE_ERRORS as error:
            tell("waiting", {"why": _no_answer(error)})
            if stop.wait(PAUSE):
                return


def _no_answer(error: Exception) -> str:
    return f"the database does not answer ({error.__cause__ or error})"


def _describe(error: Exception, folder: Path) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or folder}: {error.strerror}"
    return str(error) if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: {error}"
