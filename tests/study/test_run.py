"""One run: the Zoo's agent, the same evaluations for the same seed, and no evaluation lost or made twice."""

import argparse
import contextlib
import dataclasses
import io
import json
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3 import PPO, SAC

from sb3_span.saved import env_of
from sb3_span.saved.statistics import load_statistics
from sb3_span.study.evaluation import evaluate
from sb3_span.study.records import read_evaluations, read_record, write_evaluations
from sb3_span.study.run import train
from sb3_span.study.training import Interrupted, LostRun, Watcher
from tests.study.runs import ppo_run, sac_run


class StopAt(Watcher):
    def __init__(self, step):
        self.step, self.now = step, 0

    def stepped(self, step):
        self.now = step

    def should_stop(self):
        return self.now >= self.step


class Killed(BaseException):
    pass


class KillAt(Watcher):
    """Ends a run as a killed process ends it: nothing more is written."""

    def __init__(self, step):
        self.step = step

    def stepped(self, step):
        if step >= self.step:
            raise Killed


@pytest.mark.parametrize("make", [ppo_run, sac_run])
def test_a_run_leaves_its_record_and_model(tmp_path, make):
    run = make()
    record = train(run, tmp_path)
    assert record.finished
    assert list(record.steps) == list(range(200, run.steps + 1, 200))
    assert record.returns.shape == (run.steps // 200, 3)
    assert (np.diff(record.train_seconds) > 0).all() and (np.diff(record.eval_seconds) > 0).all()
    settings = json.loads((tmp_path / "run.json").read_text())
    assert settings["hyperparams"] == run.hyperparams and settings["versions"]["torch"] and settings["machine"]["processor"]
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "evaluations.csv", "model.zip"}
    algorithm = PPO if make is ppo_run else SAC
    model = algorithm.load(tmp_path / "model.zip", device="cpu")
    trained = [model.policy] if make is ppo_run else [model.actor, model.critic]
    assert settings["n_parameters"] == sum(part.numel() for module in trained for part in module.parameters())


def test_the_same_seed_gives_the_same_evaluations(tmp_path):
    returns = [train(ppo_run(seed=seed), tmp_path / name).returns for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    np.testing.assert_array_equal(returns[0], returns[1])
    assert not np.array_equal(returns[0], returns[2])


def test_the_agent_is_the_zoos(tmp_path):
    """Evaluations and checkpoints in between do not change what is learned."""
    # A run ends with its last step. The Zoo would learn from the last rollout, of 128 steps, too: it gets one less.
    run = ppo_run(steps=640, normalize=True)
    train(run, tmp_path)
    config = tmp_path / "ppo.yml"
    config.write_text(json.dumps({run.env: {**run.hyperparams, "n_timesteps": 512}}))
    with contextlib.redirect_stdout(io.StringIO()):
        options = {"eval_freq": -1, "log_interval": 100, "device": "cpu"}
        manager = ExperimentManager(argparse.Namespace(), "ppo", run.env, str(tmp_path), config=str(config), **options)
        theirs, _ = manager.setup_experiment()
        manager.learn(theirs)
    ours = PPO.load(tmp_path / "model.zip", device="cpu").policy.state_dict()
    for name, values in theirs.policy.state_dict().items():
        assert th.equal(values, ours[name]), name


@pytest.mark.parametrize("make", [ppo_run, sac_run])
@pytest.mark.parametrize("ending", ["interrupted", "killed"])
def test_a_run_goes_on_where_it_was(tmp_path, make, ending):
    run = make()
    with pytest.raises(Interrupted if ending == "interrupted" else Killed):
        train(run, tmp_path, StopAt(500) if ending == "interrupted" else KillAt(500))
    before = read_record(tmp_path)
    assert list(before.steps) == [200, 400] and not before.finished
    steps = []

    class Watch(Watcher):
        def stepped(self, step):
            steps.append(step)

    after = train(run, tmp_path, Watch())
    assert list(after.steps) == list(range(200, run.steps + 1, 200))
    np.testing.assert_array_equal(after.returns[:2], before.returns)
    np.testing.assert_array_equal(after.train_seconds[:2], before.train_seconds)
    np.testing.assert_array_equal(after.eval_seconds[:2], before.eval_seconds)
    assert (np.diff(after.eval_seconds) > 0).all()
    # From the checkpoint: that of the interruption, or that of the last evaluation. PPO begins its rollout of 128 again.
    last = 500 if ending == "interrupted" else 400
    assert last - 128 <= steps[0] <= last
    assert steps[-1] == run.steps
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "evaluations.csv", "model.zip"}


def test_a_record_that_is_ahead_of_its_checkpoint(tmp_path):
    """As in the copy of a folder that was made while its run went on."""
    run = sac_run(1000)
    with pytest.raises(Interrupted):
        train(run, tmp_path, StopAt(500))
    rows = read_evaluations(tmp_path, run.settings())
    write_evaluations(tmp_path, [*rows, rows[-1]._replace(step=600)])
    record = train(run, tmp_path)
    assert list(record.steps) == list(range(200, run.steps + 1, 200))


@pytest.mark.parametrize("make", [ppo_run, sac_run])
@pytest.mark.parametrize("n_rows", [0, 1])
def test_evaluations_that_were_lost_come_from_the_checkpoint(tmp_path, make, n_rows):
    """The whole file is deleted, or its end: the run goes on, and its record is that of an undisturbed one."""
    run = make(1000)
    for name in ("run", "whole"):
        with pytest.raises(Killed):
            train(run, tmp_path / name, KillAt(700))
    file = tmp_path / "run" / "evaluations.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: 1 + n_rows])) if n_rows else file.unlink()
    with pytest.raises(Killed):
        train(run, tmp_path / "run", KillAt(0))  # before it has anything new to write
    assert file.read_text().splitlines(keepends=True)[:3] == lines[:3]
    returns = [train(run, tmp_path / name).returns for name in ("run", "whole")]
    np.testing.assert_array_equal(*returns)


