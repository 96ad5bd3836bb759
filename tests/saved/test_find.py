"""A file is enough: the algorithm, and mostly the environment, are found out."""

from pathlib import Path

import numpy as np
import pytest

from sb3_span.policies.registry import supported_algorithms
from sb3_span.saved import env_of, find_agent, load_agent
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv


@pytest.mark.parametrize("policy", ["SPAN", "Mlp"])
@pytest.mark.parametrize("algo", supported_algorithms())
def test_the_algorithm_is_found(algo, policy, tmp_path):
    algorithm = supported_algorithms()[algo]
    policy = next(name for name in algorithm.policy_aliases if name.startswith(policy))
    for actions in ("discrete", "box"):
        try:
            model = algorithm(policy, RandomEnv(OBSERVATIONS["vector"], ACTIONS[actions]), device="cpu")
        except AssertionError:  # not an action space of this algorithm
            continue
        model.save(tmp_path / "model.zip")
        loaded = load_agent(tmp_path / "model.zip")
        assert issubclass(algorithm, type(loaded))  # a DDPG is a TD3 with other settings, and a file does not tell them apart
        observations = np.random.default_rng(0).uniform(-1, 1, (20, 3)).astype(np.float32)
        assert np.array_equal(*(each.predict(observations, deterministic=True)[0] for each in (model, loaded)))


def test_the_environment_is_found(tmp_path):
    assert env_of(tmp_path / "CartPole-v1.zip") == "CartPole-v1"
    assert env_of(tmp_path / "ppo" / "Hopper-v5_3" / "best_model.zip") == "Hopper-v5"
    assert env_of(tmp_path / "best_model.zip") is None


def test_short_names(tmp_path, monkeypatch):
    folder = tmp_path / "agents"
    folder.mkdir(parents=True)
    for name in ("CartPole-v1.zip", "LunarLander-v3.zip", "README.md"):
        (folder / name).touch()
    monkeypatch.setattr("sb3_span.saved.find.AGENTS", folder)
    monkeypatch.chdir(tmp_path)
    assert find_agent("lunarlander").name == "LunarLander-v3.zip"
    assert find_agent("CartPole").samefile(folder / "CartPole-v1.zip")
    (tmp_path / "cartpole").mkdir()  # such as one with exported code
    assert find_agent("cartpole").samefile(folder / "CartPole-v1.zip")
    (tmp_path / "cartpole" / "model.zip").touch()
    assert find_agent("cartpole").samefile(tmp_path / "cartpole" / "model.zip")
    with pytest.raises(ValueError, match=r"'pong' is neither a file nor .*: choose one of \['cartpole', 'lunarlander'\]"):
        find_agent("pong")


def test_a_file_without_its_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.zip").touch()
    assert find_agent("mine") == Path("mine.zip")


def test_other_files(tmp_path):
    path = tmp_path / "model.zip"
    path.write_text("not a zip")
    with pytest.raises(ValueError, match=r"model.zip is not a model saved by Stable-Baselines3"):
        load_agent(path)
