"""(e) What a study costs around a run, and how long the paper's evaluation of 30 episodes takes."""

import itertools
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import yaml
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

import sb3_span  # noqa: F401
from sb3_span.speed.timing import take_turns
from sb3_span.study import training as study_training
from sb3_span.study.checkpoint import Checkpoints
from sb3_span.study.evaluation import OneEpisodeEach, evaluate
from sb3_span.study.plan import Run
from sb3_span.study.run import StudyManager, train
from sb3_span.study.training import seed_at

N_EPISODES = 30
RUNS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("CartPole-v1", "ppo", 20_000, {}),
    ("Hopper-v5", "sac", 5_000, {"learning_starts": 1000}),
)


class _Evaluate(BaseCallback):
    """The same without a study."""

    def __init__(self, run: Run, eval_env: VecEnv) -> None:
        super().__init__()
        self._run, self._eval_env = run, eval_env

    def _on_step(self) -> bool:
        if self.num_timesteps % self._run.eval_freq == 0:
            evaluate(self.model, self._eval_env, seed_at(self._run, self.num_timesteps))
        return self.num_timesteps < self._run.steps


def time_studies(hyperparams: Path, rounds: int) -> list[dict[str, Any]]:
    """
    :param hyperparams: Folder with ``span.yml``
    :param rounds: Rounds to measure
    :return: For a run of PPO and one of SAC, the time in a study relative to ``learn`` with the same evaluations, and the
        seconds that its checkpoints and records take: what a study adds, free of the machine's noise
    """
    entries = yaml.safe_load((hyperparams / "span.yml").read_text())
    rows = []
    for env_id, algo, steps, overrides in RUNS:
        options = {**entries[env_id], **overrides, "n_timesteps": steps}
        run = Run(env_id, algo, "span", 0, steps, eval_freq=5000, n_eval_episodes=N_EPISODES, hyperparams=options)
        with tempfile.TemporaryDirectory() as folder:
            fresh = (Path(folder) / str(number) for number in itertools.count())
            contenders = {"study": partial(_train, run, fresh), "plain": partial(_learn, run)}
            own = _Clock()
            with own.on(Checkpoints, "save"), own.on(study_training, "write_evaluations"):
                timings = take_turns(contenders, rounds)
        lower, middle, upper = timings["study"].quartiles(timings["plain"])
        rows.append(
            {
                "environment": env_id,
                "steps": steps,
                "study_s": timings["study"].median,
                "plain_s": timings["plain"].median,
                "own_s": own.seconds / (rounds + 1),  # one to warm up
                "ratio": middle,
                "ratio_lower": lower,
                "ratio_upper": upper,
                "rounds": rounds,
            }
        )
    return rows


def time_evaluation(rounds: int) -> dict[str, Any]:
    """
    :param rounds: Rounds to measure
    :return: Seconds for 30 episodes of Hopper in full length, 1,000 steps each, and how much of them is not the evaluation's
        own: the environments' ``step``, and in it the simulation alone
    """
    env_id = "Hopper-v5"
    in_step, in_physics = _Clock(), _Clock()

    def make() -> gym.Env:
        env = gym.make(env_id, terminate_when_unhealthy=False)
        env.unwrapped.do_simulation = in_physics.around(env.unwrapped.do_simulation)  # type: ignore[attr-defined]
        env.step = in_step.around(env.step)  # type: ignore[method-assign]
        return Monitor(env)

    eval_env = OneEpisodeEach([make for _ in range(N_EPISODES)])
    model = SAC("SPANPolicy", env_id, buffer_size=1, seed=0, device="cpu")
    timing = take_turns({"evaluation": partial(evaluate, model, eval_env, 0)}, rounds)["evaluation"]
    eval_env.close()
    calls = rounds + 1  # one to warm up
    return {
        "environment": env_id,
        "episodes": N_EPISODES,
        "seconds": timing.median,
        "slowest": max(timing.seconds),
        "environments_s": in_step.seconds / calls,
        "physics_s": in_physics.seconds / calls,
    }


class _Clock:
    """Adds up the time that functions take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds += time.perf_counter() - start
            return result

        return timed

    def on(self, owner: Any, name: str) -> Any:
        """
        :return: A context in which a function of a module or class is timed
        """
        return mock.patch.object(owner, name, self.around(getattr(owner, name)))


def _train(run: Run, fresh: Any) -> None:
    train(run, next(fresh))


def _learn(run: Run) -> None:
    manager = StudyManager(run)
    agent, eval_env = manager.make_agent(), manager.make_eval_env()
    agent.learn(run.steps, _Evaluate(run, eval_env), log_interval=None)  # type: ignore[arg-type]
    eval_env.close()
