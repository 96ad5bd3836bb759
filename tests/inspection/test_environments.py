"""Names of what is observed, for environments as they are installed."""

import gymnasium as gym
import pytest
from gymnasium import spaces

from sb3_span.inspection.environments import (
    ACTIONS,
    OBSERVATIONS,
    action_names,
    make_env,
    observation_names,
)
from sb3_span.saved.environments import env_id_in


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_number_has_a_name(name):
    env_id = max(env_id for env_id in gym.registry if env_id.rpartition("-v")[0] == name)
    env = gym.make(env_id)
    assert observation_names(env.observation_space, env_id) is OBSERVATIONS[name]
    assert action_names(env.action_space, env_id) is ACTIONS[name]
    env.close()


@pytest.mark.parametrize("name", ["Hopper", "Walker2d", "HalfCheetah"])
def test_joints_are_in_mujocos_order(name):
    env = gym.make(f"{name}-v5")
    model = env.unwrapped.model
    joints = [model.joint(i).name for i in range(model.njnt)][3:]  # behind x, z and the torso's angle
    names = OBSERVATIONS[name][2 : 2 + len(joints)]
    # bthigh is the back thigh, thigh_left_joint the left thigh.
    for joint, given in zip(joints, names, strict=True):
        assert all(word in joint or word[0] == joint[0] for word in given.split()), (joint, given)
    env.close()


def test_unknown_and_changed_environments_are_numbered():
    assert observation_names(spaces.Box(-1, 1, (2,))) == ["obs[0]", "obs[1]"]
    assert observation_names(spaces.Box(-1, 1, (5,)), "CartPole-v1")[4] == "obs[4]"
    assert action_names(spaces.Discrete(2), "MyEnv-v0") == ["action[0]", "action[1]"]


@pytest.mark.parametrize(
    "text, env_id",
    [
        ("CartPole-v1", "CartPole-v1"),
        ("CartPole-v1_12", "CartPole-v1"),
        ("CartPole-v1-span-v2", "CartPole-v1"),
        ("best_model", None),
        ("Unheard-v3", None),
    ],
)
def test_ids_in_file_names(text, env_id):
    assert env_id_in(text) == env_id


def test_errors():
    with pytest.raises(ValueError, match=r"There is no environment 'Unheard-v3': .*Check the id"):
        make_env("Unheard-v3")
