"""Studies made by hand, in the format that training runs leave behind."""

import json

import numpy as np

from sb3_span.study.plan import Run
from sb3_span.study.records import Evaluation, write_evaluations

EVERY, EPISODES = 5000, 4
MACHINE = {"processor": "a processor", "cores": 2, "instructions": "avx2", "kernel": "native"}


def write_run(
    folder,
    env,
    method,
    seed,
    means,
    steps=None,
    seconds_per_step=0.001,
    cell=None,
    base=None,
    n_parameters=86,
    eval_seconds=1.0,
):
    """
    Write one run's record. Its episodes differ, and have the given means.

    :param means: Mean return of each evaluation, one every 5000 steps
    :param steps: The run's budget; by default it ends with the last evaluation
    :param eval_seconds: Seconds of each evaluation; NaN in an old record
    :return: The run's folder
    """
    budget = steps or EVERY * len(means)
    run = Run(
        env=env,
        algo="ppo",
        method=method,
        seed=seed,
        steps=budget,
        eval_freq=EVERY,
        n_eval_episodes=EPISODES,
        hyperparams={"policy": "MlpPolicy", "n_timesteps": budget},
        cell=cell or {},
        base=base or {},
    )
    path = folder / "runs" / run.key
    path.mkdir(parents=True)
    settings = {**run.settings(), "n_parameters": n_parameters, "versions": {"torch": "2.13.0"}, "machine": MACHINE}
    (path / "run.json").write_text(json.dumps(settings))
    spread = np.array([-3.0, -1.0, 1.0, 3.0])
    at = EVERY * np.arange(1, len(means) + 1)
    evaluations = [
        Evaluation(step, step * seconds_per_step, step / EVERY * eval_seconds, mean + spread)
        for step, mean in zip(at, means, strict=True)
    ]
    if evaluations:
        write_evaluations(path, evaluations)
    return path


def rising(start, end, n, at):
    """A curve of n evaluations: ``start``, and ``end`` from evaluation ``at`` on."""
    return [start if i < at else end for i in range(n)]
