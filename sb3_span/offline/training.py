"""One offline run: an agent of d3rlpy that learns from a data set of Minari, and is evaluated in its environment."""

import io
import logging
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import structlog
import torch as th

from sb3_span.atomic_files import written_whole
from sb3_span.offline import load_minari, make_config
from sb3_span.offline.adroit import REFERENCE_SCORES
from sb3_span.offline.evaluation import evaluate, make_envs
from sb3_span.offline.iql import count_parameters
from sb3_span.study.checkpoint import DAMAGED, Checkpoints
from sb3_span.study.plan import Run
from sb3_span.study.records import OFFLINE_MODEL
from sb3_span.study.training import Training, Watcher, seed_at

CHECKPOINT = "checkpoint-offline.pt"
# There may be a single evaluation, at the end: a run that is killed continues from here.
CHECKPOINT_EVERY = 1000


class OfflineTraining(Training):
    """An agent of d3rlpy. A step is an update from one batch of the data set."""

    def __init__(self, run: Run, folder: Path, watcher: Watcher, trust: bool = False) -> None:
        super().__init__(run, folder, watcher, trust)
        # d3rlpy prints what it finds in a data set, onto a study's screen.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        d3rlpy.seed(run.seed)
        self._dataset, env = load_minari(run.env)
        assert env.spec is not None
        self._env_id = env.spec.id
        self._envs = make_envs(env, run.n_eval_episodes)
        self.agent = make_config(run.hyperparams).create(device="cpu:0")
        self.agent.build_with_dataset(self._dataset)
        self._step = 0

    def facts(self) -> dict[str, Any]:
        scores = REFERENCE_SCORES.get(self._env_id)
        return {
            "n_parameters": count_parameters(self.agent),
            "evaluation_env": self._env_id,
            "reference_scores": None if scores is None else list(scores),
            "n_transitions": self._dataset.transition_count,
        }

    def load(self) -> dict[str, Any] | None:
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            saved = th.load(path, weights_only=True)
            self.agent.impl.load_model(io.BytesIO(saved["agent"]))
            self._step, state = saved["step"], saved["state"]
        except DAMAGED as error:
            raise ValueError(
                f"The checkpoint {path} is damaged ({error}). Restore it, or delete it to start this run over, "
                "and retry the study."
            ) from error
        d3rlpy.seed(seed_at(self.run, self._step))
        return state

    def save(self, **state: Any) -> None:
        agent = io.BytesIO()
        self.agent.impl.save_model(agent)
        with written_whole(self.folder / CHECKPOINT) as path:
            th.save({"agent": agent.getvalue(), "step": self._step, "state": state}, path)

    def learn(self) -> None:
        going = True
        while going:
            self.agent.update(self._dataset.sample_transition_batch(self.agent.batch_size))
            self._step += 1
            going = self.on_step(self._step)
            if going and self._step % CHECKPOINT_EVERY == 0:
                self.checkpoint()

    def evaluate(self, seed: int) -> np.ndarray:
        return evaluate(self.agent, self._envs, self.run.n_eval_episodes, seed)

    def write_model(self) -> None:
        with written_whole(self.folder / OFFLINE_MODEL) as path:
            self.agent.save(str(path))

    def clear(self) -> None:
        Checkpoints(self.folder).clear()

    def close(self) -> None:
        for env in self._envs:
            env.close()
