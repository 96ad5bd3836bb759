"""From files to policies: every way in, and every wrong file."""

import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.deploy import export_c, export_onnx, load_trained
from sb3_span.saved import env_of, find_model
from tests.deploy.models import lively
from tests.policies.models import ALGORITHMS, action_spaces, actions, name, observations


@pytest.mark.parametrize(
    "algo, kwargs",
    [
        *((algo, dict(actions=action_spaces(algo)[0])) for algo in ALGORITHMS if algo is not RecurrentPPO),
        (PPO, dict(use_sde=True, policy_kwargs=dict(squash_output=True))),
        (SAC, dict(use_sde=True)),
        (SAC, dict(policy="MlpPolicy", span_arch=None)),
    ],
    ids=name,
)
def test_policy_without_its_algorithm(algo, kwargs, tmp_path):
    model = lively(algo, **kwargs)
    model.save(tmp_path / "model")
    trained = load_trained(tmp_path / "model.zip")
    obs = observations(model)
    np.testing.assert_array_equal(actions(trained.policy, obs), actions(model, obs))
    assert type(trained.policy) is type(model.policy)
    assert trained.vecnormalize is None


@pytest.fixture(scope="module")
def pendulum():
    model = lively(SAC, env=VecNormalize(make_vec_env("Pendulum-v1")))
    model.env.obs_rms.mean[:] = 0.25
    return model


def test_zoo_folder(pendulum, tmp_path, monkeypatch):
    folder = tmp_path / "Pendulum-v1_3"
    (folder / "Pendulum-v1").mkdir(parents=True)
    (folder / "Pendulum-v1" / "config.yml").write_text("")
    pendulum.env.save(str(folder / "Pendulum-v1" / "vecnormalize.pkl"))
    pendulum.save(folder / "Pendulum-v1.zip")
    pendulum.save(folder / "best_model.zip")
    monkeypatch.chdir(folder)
    for path in (folder, folder / "best_model.zip", Path()):
        trained = load_trained(path)
        assert env_of(find_model(path)) == "Pendulum-v1"
        assert trained.vecnormalize is not None and trained.vecnormalize.obs_rms.mean[0] == 0.25


@pytest.mark.parametrize("packages, env_id", [([], "Pendulum-v1"), (["my_envs"], "my_envs:Pendulum-v1")])
def test_study_folder(packages, env_id, pendulum, tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    pendulum.save(run / "model.zip")
    pendulum.env.save(str(run / "vecnormalize.pkl"))
    (run / "run.json").write_text(json.dumps({"env": "Pendulum-v1", "gym_packages": packages}))
    trained = load_trained(run)
    assert env_of(run / "model.zip") == env_id and trained.vecnormalize is not None
    with pytest.raises(ValueError, match="a whole study; name one of its runs"):
        load_trained(tmp_path)


@pytest.mark.parametrize("file", ["run.json", "args.yml", "config.yml"])
def test_options_of_the_environment(file, tmp_path):
    options = {"env_kwargs": {"g": 5.0}}
    if file == "run.json":
        (tmp_path / file).write_text(json.dumps({"env": "Pendulum-v1", "hyperparams": options}))
    else:
        (tmp_path / "Pendulum-v1").mkdir()
        (tmp_path / "Pendulum-v1" / "config.yml").write_text("")
        (tmp_path / "Pendulum-v1" / file).write_text(yaml.dump(OrderedDict(options)))  # as the Zoo writes them
    env = gym.make(env_of(tmp_path / "model.zip"))
    assert env.unwrapped.g == 5.0
    assert gym.make("Pendulum-v1").unwrapped.g == 10.0


def test_wrong_files(pendulum, tmp_path):
    whole = tmp_path / "model.zip"
    pendulum.save(whole)
    content = whole.read_bytes()
    cases = {
        "empty.zip": (b"", "not a model saved by Stable-Baselines3"),
        "text.zip": (b"hello", "not a model saved by Stable-Baselines3"),
        "truncated.zip": (content[: len(content) // 2], "not a model saved by Stable-Baselines3"),
        "flipped.zip": (content.replace(b"coefficients", b"coefficientz"), "damaged"),
    }
    for file, (data, message) in cases.items():
        (tmp_path / file).write_bytes(data)
        with pytest.raises(ValueError, match=message):
            load_trained(tmp_path / file)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ValueError, match="it has no policy"):
        load_trained(tmp_path / "other.zip")
    with pytest.raises(ValueError, match="There is no"):
        load_trained(tmp_path / "none.zip")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="has no model"):
        load_trained(tmp_path / "folder")


def test_paths_may_be_strings(pendulum, tmp_path):
    pendulum.save(tmp_path / "model.zip")
    pendulum.env.save(str(tmp_path / "normal.pkl"))
    policy = load_trained(str(tmp_path / "model.zip"), tmp_path / "normal.pkl").policy
    export_c(policy, str(tmp_path / "out"), vecnormalize=str(tmp_path / "normal.pkl"))
    assert "VecNormalize" in (tmp_path / "out" / "policy.h").read_text()


def test_wrong_vecnormalize(pendulum, tmp_path):
    pendulum.save(tmp_path / "model.zip")
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match="holds a list"):
        load_trained(tmp_path / "model.zip", tmp_path / "list.pkl")
    (tmp_path / "broken.pkl").write_bytes(b"no pickle")
    with pytest.raises(ValueError, match="not what VecNormalize"):
        load_trained(tmp_path / "model.zip", tmp_path / "broken.pkl")
    with pytest.raises(ValueError, match=r"statistics are for observations of shape \(3,\).*but the policy observes"):
        export_c(lively(observations="multibinary"), tmp_path / "out", vecnormalize=pendulum.env)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "export, kwargs, message",
    [
        (export_c, dict(observations="dict"), "C export supports one vector. Export to ONNX"),
        (export_c, dict(observations="image"), "NatureCNN, which C export does not support"),
        (export_c, dict(algo=RecurrentPPO), "is recurrent"),
        (export_onnx, dict(algo=RecurrentPPO), "is recurrent"),
    ],
)
def test_policies_that_cannot_be_exported(export, kwargs, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(lively(**kwargs), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_header_and_source_are_written_together(tmp_path):
    (tmp_path / "policy.c").mkdir()
    with pytest.raises(ValueError, match="cannot be written to"):
        export_c(lively(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.c"]


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="is a file"):
            export_c(lively(), output)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system here that nobody can write to")
def test_file_system_that_cannot_be_written():
    with pytest.raises(ValueError, match=r"is not writable|cannot be written to"):
        export_c(lively(), "/proc/policy")


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="No C compiler was found"):
        export_c(lively(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
