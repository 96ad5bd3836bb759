"""
The process that a user starts: it starts workers as separate processes, shows their progress, and replaces those that die.

Each worker has a pipe to it, and stops when that closes, because the supervisor is gone.
"""

import contextlib
import multiprocessing
import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sb3_span.atomic_files import write_text
from sb3_span.study.plan import Plan, Run
from sb3_span.study.queue import DATABASE_ERRORS, Queue
from sb3_span.study.records import ERROR
from sb3_span.study.worker import PAUSE, work

MAX_DEATHS = 3
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Worker:
    """
    A worker process, and its last message.

    :param run: The run that it trains; None while it waits
    """

    process: BaseProcess
    pipe: Connection
    run: Run | None = None
    trial_id: int = -1
    step: int = 0
    mean_return: float | None = None
    why_waiting: str = "starting"


@dataclass
class News:
    """Something that happened to a run, for the screen's log."""

    name: str
    run: Run
    details: dict[str, Any] = field(default_factory=dict)


class Supervisor:
    """
    :param queue: The study's queue; each worker opens its own connection
    :param folder: The study's folder
    :param n_workers: Workers to run at a time
    """

    def __init__(self, queue: Queue, folder: Path, n_workers: int) -> None:
        self.queue, self.folder, self.n_workers = queue, folder, n_workers
        self._runs = {run.key: run for run in queue.plan.runs}
        self._deaths: Counter[str] = Counter()
        self.workers: list[Worker] = []
        self.stopping = False

    def start(self) -> None:
        waiting = sum(state.name != "done" for state in self.queue.states().values())
        for _ in range(min(self.n_workers, waiting)):
            self.workers.append(self._start_worker())

    def listen(self, timeout: float) -> list[News]:
        """
        Wait for the workers' next messages.

        :param timeout: Seconds to wait at most
        :return: The runs' events; steps and evaluations are in ``workers``
        """
        news: list[News] = []
        pipes = {worker.pipe: worker for worker in self.workers}
        for pipe in wait(list(pipes), timeout):
            worker = pipes[pipe]  # type: ignore[index]
            try:
                while worker.pipe.poll():
                    news += self._hear(worker, *worker.pipe.recv())
            except (EOFError, ConnectionResetError):
                news += self._bury(worker)
        return news

    def stop(self) -> None:
        """Ask the workers to save their runs, return them to the queue and end."""
        self.stopping = True
        for worker in self.workers:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended already
                worker.pipe.send("stop")

    def kill(self) -> None:
        """End the workers at once. Their runs continue from their checkpoints."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()

    def _start_worker(self) -> Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_main, args=(theirs, self.queue.opening, self.folder))
        # Ctrl-C reaches every process of a terminal. Only this one acts on it; workers inherit that they ignore it.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, previous)
        theirs.close()
        return Worker(process, ours)

    def _hear(self, worker: Worker, name: str, details: dict[str, Any]) -> list[News]:
        if name == "stepped":
            worker.step = details["step"]
        elif name == "evaluated":
            worker.step, worker.mean_return = details["step"], details["mean_return"]
        elif name == "waiting":
            worker.why_waiting = details["why"]
        else:
            run = self._runs[details["key"]]
            if name == "started":
                self._deaths[""] = 0
                worker.run, worker.trial_id, worker.step, worker.mean_return = run, details["trial_id"], 0, None
            else:
                worker.run, worker.trial_id, worker.why_waiting = None, -1, "looking for the next run"
            return [News(name, run, details)]
        return []

    def _bury(self, worker: Worker) -> list[News]:
        """A worker has ended. If it died in a run, the run waits again and another worker replaces it."""
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)
        if worker.process.exitcode == 0 or self.stopping:
            return []
        key, died = worker.run.key if worker.run else "", _how_it_died(worker.process.exitcode)
        self._deaths[key] += 1
        if worker.run is None and self._deaths[key] >= MAX_DEATHS:
            raise ValueError(f"{MAX_DEATHS} workers ended before they began a run; the last one {died}.")
        self.workers.append(self._start_worker())
        if worker.run is None:
            return []
        is_over = self._deaths[key] >= MAX_DEATHS
        why = f"its worker {died}" + (f"; {MAX_DEATHS} have ended in this run" if is_over else "")
        if is_over:
            with contextlib.suppress(OSError):  # the disk may be full
                write_text(self.folder / "runs" / key / ERROR, f"{why}\n")
        with contextlib.suppress(*DATABASE_ERRORS):  # missing heartbeats will show it
            if is_over:
                self.queue.fail(worker.trial_id, why)
            else:
                self.queue.release(worker.trial_id)
        return [News("failed" if is_over else "died", worker.run, {"why": why})]


def _how_it_died(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"was killed by the signal {signal.Signals(-exitcode).name}"
    return f"ended with the exit code {exitcode}"


def _main(pipe: Connection, opening: tuple[Plan, str, int, int], folder: Path) -> None:
    """A worker's process."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):  # the supervisor is gone
            pipe.recv()
        stop.set()

    def tell(name: str, details: dict[str, Any]) -> None:
        try:
            pipe.send((name, details))
        except (BrokenPipeError, ConnectionResetError):
            stop.set()

    threading.Thread(target=listen, daemon=True).start()
    while not stop.is_set():
        try:
            queue = Queue(*opening)
        except ValueError as error:  # it was there before, so it will be again
            tell("waiting", {"why": str(error)})
            stop.wait(PAUSE)
        else:
            with queue:
                return work(queue, folder, stop, tell)
