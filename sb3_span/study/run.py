"""One run: the Zoo's agent and environments, the paper's evaluation, records and checkpoints as it goes."""

import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_span.files import write_text, written_whole
from sb3_span.machine import machine, versions
from sb3_span.policies.budget import count_parameters
from sb3_span.study.checkpoint import NORMALIZATION, Checkpoints
from sb3_span.study.evaluation import OneEpisode, evaluate
from sb3_span.study.plan import Run
from sb3_span.study.records import (
    EVALUATIONS,
    MODEL,
    SETTINGS,
    Record,
    read_evaluations,
    read_record,
    write_evaluations,
)

OWNER = "owner.json"


class Interrupted(Exception):
    """The run was asked to stop. It has a checkpoint and goes on from there."""


class LostRun(Exception):
    """Another worker has taken the run over."""


class Watcher:
    """Whoever wants to know how a run goes. This one does not."""

    def should_stop(self) -> bool:
        return False

    def stepped(self, step: int) -> None:
        """After every step of the environments."""

    def evaluating(self) -> None:
        """Before an evaluation is made. Raises ``LostRun`` when the run is no longer this worker's."""

    def evaluated(self, step: int, mean_return: float) -> None:
        """After an evaluation was written to disk."""


class StudyManager(ExperimentManager):
    """The Zoo's set-up of agent and environments, without its log folders, files and messages."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            argparse.Namespace(), run.algo, run.env, log_folder="", n_timesteps=run.steps, eval_freq=-1,
            seed=run.seed, device="cpu", verbose=0, eval_env_kwargs=run.hyperparams.get("env_kwargs"),
        )  # fmt: skip
        self._run = run

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return copy.deepcopy(self._run.hyperparams), {}

    def create_log_folder(self) -> None:
        pass

    def _save_config(self, saved_hyperparams: dict[str, Any]) -> None:
        pass

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        return super().create_envs(n_envs, eval_env, no_log=True)

    def make_agent(self) -> BaseAlgorithm:
        with contextlib.redirect_stdout(io.StringIO()):
            experiment = self.setup_experiment()
        assert experiment is not None
        return experiment[0]

    def make_eval_env(self) -> VecEnv:
        inner = self.env_wrapper or (lambda env: env)
        self.env_wrapper = lambda env: OneEpisode(inner(env))
        try:
            return self.create_envs(self._run.n_eval_episodes, eval_env=True)
        finally:
            self.env_wrapper = inner


def train(run: Run, folder: Path, watcher: Watcher | None = None) -> Record:
    """
    Train one run to its end, from its checkpoint if it has one.

    :param run: What to train
    :param folder: The run's own folder
    :param watcher: Told about every step and evaluation
    :return: The finished record
    """
    watcher = watcher or Watcher()
    th.set_num_threads(1)
    for package in run.gym_packages:
        importlib.import_module(package)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / SETTINGS).exists():
        record = read_record(folder)
        _check_settings(run, record, folder)
        if record.finished:
            Checkpoints(folder).clear()  # in case it was killed just before
            return record
    manager = StudyManager(run)
    agent = manager.make_agent()
    eval_env = manager.make_eval_env()
    try:
        with _owned(folder) as token:
            _Training(run, folder, agent, eval_env, manager.callbacks, watcher, token).finish()
    finally:
        eval_env.close()
        assert agent.env is not None
        agent.env.close()
    return read_record(folder)


class _Training:
    """A run in this process: where it stands, and what happens at an evaluation."""

    def __init__(
        self,
        run: Run,
        folder: Path,
        agent: BaseAlgorithm,
        eval_env: VecEnv,
        callbacks: list[BaseCallback],
        watcher: Watcher,
        token: str,
    ) -> None:
        self.run, self.folder, self.eval_env, self.watcher, self.token = run, folder, eval_env, watcher, token
        self._callbacks = callbacks
        self._checkpoints = Checkpoints(folder)
        self._write_settings(agent)
        loaded = self._checkpoints.load(agent)
        if loaded is None:
            # Without a checkpoint a run starts over, and so does its record: it follows one training only.
            (folder / EVALUATIONS).unlink(missing_ok=True)
            self.agent, self._reached, self._seconds = agent, 0, 0.0
        else:
            self.agent, state = loaded
            self._reached, self._seconds = state["reached"], state["train_seconds"]
            self.agent.set_random_seed(_seed(run, self.agent.num_timesteps))
        self._resumed = loaded is not None
        self._rows = read_evaluations(folder, run.n_eval_episodes)
        self._since = time.perf_counter()

    def finish(self) -> None:
        # Killed during an evaluation: the checkpoint before it has the same agent.
        if self._reached > (self._rows[-1][0] if self._rows else 0):
            self._evaluate()
        if self._reached < self.run.steps:
            self._since = time.perf_counter()
            remaining = self.run.steps - self.agent.num_timesteps
            callbacks = [*self._callbacks, _Callback(self)]
            self.agent.learn(remaining, callbacks, log_interval=None, reset_num_timesteps=not self._resumed)  # type: ignore[arg-type]
        self._checkpoints.clear()

    def on_step(self, step: int) -> bool:
        """
        :return: Whether to go on
        """
        self.watcher.stepped(step)
        if step >= min(self._reached + self.run.eval_freq, self.run.steps):
            self._reached = min(step - step % self.run.eval_freq, self.run.steps) if step < self.run.steps else self.run.steps
            self._pause()
            self.watcher.evaluating()
            self._save()
            self._evaluate()
            self._since = time.perf_counter()
            return self._reached < self.run.steps
        if self.watcher.should_stop():
            self._pause()
            self._save()
            raise Interrupted
        return True

    def _pause(self) -> None:
        self._seconds += time.perf_counter() - self._since

    def _save(self) -> None:
        self._check_owner()
        self._checkpoints.save(self.agent, reached=self._reached, train_seconds=self._seconds)

    def _evaluate(self) -> None:
        returns = evaluate(self.agent, self.eval_env, _seed(self.run, self._reached))
        self._check_owner()
        if self._reached >= self.run.steps:
            self._write_model()
        self._rows.append([self._reached, self._seconds, *returns])
        write_evaluations(self.folder, self._rows)
        self.watcher.evaluated(self._reached, float(np.mean(returns)))

    def _write_settings(self, agent: BaseAlgorithm) -> None:
        settings = {
            **self.run.settings(),
            "n_parameters": count_parameters(agent.policy),
            "versions": versions(),
            "machine": machine(),
        }
        write_text(self.folder / SETTINGS, json.dumps(settings, indent=1))

    def _write_model(self) -> None:
        with written_whole(self.folder / MODEL) as path:
            self.agent.save(path)
        normalization = self.agent.get_vec_normalize_env()
        if normalization is not None:
            with written_whole(self.folder / NORMALIZATION) as path:
                normalization.save(str(path))

    def _check_owner(self) -> None:
        if _owner(self.folder) != self.token:
            raise LostRun(f"Another worker has taken over the run {self.run.key}.")


class _Callback(BaseCallback):
    def __init__(self, training: _Training) -> None:
        super().__init__()
        self._study_training = training

    def _on_step(self) -> bool:
        return self._study_training.on_step(self.num_timesteps)


@contextlib.contextmanager
def _owned(folder: Path) -> Any:
    """The last worker to come owns the folder; an earlier one that is still alive sees that before it writes."""
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


def _check_settings(run: Run, record: Record, folder: Path) -> None:
    for name, value in run.settings().items():
        if record.settings.get(name) != value:
            raise ValueError(
                f"{folder / SETTINGS}: {name} is {record.settings.get(name)!r}, but the study has {value!r}. "
                "Use another folder, or delete this run's."
            )


def _seed(run: Run, step: int) -> int:
    """A seed of its own for every evaluation and every resumption of a run."""
    # A tuple of small numbers, mixed; environments of one evaluation count on from it.
    return int(np.random.SeedSequence([run.seed, step]).generate_state(1)[0] >> 1)