@pytest.mark.parametrize("make", [ppo_run, sac_run])
def test_a_checkpoint_from_before_it_had_the_evaluations(tmp_path, make):
    run = make(1000)
    with pytest.raises(Killed):
        train(run, tmp_path, KillAt(700))
    state = next(tmp_path.glob("checkpoint-*/state.json"))
    state.write_text(json.dumps({key: value for key, value in json.loads(state.read_text()).items() if key != "evaluations"}))
    file = tmp_path / "evaluations.csv"
    whole = file.read_text()
    file.write_text("".join(whole.splitlines(keepends=True)[:2]))
    with pytest.raises(ValueError, match=r"evaluations.csv lacks the evaluation at step 400.*delete the run's folder"):
        train(run, tmp_path)
    file.write_text(whole)
    assert list(train(run, tmp_path).steps) == [200, 400, 600, 800, 1000]


def test_more_environments_than_steps_between_evaluations(tmp_path):
    """One step of them all passes several evaluations; each is made."""
    run = dataclasses.replace(ppo_run(100), eval_freq=3)
    assert list(train(run, tmp_path).steps) == [*range(3, 100, 3), 100]


def test_a_finished_run_without_its_model_is_not_done(tmp_path):
    run = ppo_run(200)
    record = train(run, tmp_path)
    (tmp_path / "model.zip").unlink()
    with pytest.raises(ValueError, match=r"has every evaluation but no model.zip: the run is not done.*keep_models: false"):
        train(run, tmp_path)
    np.testing.assert_array_equal(train(run, tmp_path, keep_model=False).returns, record.returns)
    (tmp_path / "evaluations.csv").unlink()  # told what to do, the user does it
    np.testing.assert_array_equal(train(run, tmp_path).returns, record.returns)
    assert (tmp_path / "model.zip").exists()


def test_a_study_without_models(tmp_path):
    assert train(ppo_run(200), tmp_path, keep_model=False).finished
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "evaluations.csv"}


def test_killed_while_it_evaluates(tmp_path, monkeypatch):
    run = ppo_run()
    whole = train(run, tmp_path / "whole")

    def evaluate_or_die(model, env, seed):
        if model.num_timesteps >= 600:
            raise Killed
        return evaluate(model, env, seed)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("sb3_span.study.run.evaluate", evaluate_or_die)
        train(run, tmp_path / "run")
    assert list(read_record(tmp_path / "run").steps) == [200, 400]
    resumed = train(run, tmp_path / "run")
    # The evaluation that was missed is made with the very agent of then.
    assert list(resumed.steps) == list(whole.steps)
    np.testing.assert_array_equal(resumed.returns[:3], whole.returns[:3])


def test_a_finished_run_is_not_trained_again(tmp_path):
    record = train(ppo_run(400), tmp_path)
    (tmp_path / "checkpoint-000000000400").mkdir()  # killed before it could tidy up
    again = train(ppo_run(400), tmp_path, KillAt(0))
    assert not (tmp_path / "checkpoint-000000000400").exists()
    np.testing.assert_array_equal(record.returns, again.returns)


def test_another_worker_takes_over(tmp_path):
    """The one that was there first notices before it writes."""
    run = sac_run()

    class Stolen(Watcher):
        def evaluated(self, step, mean_return):
            if step == 400:
                train(run, tmp_path)

    with pytest.raises(LostRun, match=run.key):
        train(run, tmp_path, Stolen())
    record = read_record(tmp_path)
    assert list(record.steps) == [200, 400, 600]


def test_the_environment_of_a_trained_run(tmp_path, monkeypatch):
    """Whichever of the study's packages registers it."""
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "first_package.py").write_text("")
    entry = "gymnasium.envs.classic_control:PendulumEnv"
    (tmp_path / "second_package.py").write_text(f"import gymnasium\ngymnasium.register('Mine-v0', {entry!r})\n")
    run = dataclasses.replace(ppo_run(), env="Mine-v0", gym_packages=("first_package", "second_package"))
    for hyperparams, gravity in (({}, 10.0), ({"env_kwargs": {"g": 5.0}}, 5.0)):
        (tmp_path / "run.json").write_text(json.dumps(dataclasses.replace(run, hyperparams=hyperparams).settings()))
        sys.modules.pop("second_package", None)
        gym.envs.registration.registry.pop("Mine-v0", None)
        assert gym.make(env_of(tmp_path / "model.zip")).unwrapped.g == gravity


def test_a_folder_of_another_study(tmp_path):
    train(ppo_run(200), tmp_path)
    with pytest.raises(ValueError, match=r"run.json: hyperparams is .*, but the study has"):
        train(ppo_run(200, learning_rate=0.1), tmp_path)


def test_settings_of_the_zoo_that_need_care(tmp_path):
    """Normalised observations, wrappers and schedules come from the same file as in rl_zoo3.train."""
    run = ppo_run(
        400, normalize=True, env_wrapper=[{"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 7}}], learning_rate="lin_0.01"
    )
    record = train(run, tmp_path)
    assert record.returns.max() == 7
    assert load_statistics(tmp_path / "vecnormalize.npz").obs_rms.count > 400
