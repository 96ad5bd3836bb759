"""Agents in safetensors files: the same actions as before, and nothing in a file is executed."""

import json
import pickle
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from safetensors.torch import load_file, save_file
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.cli import main
from sb3_span.saved.shared_file import load_shared, save_shared
from tests.policies.envs import OBSERVATIONS, make
from tests.policies.models import ALGORITHMS, action_spaces, make_model, name, observations


def assert_same(model, path):
    again = load_shared(path)
    obs = observations(model)
    np.testing.assert_array_equal(
        model.policy.predict(obs, deterministic=True)[0], again.predict(obs, deterministic=True)[0], strict=True
    )
    for key, value in model.policy.state_dict().items():
        assert th.equal(value, again.policy.state_dict()[key]), key
    return again


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_every_algorithm(algo, tmp_path):
    for actions in action_spaces(algo):
        model = make_model(algo, make("vector", actions))
        save_shared(model, tmp_path / "agent.safetensors")
        again = assert_same(model, tmp_path / "agent.safetensors")
        assert again.action_space == model.action_space and again.vecnormalize is None and again.env_id is None


@pytest.mark.parametrize("obs", OBSERVATIONS)
def test_every_observation_space(obs, tmp_path):
    model = make_model(PPO, make(obs, "discrete"))
    save_shared(model, tmp_path / "agent.safetensors")
    assert_same(model, tmp_path / "agent.safetensors")


@pytest.mark.parametrize(
    "algo, options",
    [
        (PPO, {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [5], "activation_fn": th.nn.ELU}}),
        (PPO, {"policy": "MlpPolicy", "policy_kwargs": {"share_features_extractor": False}}),
        (SAC, {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": {"pi": [5], "qf": [6]}}}),
    ],
)
def test_mlps(algo, options, tmp_path):
    model = make_model(algo, make("vector", "box"), span_arch=None, **options)
    save_shared(model, tmp_path / "agent.safetensors")
    assert_same(model, tmp_path / "agent.safetensors")


@pytest.mark.parametrize("options", [{"use_sde": True}, {"span_arch": {"nmodes": 2, "nelems": 3, "preprocess": "batchnorm"}}])
def test_shapes(options, tmp_path):
    model = make_model(PPO, make("vector", "box"), **options)
    save_shared(model, tmp_path / "agent.safetensors")
    assert_same(model, tmp_path / "agent.safetensors")


def test_statistics_and_environment(tmp_path):
    env = VecNormalize(make_vec_env("Pendulum-v1", 2))
    model = make_model(PPO, env)
    save_shared(model, tmp_path / "agent.safetensors", env_id="Pendulum-v1")
    again = load_shared(tmp_path / "agent.safetensors")
    obs = np.array([[0.3, -0.2, 5.0]])
    np.testing.assert_array_equal(again.vecnormalize.normalize_obs(obs), env.normalize_obs(obs))
    assert again.env_id == "Pendulum-v1" and env.obs_rms.count > 2


def change(path, **changes):
    """Rewrite a file's description."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    agent = {**json.loads(metadata["agent"]), **changes}
    save_file(load_file(path), path, {**metadata, "agent": json.dumps(agent)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "os.system"}, "its policy is 'os.system'"),
        ({"options": {"features_extractor_class": {"class": "os.system"}}}, "it has the class 'os.system'"),
        ({"options": {"activation_fn": {"class": "nn.init"}}}, "it has the class 'nn.init'"),
        ({"options": {"optimizer_class": "x"}}, r"it has the options \['optimizer_class'\]"),
        ({"env_id": "local_module:Env-v0"}, "its environment is called 'local_module:Env-v0'"),
        ({"action_space": {"kind": "Box"}}, "is not the description of a space"),
        ({"options": {"span_arch": {"nmodes": 7, "nelems": 3}}}, "The saved networks have another shape"),
    ],
)
def test_files_that_are_not_trusted(changes, message, tmp_path):
    path = tmp_path / "agent.safetensors"
    save_shared(make_model(PPO, make("vector", "box"), learn=False), path)
    change(path, **changes)
    with pytest.raises(ValueError, match=rf"(?s)agent.safetensors is not an agent that save_shared has written.*{message}"):
        load_shared(path)


@pytest.mark.parametrize(
    "damage",
    [lambda path: path.write_bytes(path.read_bytes()[:-50]), lambda path: path.write_bytes(pickle.dumps(print)), Path.unlink],
)
def test_damaged_files(damage, tmp_path):
    path = tmp_path / "agent.safetensors"
    save_shared(make_model(PPO, make("vector", "box"), learn=False), path)
    damage(path)
    with pytest.raises(ValueError, match=r"agent.safetensors"):
        load_shared(path)


class Own(BaseFeaturesExtractor):
    def __init__(self, space):
        super().__init__(space, 3)

    def forward(self, observations):
        return observations


def test_what_cannot_be_shared(tmp_path):
    model = make_model(PPO, make("vector", "box"), learn=False, policy_kwargs={"features_extractor_class": Own})
    with pytest.raises(ValueError, match=r"features_extractor_class is .*Own.*, which cannot be written as plain data"):
        save_shared(model, tmp_path / "agent.safetensors")
    with pytest.raises(ValueError, match=r"agent.zip does not end with .safetensors"):
        save_shared(model, tmp_path / "agent.zip")
    assert not list(tmp_path.iterdir())


def test_commands(tmp_path, monkeypatch, capsys):
    """From a zip to a file that can be shared, watched, drawn and exported; what lies beside it is not imported."""
    monkeypatch.chdir(tmp_path)
    env = VecNormalize(make_vec_env("CartPole-v1", 2))
    model = make_model(PPO, env, steps=64)
    model.save(tmp_path / "CartPole-v1.zip")
    env.save(str(tmp_path / "statistics.pkl"))
    arguments = ["--format", "safetensors", "--output", "shared", "--vecnormalize", "statistics.pkl"]
    main(["export", "CartPole-v1.zip", *arguments])
    output = capsys.readouterr().out
    assert "observations normalised with statistics.pkl" in output and "shared/policy.safetensors" in output
    shared = load_shared(tmp_path / "shared" / "policy.safetensors")
    assert shared.env_id == "CartPole-v1" and shared.vecnormalize.obs_rms.count == env.obs_rms.count
    (tmp_path / "shared" / "run.json").write_text(json.dumps({"env": "Evil-v0", "gym_packages": ["evil"]}))
    (tmp_path / "shared" / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path / "shared")
    for name_, extra in (("CartPole-v1.zip", ["--vecnormalize", "statistics.pkl"]), ("shared/policy.safetensors", [])):
        main(["watch", name_, "--gif", "agent.gif", "--episodes", "3", *extra])
        main(["export", name_, "--output", "c", *extra])
    lines = capsys.readouterr().out.splitlines()
    returns = [line.split(", observations normalised with")[0] for line in lines if "return" in line]
    assert len(returns) == 2 and returns[0] == returns[1]
    main(["plot", "shared/policy.safetensors", "--output", "agent.png"])
    assert (tmp_path / "agent.png").exists() and not (tmp_path / "executed").exists()
    assert isinstance(shared.observation_space, gym.spaces.Box)
