"""One run: the Zoo's agent and environments, the paper's evaluation, records and checkpoints."""

import argparse
import contextlib
import copy
import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import get_class_by_name
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

import sb3_span.zoo  # noqa: F401  # the Zoo's algorithms, as rl_zoo3.train has them with our policies
from sb3_span.atomic_files import written_whole
from sb3_span.policies.budget import count_parameters
from sb3_span.saved.statistics import NORMALIZATION, save_statistics
from sb3_span.study.checkpoint import Checkpoints
from sb3_span.study.evaluation import OneEpisodeEach, evaluate
from sb3_span.study.plan import Run
from sb3_span.study.records import MODEL, SETTINGS, Record, check_model, read_record
from sb3_span.study.study_file import OFFLINE_ALGORITHMS
from sb3_span.study.training import Training, Watcher, seed_at
from sb3_span.study.trust import check_trust
from sb3_span.study.zoo_strings import EVALUATED, NotPlainError, read_zoo_string


class StudyManager(ExperimentManager):
    """
    The Zoo's set-up of agent and environments, without its log folders, files and messages.

    :param trust: Whether the Zoo may evaluate strings that are not plain data as Python
    """

    def __init__(self, run: Run, trust: bool = False) -> None:
        self._run, self._trust = run, trust
        super().__init__(
            argparse.Namespace(), run.algo, run.env, log_folder="", n_timesteps=run.steps, eval_freq=-1,
            seed=run.seed, device="cpu", verbose=0, eval_env_kwargs=run.hyperparams.get("env_kwargs"),
        )  # fmt: skip

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        hyperparams = copy.deepcopy(self._run.hyperparams)
        for option in EVALUATED:
            if isinstance(text := hyperparams.get(option), str):
                try:
                    hyperparams[option] = read_zoo_string(text)
                except NotPlainError:
                    if not self._trust:
                        raise
        policy_kwargs = hyperparams.get("policy_kwargs")
        # The Zoo resolves names of classes everywhere but here.
        if isinstance(policy_kwargs, dict) and isinstance(name := policy_kwargs.get("activation_fn"), str):
            policy_kwargs["activation_fn"] = get_class_by_name(name)
        return hyperparams, {}

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
        of_training, self.vec_env_class = self.vec_env_class, OneEpisodeEach
        try:
            return self.create_envs(self._run.n_eval_episodes, eval_env=True)
        finally:
            self.vec_env_class = of_training


def train(run: Run, folder: Path, watcher: Watcher | None = None, keep_model: bool = True, trust: bool = False) -> Record:
    """
    Train one run to its end, from its checkpoint if it has one.

    :param run: The run to train
    :param folder: The run's own folder
    :param watcher: Notified of every step and evaluation
    :param keep_model: Whether the trained model is written; then a finished run without it is refused
    :param trust: Whether the run may execute its own code: modules that are not installed, Python in strings, pickles
    :return: The finished record
    """
    th.set_num_threads(1)
    if not trust:
        check_trust([run])
    for package in run.gym_packages:
        importlib.import_module(package)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / SETTINGS).exists():
        record = read_record(folder)
        run.check_settings(record.settings, folder / SETTINGS)
        if record.finished:
            if keep_model:
                check_model(record, folder)
            Checkpoints(folder).clear()  # in case it was killed just before
            return record
    training = _training_class(run)(run, folder, watcher or Watcher(), trust)
    training.keeps_model = keep_model
    try:
        training.finish()
    finally:
        training.close()
    return read_record(folder)


def _training_class(run: Run) -> type[Training]:
    if run.algo not in OFFLINE_ALGORITHMS:
        return ZooTraining
    from sb3_span.offline.training import OfflineTraining  # d3rlpy need not be installed

    return OfflineTraining


class ZooTraining(Training):
    """An agent of SB3 or sb3-contrib, set up by the Zoo, in its environments."""

    def __init__(self, run: Run, folder: Path, watcher: Watcher, trust: bool = False) -> None:
        super().__init__(run, folder, watcher, trust)
        manager = StudyManager(run, trust)
        self.agent = manager.make_agent()
        self._eval_env = manager.make_eval_env()
        self._callbacks = manager.callbacks
        self._checkpoints = Checkpoints(folder)
        self._resumed = False

    def facts(self) -> dict[str, Any]:
        return {"n_parameters": count_parameters(self.agent.policy)}

    def load(self) -> dict[str, Any] | None:
        state = self._checkpoints.load(self.agent, self.trusted)
        if state is None:
            return None
        self.agent.set_random_seed(seed_at(self.run, self.agent.num_timesteps))
        self._resumed = True
        return state

    def save(self, **state: Any) -> None:
        self._checkpoints.save(self.agent, **state)

    def learn(self) -> None:
        remaining = self.run.steps - self.agent.num_timesteps
        callbacks = [*self._callbacks, _Callback(self)]
        self.agent.learn(remaining, callbacks, log_interval=None, reset_num_timesteps=not self._resumed)  # type: ignore[arg-type]

    def evaluate(self, seed: int) -> np.ndarray:
        return evaluate(self.agent, self._eval_env, seed)

    def write_model(self) -> None:
        with written_whole(self.folder / MODEL) as path:
            self.agent.save(path)
        normalization = self.agent.get_vec_normalize_env()
        if normalization is not None:
            save_statistics(normalization, self.folder / NORMALIZATION)

    def clear(self) -> None:
        self._checkpoints.clear()

    def close(self) -> None:
        self._eval_env.close()
        assert self.agent.env is not None
        self.agent.env.close()


class _Callback(BaseCallback):
    def __init__(self, training: Training) -> None:
        super().__init__()
        self._study_training = training

    def _on_step(self) -> bool:
        return self._study_training.on_step(self.num_timesteps)
