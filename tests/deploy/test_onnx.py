"""The exported ONNX graph acts as ``predict`` does; every export checks itself, with onnxruntime."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.deploy import export_onnx
from sb3_span.deploy.observations import TOTAL
from tests.deploy.models import lively
from tests.policies.envs import ACTIONS, RandomEnv
from tests.policies.models import name

onnx = pytest.importorskip("onnx", reason="ONNX export needs the extra 'deploy'")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX export needs the extra 'deploy'")


@pytest.mark.parametrize(
    "algo, observations, actions",
    [
        (PPO, "vector", "multidiscrete"),
        (PPO, "multidiscrete", "box"),
        (TD3, "matrix", "box"),
        (QRDQN, "discrete", "discrete"),
    ],
    ids=name,
)
def test_policies(algo, observations, actions, tmp_path):
    assert export_onnx(lively(algo, observations, actions), tmp_path).observations == TOTAL


@pytest.mark.parametrize("group_size", [1, 2, 3])
def test_groups(group_size, tmp_path):
    span_arch = dict(nmodes=3, nelems=3, latent_dim=7, group_size=group_size)
    assert export_onnx(lively(SAC, span_arch=span_arch), tmp_path).observations == TOTAL


def test_parts_of_an_observation_with_the_names_of_outputs(tmp_path):
    names = {"action": 2, "scores": 1, "observation_scores": 2, "position": 3, "observation_0": 1}
    space = spaces.Dict({name: spaces.Box(-1, 1, (size,)) for name, size in names.items()})
    export_onnx(lively(env=RandomEnv(space, ACTIONS["discrete"])), tmp_path)
    graph = onnx.load(tmp_path / "policy.onnx").graph
    inputs = {entry.name: entry.type.tensor_type.shape.dim[1].dim_value for entry in graph.input}
    others = {"observation_scores": 2, "position": 3, "observation_0": 1}
    assert inputs == {"observation_action": 2, "observation_observation_scores": 1, **others}


def test_parts_of_an_observation_with_the_names_of_operations(tmp_path):
    names = ["linear", "cat", "sigmoid", "linear_inside", "view"]
    space = spaces.Dict({name: spaces.Box(-1, 1, (2,)) for name in names})
    export_onnx(lively(env=RandomEnv(space, ACTIONS["box"])), tmp_path)
    assert {entry.name for entry in onnx.load(tmp_path / "policy.onnx").graph.input} == set(names)


def test_mlp(tmp_path):
    export_onnx(lively(DQN, actions="discrete", policy="MlpPolicy", span_arch=None), tmp_path)


def test_file(tmp_path):
    """Any batch, VecNormalize inside, spaces and check in the metadata, no trace of where it was made."""
    env = VecNormalize(make_vec_env("Pendulum-v1"), clip_obs=3.0)
    env.obs_rms.mean[:], env.obs_rms.var[:] = [0.3, -0.1, 1234.5], [0.5, 0.4, 0.01]
    model = lively(SAC, env=env)
    verification = export_onnx(model, tmp_path)
    assert verification.recorded == TOTAL // 2

    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for batch in (1, 7):
        observations = rng.normal([0, 0, 1234.5], [1, 1, 0.1], (batch, 3)).astype(np.float32)
        (actions,) = session.run(None, {"observation": observations})
        expected = model.predict(env.normalize_obs(observations), deterministic=True)[0]
        np.testing.assert_allclose(actions, expected, atol=4e-5)

    properties = {entry.key: entry.value for entry in onnx.load(tmp_path / "policy.onnx").metadata_props}
    assert json.loads(properties["action_space"]) == dict(kind="Box", shape=[1], dtype="float32", low=-2.0, high=2.0)
    assert json.loads(properties["observation_space"])["shape"] == [3]
    assert properties["policy"] == "SPANPolicy" and str(verification) == properties["check"]
    assert b".py" not in (tmp_path / "policy.onnx").read_bytes()


def test_dict_observations_are_named_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr("sb3_span.deploy.observations.TOTAL", 1_000)  # images take their time
    export_onnx(lively(observations="dict", actions="discrete"), tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    inputs = {value.name: (value.type, value.shape[1:]) for value in session.get_inputs()}
    assert inputs == {"camera": ("tensor(uint8)", [1, 36, 36]), "position": ("tensor(float)", [3])}
    assert [value.name for value in session.get_outputs()] == ["action", "scores"]
