"""
A study that is disturbed in every way that we could think of ends with the evaluations of one that is not.

Briefly by default, each fault once; ``pytest tests/study/test_faults.py --faults 20`` disturbs it at random for 20 minutes.
Two workers, PostgreSQL on loopback.
"""

import random
import subprocess
import time

import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO, SAC

from sb3_span.study.evaluation import evaluate
from sb3_span.study.records import read_record
from sb3_span.study.run import StudyManager, train
from sb3_span.study.training import seed_at
from tests.study.faults import FAULTS, DisturbedStudy
from tests.study.runs import make_plan, ppo_run, sac_run

# An agent that does not learn: each of its evaluations is the same however often the run was begun again.
FROZEN = {"learning_rate": 0.0}


@pytest.fixture
def disk(tmp_path):
    """A folder, on a disk of its own where that can be had: a full one is then part of the test."""
    folder = tmp_path / "out"
    folder.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=30m", "none", str(folder)], capture_output=True
    ).returncode
    yield folder, mounted
    if mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def evaluated_again(run, folder):
    """The last evaluation, made with the model that was kept."""
    manager = StudyManager(run)
    agent = manager.make_agent()
    env = manager.make_eval_env()
    model = {"ppo": PPO, "sac": SAC}[run.algo].load(folder / "model.zip", device="cpu")
    returns = evaluate(model, env, seed_at(run, run.steps))
    for each in (agent.env, env):
        each.close()
    return returns


def test_faults(request, tmp_path, disk, postgresql_server):
    minutes = request.config.getoption("--faults")
    folder, is_small = disk
    scale = 1 if not minutes else max(1, round(4 * minutes))
    frozen = [ppo_run(4000 * scale, seed=seed, **FROZEN) for seed in range(2)]
    learning = [sac_run(1000 * scale, seed=seed) for seed in range(2)]
    plan = make_plan(*frozen, *learning, name=f"faults-{time.time_ns()}")
    file = tmp_path / "study.yml"
    file.write_text(yaml.safe_dump(plan.resolved))
    faults = [fault for fault in FAULTS if is_small or fault != "fill_the_disk"]
    rng = random.Random(0)
    deadline = time.monotonic() + 300 + 120 * minutes
    study = DisturbedStudy(file, folder, postgresql_server, tmp_path, deadline, rng)
    study.start()
    try:
        until = time.monotonic() + 60 * minutes
        while faults or time.monotonic() < until:
            study.progress()
            if study.has_ended():
                if not faults:
                    break
                study.finish()
                break
            fault = faults.pop(0) if faults else rng.choice(FAULTS[: 6 if is_small else 5])
            study.log.append(fault)
            getattr(study, fault)()
        study.finish()
    finally:
        study.end()
    for run in plan.runs:
        path = folder / "runs" / run.key
        record, whole = read_record(path), train(run, tmp_path / "whole" / run.key)
        assert list(record.steps) == list(range(200, run.steps + 1, 200)), run.key
        same = len(record.steps) if run.env == "CartPole-v1" else study.untouched.get(run.key, len(record.steps))
        np.testing.assert_array_equal(record.returns[:same], whole.returns[:same], err_msg=f"{run.key}: {study.log}")
        np.testing.assert_allclose(evaluated_again(run, path), record.returns[-1], rtol=1e-6, err_msg=run.key)
        assert {each.name for each in path.iterdir()} == {"run.json", "evaluations.csv", "model.zip"}
    assert set(study.log) & {"kill_a_worker", "kill_everything"}
    print(study.log)
