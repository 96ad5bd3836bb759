"""Offline runs in a study: records, resumption, the command."""

import json

import d3rlpy
import numpy as np
import pytest
import yaml

from sb3_span.cli import main
from sb3_span.offline import evaluate, load_minari, training
from sb3_span.study.plan import Run, read_plan
from sb3_span.study.records import read_record
from sb3_span.study.run import train
from sb3_span.study.training import Interrupted, seed_at
from tests.offline.datasets import write_random
from tests.study.test_run import KillAt, Killed, StopAt

DATASET = "pendulum/random-v0"
SPAN = {"batch_size": 16, "policy_kwargs": {"span_arch": {"nmodes": 2, "nelems": 3}}}
MLP = {"batch_size": 16, "policy_kwargs": {"net_arch": [4, 4]}}


@pytest.fixture
def dataset(minari_folder):
    write_random(DATASET)


def make_run(seed=0, steps=60, every=20):
    return Run(DATASET, "iql", "span", seed, steps, eval_freq=every, n_eval_episodes=3, hyperparams=SPAN)


def test_a_run_leaves_its_record_and_model(dataset, tmp_path):
    run = make_run()
    record = train(run, tmp_path / "run")
    assert list(record.steps) == [20, 40, 60] and record.returns.shape == (3, 3)
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["evaluation_env"] == "Pendulum-v1" and settings["reference_scores"] is None
    assert settings["n_transitions"] == 4 * 199
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "evaluations.csv", "model.d3"}
    # The model is the one that was evaluated.
    _, env = load_minari(DATASET)
    agent = d3rlpy.load_learnable(str(tmp_path / "run" / "model.d3"))
    np.testing.assert_allclose(evaluate(agent, [env], 3, seed_at(run, 60)), record.returns[-1], rtol=1e-4)


def test_the_same_seed_gives_the_same_evaluations(dataset, tmp_path):
    returns = [train(make_run(seed), tmp_path / name).returns for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    np.testing.assert_array_equal(returns[0], returns[1])
    assert not np.array_equal(returns[0], returns[2])


@pytest.mark.parametrize("ending", ["interrupted", "killed"])
def test_a_run_goes_on_where_it_was(dataset, tmp_path, monkeypatch, ending):
    """Also between evaluations, of which there may be only one."""
    monkeypatch.setattr(training, "CHECKPOINT_EVERY", 10)
    run = make_run(every=60)
    with pytest.raises(Interrupted if ending == "interrupted" else Killed):
        train(run, tmp_path, StopAt(37) if ending == "interrupted" else KillAt(37))
    assert len(read_record(tmp_path).steps) == 0
    watcher = StopAt(10**9)
    first = []
    watcher.stepped = lambda step: first.append(step)
    record = train(run, tmp_path, watcher)
    assert first[0] == (38 if ending == "interrupted" else 31)
    assert list(record.steps) == [60] and record.finished
    assert not list(tmp_path.glob("checkpoint*"))


def test_a_resumed_agent_is_the_one_that_was_saved(dataset, tmp_path):
    run = make_run(every=60)
    with pytest.raises(Interrupted):
        train(run, tmp_path, StopAt(30))
    trained = training.OfflineTraining(run, tmp_path, StopAt(0))
    observations = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    fresh = trained.agent.predict(observations)
    assert trained.load()["reached"] == 0
    assert not np.allclose(trained.agent.predict(observations), fresh)
    state = trained.agent.impl.policy_optim.state_dict()["state"]
    assert {int(values["step"]) for values in state.values()} == {30}
    trained.close()


def test_a_damaged_checkpoint(dataset, tmp_path):
    run = make_run(every=60)
    with pytest.raises(Interrupted):
        train(run, tmp_path, StopAt(30))
    path = tmp_path / training.CHECKPOINT
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"checkpoint-offline.pt is damaged .*delete it to start this run over"):
        train(run, tmp_path)


@pytest.fixture
def hyperparams(tmp_path):
    folder = tmp_path / "hyperparams"
    folder.mkdir()
    for name, entry in (("span", SPAN), ("mlp", MLP)):
        (folder / f"offline_{name}.yml").write_text(yaml.safe_dump({"Pendulum-v1": entry}))
    return folder


def test_command(dataset, hyperparams, tmp_path, monkeypatch, capfd):
    """Each call adds to the folder what it is asked for. What is finished is not made again."""
    monkeypatch.setenv("COLUMNS", "160")
    write_random("pendulum/other-v0", seed=9)
    folder = tmp_path / "study"
    common = ["--seeds", "1", "--steps", "20", "--episodes", "2", "--folder", str(folder), "--hyperparams", str(hyperparams)]
    main(["offline", "train", "--dataset", DATASET, "--method", "span", *common])
    model = folder / "runs" / "pendulum-random-v0__span__seed0" / "model.d3"
    made = model.stat().st_mtime_ns
    main(["offline", "train", "--dataset", DATASET, "pendulum/other-v0", "--method", "mlp", *common])
    assert model.stat().st_mtime_ns == made
    assert {path.name for path in (folder / "runs").iterdir()} == {
        "pendulum-random-v0__span__seed0",
        "pendulum-random-v0__mlp__seed0",
        "pendulum-other-v0__mlp__seed0",
    }
    out = capfd.readouterr().out
    assert "pendulum/random-v0" in out and "SPAN" in out and "MLP" in out and "return -" in out
    # The folder is a study like any other.
    assert len(read_plan(folder / "study.yml").runs) == 4
    main(["report", str(folder)])
    assert "Offline scores" in (folder / "report" / "report.md").read_text()


def test_errors_of_the_command(dataset, hyperparams, tmp_path):
    common = ["--folder", str(tmp_path / "study"), "--hyperparams", str(hyperparams)]
    with pytest.raises(SystemExit, match=r"'D4RL/door/expert-v2' is not in .*minari download D4RL/door/expert-v2"):
        main(["offline", "train", "--dataset", "D4RL/door/expert-v2", "--method", "span", *common])
    with pytest.raises(SystemExit, match="--seeds is 0"):
        main(["offline", "train", "--dataset", DATASET, "--method", "span", "--seeds", "0", *common])
    with pytest.raises(SystemExit, match="--workers is 0"):
        main(["offline", "train", "--dataset", DATASET, "--method", "span", "--workers", "0", *common])
    write_random("cartpole/random-v0", env="CartPole-v1")
    with pytest.raises(SystemExit, match=r"offline_span.yml.* has no entry for 'CartPole-v1'; it has \['Pendulum-v1'\]"):
        main(["offline", "train", "--dataset", "cartpole/random-v0", "--method", "span", *common])
