"""(e) What a study costs around a run, and how long the paper's evaluation of 30 episodes takes."""

import itertools
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import sb3_span  # noqa: F401
from sb3_span.speed.timing import take_turns
from sb3_span.study.evaluation import OneEpisode, evaluate
from sb3_span.study.plan import Run
from sb3_span.study.run import StudyManager, train

N_EPISODES = 30
RUNS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("CartPole-v1", "ppo", 20_000, {}),
    ("Hopper-v5", "sac", 10_000, {"learning_starts": 1000}),
)


class _Evaluate(BaseCallback):
    """What anyone would do without a study."""

    def __init__(self, eval_env: VecEnv, every: int) -> None:
        super().__init__()
        self._eval_env, self._every = eval_env, every

    def _on_step(self) -> bool:
        if self.num_timesteps % self._every == 0:
            evaluate(self.model, self._eval_env, seed=self.num_timesteps)
        return True


def time_studies(hyperparams: Path, rounds: int) -> list[dict[str, Any]]:
    """
    :param hyperparams: Folder with ``span.yml``
    :param rounds: Rounds to measure
    :return: For a run of PPO and one of SAC, the time in a study relative to ``learn`` with the same evaluations
    """
    entries = yaml.safe_load((hyperparams / "span.yml").read_text())
    rows = []
    for env_id, algo, steps, overrides in RUNS:
        options = {**entries[env_id], **overrides, "n_timesteps": steps}
        run = Run(env_id, algo, "span", 0, steps, eval_freq=5000, n_eval_episodes=N_EPISODES, hyperparams=options)
        with tempfile.TemporaryDirectory() as folder:
            fresh = (Path(folder) / str(number) for number in itertools.count())
            contenders = {"study": partial(_train, run, fresh), "plain": partial(_learn, run)}
            timings = take_turns(contenders, rounds)
        lower, middle, upper = timings["study"].quartiles(timings["plain"])
        rows.append(
            {
                "environment": env_id,
                "steps": steps,
                "study_s": timings["study"].median,
                "plain_s": timings["plain"].median,
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
    :return: Seconds for 30 episodes of Hopper in full length, 1,000 steps each
    """
    env_id = "Hopper-v5"
    eval_env = DummyVecEnv(
        [lambda: OneEpisode(Monitor(gym.make(env_id, terminate_when_unhealthy=False))) for _ in range(N_EPISODES)]
    )
    model = SAC("SPANPolicy", env_id, buffer_size=1, seed=0, device="cpu")
    timing = take_turns({"evaluation": partial(evaluate, model, eval_env, 0)}, rounds)["evaluation"]
    eval_env.close()
    return {"environment": env_id, "episodes": N_EPISODES, "seconds": timing.median, "slowest": max(timing.seconds)}


def _train(run: Run, fresh: Any) -> None:
    train(run, next(fresh))


def _learn(run: Run) -> None:
    manager = StudyManager(run)
    agent, eval_env = manager.make_agent(), manager.make_eval_env()
    agent.learn(run.steps, _Evaluate(eval_env, run.eval_freq), log_interval=None)  # type: ignore[arg-type]
    eval_env.close()
