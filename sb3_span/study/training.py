"""A run in this process, with any training: its evaluations, records and checkpoints."""

import contextlib
import json
import os
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sb3_span.atomic_files import write_text
from sb3_span.provenance import machine, versions
from sb3_span.study.plan import Run
from sb3_span.study.records import (
    EVALUATIONS,
    SETTINGS,
    Evaluation,
    check_complete,
    planned_steps,
    read_evaluations,
    write_evaluations,
)

OWNER = "owner.json"


class Interrupted(Exception):
    """The run was asked to stop. It will continue from its checkpoint."""


class LostRun(Exception):
    """Another worker has taken over the run."""


class Watcher:
    """Follows a run's progress. This one does nothing."""

    def should_stop(self) -> bool:
        return False

    def stepped(self, step: int) -> None:
        """After every step of the environments; offline, after every update."""

    def evaluating(self) -> None:
        """Before an evaluation is made. Raises ``LostRun`` when the run is no longer this worker's."""

    def evaluated(self, step: int, mean_return: float) -> None:
        """After an evaluation was written to disk."""


class Training(ABC):
    """
    A run's progress, and its evaluations. Subclasses have an agent and train it.

    :param run: The run to train
    :param folder: The run's own folder
    :param watcher: Notified of every step and evaluation
    :param trust: Whether the run may execute its own code
    """

    keeps_model = True

    def __init__(self, run: Run, folder: Path, watcher: Watcher, trust: bool = False) -> None:
        self.run, self.folder, self.watcher, self.trusted = run, folder, watcher, trust
        self._reached, self._seconds = 0, 0.0
        self._evaluations: list[Evaluation] = []

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What ``run.json`` has in addition to the run's settings; ``n_parameters`` at least."""

    @abstractmethod
    def load(self) -> dict[str, Any] | None:
        """
        Restore the agent from its checkpoint.

        :return: The state that was saved with it; None without a checkpoint
        """

    @abstractmethod
    def save(self, **state: Any) -> None:
        """
        Write a checkpoint.

        :param state: Further state to restore: plain data
        """

    @abstractmethod
    def learn(self) -> None:
        """Continue training the agent, and call ``on_step`` after every step until it returns False."""

    @abstractmethod
    def evaluate(self, seed: int) -> np.ndarray:
        """
        :return: Returns of the episodes, shape (n_eval_episodes,)
        """

    @abstractmethod
    def write_model(self) -> None:
        """Write the trained agent into the folder."""

    @abstractmethod
    def clear(self) -> None:
        """Delete the checkpoints."""

    @abstractmethod
    def close(self) -> None:
        """Close the environments."""

    def finish(self) -> None:
        """Train to the end of the run, from its checkpoint if it has one."""
        with _owned(self.folder) as self._token:
            self._write_settings()
            state = self.load()
            if state is None:
                # Without a checkpoint the run starts over, and so does its record.
                (self.folder / EVALUATIONS).unlink(missing_ok=True)
            else:
                self._go_on_from(state)
            self._since = time.perf_counter()
            self._evaluate_due()  # killed during an evaluation: the checkpoint before it has the same agent
            if self._reached < self.run.steps:
                self._since = time.perf_counter()
                self.learn()
            self.clear()

    def _go_on_from(self, state: dict[str, Any]) -> None:
        """
        A run's evaluations are those of its checkpoint, and those that were due when it was written. Later ones in its file
        (it was copied while the run continued) are repeated; missing ones are put back.
        """
        self._reached, self._seconds = state["reached"], state["train_seconds"]
        recorded = read_evaluations(self.folder, self.run.settings())
        saved = [Evaluation(*row) for row in state.get("evaluations", recorded)]
        check_complete(saved, self.run.settings(), f"The checkpoint in {self.folder}")
        together = [*saved, *recorded[len(saved) :]]
        self._evaluations = [each for each in together if each.step <= self._reached]
        if "evaluations" not in state and len(self._due()) > 1:  # of an older version of this package
            raise ValueError(
                f"{self.folder / EVALUATIONS} lacks the evaluation at step {self._due()[0]}, and the run's checkpoint, of a "
                "later step, does not have it either. Restore the file, or delete the run's folder to start it over."
            )
        if self._evaluations and len(self._evaluations) != len(recorded):
            write_evaluations(self.folder, self._evaluations)

    def _due(self) -> list[int]:
        return [step for step in planned_steps(self.run.settings())[len(self._evaluations) :] if step <= self._reached]

    def on_step(self, step: int) -> bool:
        """
        :param step: Steps so far
        :return: Whether to continue
        """
        self.watcher.stepped(step)
        if step >= min(self._reached + self.run.eval_freq, self.run.steps):
            self._reached = step - step % self.run.eval_freq if step < self.run.steps else self.run.steps
            self._pause()
            self.watcher.evaluating()
            self._save()
            self._evaluate_due()
            self._since = time.perf_counter()
            return self._reached < self.run.steps
        if self.watcher.should_stop():
            self.checkpoint()
            raise Interrupted
        return True

    def checkpoint(self) -> None:
        """Save the run between evaluations."""
        self._pause()
        self._save()

    def _pause(self) -> None:
        now = time.perf_counter()
        self._seconds += now - self._since
        self._since = now

    def _save(self) -> None:
        self._check_owner()
        self.save(reached=self._reached, train_seconds=self._seconds, evaluations=[list(each) for each in self._evaluations])

    def _evaluate_due(self) -> None:
        for step in self._due():  # several if one step of many environments passes several evaluations
            self._evaluate(step)

    def _evaluate(self, step: int) -> None:
        returns = self.evaluate(seed_at(self.run, step))
        self._check_owner()
        if step >= self.run.steps and self.keeps_model:
            self.write_model()
        now = time.perf_counter()
        earlier = self._evaluations[-1].eval_seconds if self._evaluations else 0.0
        eval_seconds, self._since = earlier + now - self._since, now
        self._evaluations.append(Evaluation(step, self._seconds, eval_seconds, returns.tolist()))
        write_evaluations(self.folder, self._evaluations)
        self.watcher.evaluated(step, float(np.mean(returns)))

    def _write_settings(self) -> None:
        settings = {**self.run.settings(), **self.facts(), "versions": versions(), "machine": machine()}
        write_text(self.folder / SETTINGS, json.dumps(settings, indent=1))

    def _check_owner(self) -> None:
        if _owner(self.folder) != self._token:
            raise LostRun(f"Another worker has taken over the run {self.run.key}.")


def seed_at(run: Run, step: int) -> int:
    """A separate seed for every evaluation and every resumption of a run."""
    # A hash of small numbers; the environments of one evaluation have this seed and the next ones.
    return int(np.random.SeedSequence([run.seed, step]).generate_state(1)[0] >> 1)


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[str]:
    """The latest worker owns the folder; an earlier one that is still alive notices before it writes."""
    token = uuid.uuid4().hex
    owner = {"token": token, "host": socket.gethostname(), "pid": os.getpid()}
    write_text(folder / OWNER, json.dumps(owner))
    try:
        yield token
    finally:
        if _owner(folder) == token:
            (folder / OWNER).unlink()


def _owner(folder: Path) -> str | None:
    try:
        return json.loads((folder / OWNER).read_text())["token"]
    except FileNotFoundError:
        return None
