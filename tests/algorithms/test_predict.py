"""``predict`` in C gives what SB3's gives."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import nn

import sb3_span
from tests.algorithms.acting import AGENTS, assert_sb3s, is_native, make_one, observations
from tests.algorithms.twins import extension, make_agent, needs_native, train
from tests.policies.envs import make


@pytest.fixture
def agent():
    return make_agent(sb3_span.SAC)


@needs_native
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("which", AGENTS)
def test_actions_are_sb3s(which, lanes):
    try:
        extension.choose(lanes)
    except ValueError:
        pytest.skip(f"this machine has no vectors of {lanes} floats")
    try:
        agent = make_one(which)
        many = observations(agent)
        for obs in (many, many[0], many[:1], many.astype(np.float64), many[::2], np.asfortranarray(many), many.astype(int)):
            assert_sb3s(agent, obs)
        assert is_native(agent)
        if isinstance(agent.action_space, spaces.Discrete):
            assert len(np.unique(assert_sb3s(agent, 10 * observations(agent, 200)))) > 1
    finally:
        extension.choose(0)


@needs_native
def test_actions_are_within_bounds():
    agent = make_one("PPO, SPAN")
    agent.policy.action_net.bias.data[:] = th.tensor([30.0, -30.0])
    action = assert_sb3s(agent, observations(agent)[0])
    np.testing.assert_array_equal(action, [agent.action_space.high[0], agent.action_space.low[1]])


@needs_native
@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, choices"])
def test_a_loaded_agent_acts_the_same(which, tmp_path):
    agent = make_one(which)
    train(agent, 96)
    expected = assert_sb3s(agent, observations(agent))
    agent.save(tmp_path / "agent")
    loaded = type(agent).load(tmp_path / "agent")
    others = (loaded, copy.deepcopy(agent), pickle.loads(pickle.dumps(agent.policy)))
    for other in others:
        actions = other.predict(observations(agent), deterministic=True)[0]
        np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)
    assert is_native(loaded)


@pytest.mark.parametrize(
    "options",
    [
        dict(use_sde=True),
        dict(env=lambda: make("image")),
        dict(env=lambda: make("dict")),
        dict(network="mlp", policy_kwargs=dict(activation_fn=nn.ELU)),
        dict(policy_kwargs=dict(span_arch=dict(preprocess="layernorm"))),
    ],
    ids=["gsde", "image", "dict", "elu", "layernorm"],
)
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_what_is_not_known_is_sb3s(name, options):
    agent = make_agent(getattr(sb3_span, name), **options)
    obs = agent.get_env().reset()
    expected = agent.policy.predict(obs, deterministic=True)[0]
    np.testing.assert_array_equal(agent.predict(obs, deterministic=True)[0], expected)
    assert not is_native(agent)


def test_wrong_observations_get_sb3s_errors(agent):
    assert_sb3s(agent, observations(agent))
    with pytest.raises(ValueError, match=r"Unexpected observation shape \(2, 2\)"):
        agent.predict(np.zeros((2, 2)), deterministic=True)
    with pytest.raises(ValueError, match="mixing Gym API"):
        agent.predict((observations(agent), {}), deterministic=True)


@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, choices"])
def test_observations_that_are_no_numbers_get_sb3s_errors(which):
    agent = make_one(which)
    assert_sb3s(agent, observations(agent))
    with pytest.raises(ValueError, match="nan"):
        agent.predict(np.full(agent.observation_space.shape, np.nan, dtype=np.float32), deterministic=True)


def test_the_state_is_handed_back_and_training_mode_ends(agent):
    assert_sb3s(agent, observations(agent))
    agent.policy.set_training_mode(True)
    assert agent.predict(observations(agent), state=("mine",), deterministic=True)[1] == ("mine",)
    assert not agent.policy.training and not agent.actor.training


def test_exploration_is_sb3s(agent):
    """With the random numbers that SB3 would have drawn."""
    th.manual_seed(1)
    mine, _ = agent.predict(observations(agent))
    th.manual_seed(1)
    np.testing.assert_array_equal(mine, agent.policy.predict(observations(agent))[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -200.0])
def test_a_deviation_that_is_none_gets_sb3s_answer(value):
    agent = make_one("PPO, SPAN")
    assert_sb3s(agent, observations(agent))
    agent.policy.log_std.data[0] = value
    try:
        expected = agent.policy.predict(observations(agent), deterministic=True)[0]
    except ValueError as error:
        with pytest.raises(ValueError, match="Expected parameter scale") as raised:
            agent.predict(observations(agent), deterministic=True)
        assert str(raised.value) == str(error)
    else:
        np.testing.assert_array_equal(agent.predict(observations(agent), deterministic=True)[0], expected)


@pytest.mark.parametrize("which", ["PPO, SPAN", "PPO, choices"])
def test_an_agent_that_has_predicted_can_be_copied(which):
    """SB3's predict lets go of the graph that is in the policy's distribution."""
    agent = make_one(which)
    obs = th.as_tensor(observations(agent))
    actions = th.as_tensor(agent.predict(observations(agent), deterministic=True)[0])
    agent.policy.evaluate_actions(obs, actions)
    agent.predict(observations(agent), deterministic=True)
    assert_sb3s(copy.deepcopy(agent), observations(agent))


@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, SPAN"])
def test_an_agent_that_has_predicted_is_freed_at_once(which):
    agent = make_one(which)
    assert_sb3s(agent, observations(agent))
    gc.disable()
    try:
        alive = weakref.ref(agent)
        del agent
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [">f4", np.longdouble])
def test_types_that_torch_does_not_take_get_sb3s_errors(agent, dtype):
    assert_sb3s(agent, observations(agent))
    with pytest.raises((TypeError, ValueError)):
        agent.policy.predict(observations(agent).astype(dtype), deterministic=True)
    with pytest.raises((TypeError, ValueError)):
        agent.predict(observations(agent).astype(dtype), deterministic=True)


@pytest.mark.parametrize("space", ["matrix", "float64"])
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_other_spaces(name, space):
    agent = make_agent(getattr(sb3_span, name), env=lambda: make(space))
    many = observations(agent).astype(agent.observation_space.dtype)
    for obs in (many, many[0], many > 0):
        assert_sb3s(agent, obs)
