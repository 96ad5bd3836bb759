"""``predict`` in C notices whatever has changed about an agent, and what somebody has put in."""

import copy
import threading

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import sb3_span
from tests.algorithms.acting import assert_sb3s, is_native, make_one, observations
from tests.algorithms.twins import make_agent, needs_native, train
from tests.policies.envs import make


@pytest.fixture
def agent():
    return make_agent(sb3_span.SAC)


CHANGES = {
    "in place": lambda policy: policy.load_state_dict({name: value + 0.1 for name, value in policy.state_dict().items()}),
    "another tensor": lambda policy: setattr(head_of(policy).bias, "data", head_of(policy).bias.data + 1.0),
    "another parameter": lambda policy: setattr(head_of(policy), "bias", nn.Parameter(head_of(policy).bias.data + 1.0)),
    "another layer": lambda policy: setattr(head_of(policy), "weight", nn.Parameter(0.5 * head_of(policy).weight.data)),
    "double precision and back": lambda policy: policy.double().float(),
    "transposed": lambda policy: setattr(square_of(policy), "data", square_of(policy).data.mT),
}


def head_of(policy):
    return policy.actor.mu if hasattr(policy, "actor") else policy.action_net


def body_of(policy):
    return policy.actor.latent_pi if hasattr(policy, "actor") else policy.mlp_extractor.pi_vf


def square_of(policy):
    """A parameter with as many rows as columns: W_pre."""
    return next(param for param in body_of(policy).parameters() if param.shape[-2:] == (3, 3))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, SPAN"])
def test_changed_parameters_count(which, change):
    agent = make_one(which)
    before = assert_sb3s(agent, observations(agent))
    CHANGES[change](agent.policy)
    after = assert_sb3s(agent, observations(agent))
    assert change == "double precision and back" or not np.allclose(before, after)


@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, choices"])
def test_training_in_between_counts(which):
    agent = make_one(which)
    for _ in range(3):
        train(agent, 64)
        assert_sb3s(agent, observations(agent))


@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, SPAN"])
def test_hooks_are_called(which):
    agent, calls = make_one(which), []
    assert_sb3s(agent, observations(agent))
    handle = head_of(agent.policy).register_forward_hook(lambda *_: calls.append(1))
    agent.predict(observations(agent), deterministic=True)
    assert len(calls) == 1
    handle.remove()
    assert_sb3s(agent, observations(agent))


def test_a_subclass_acts_its_own_way():
    class Lazy(sb3_span.SPANPolicy):
        def _predict(self, observation, deterministic=False):
            return th.zeros_like(super()._predict(observation, deterministic))

    agent = sb3_span.SAC(Lazy, make("vector"), buffer_size=10, device="cpu")
    low, high = agent.action_space.low, agent.action_space.high
    np.testing.assert_allclose(agent.predict(observations(agent), deterministic=True)[0][0], (low + high) / 2)


class _Acts(BaseCallback):
    """What a callback that evaluates does, while experience is collected."""

    def _on_step(self) -> bool:
        assert_sb3s(self.model, observations(self.model))
        self.was_native = is_native(self.model)
        return True


@needs_native
@pytest.mark.parametrize("which", ["SAC, SPAN", "PPO, SPAN", "PPO, choices, MLP"])
def test_in_a_callback(which):
    agent, callback = make_one(which), _Acts()
    train(agent, 64)
    agent.learn(64, callback=callback, log_interval=None, reset_num_timesteps=False)
    assert callback.was_native
    assert agent._plan is not None


class Doubling(nn.Flatten):
    def forward(self, x):
        return 2.0 * super().forward(x)


# Parts that somebody has put in, and SB3 uses.
PARTS = {
    "flatten": lambda agent: setattr(agent.actor.features_extractor, "flatten", Doubling()),
    "one deviation for all actions": lambda agent: setattr(agent.actor, "log_std", nn.Linear(3, 1)),
    "several networks": lambda agent: setattr(agent.actor, "latent_pi", sb3_span.SPAN(3, dict(nmodes=3, nelems=3), n_stack=2)),
}


@pytest.mark.parametrize("part", PARTS)
def test_other_parts_are_used(agent, part):
    assert_sb3s(agent, observations(agent))
    PARTS[part](agent)
    for _ in range(4):  # it is not tried each time
        theirs, _ = agent.policy.predict(observations(agent)[:1], deterministic=True)
        np.testing.assert_allclose(agent.predict(observations(agent)[:1], deterministic=True)[0], theirs, rtol=1e-5, atol=1e-6)
    assert not is_native(agent)


def test_the_policys_own_bounds_count():
    agent = make_one("PPO, SPAN")
    agent.policy.action_net.bias.data[:] = 30.0
    agent.policy.action_space = spaces.Box(-0.1, 0.1, (2,), np.float32)
    for _ in range(2):
        np.testing.assert_allclose(assert_sb3s(agent, observations(agent)), 0.1)


def test_a_policy_of_another_environment_gets_sb3s_error():
    agent, other = make_one("PPO, SPAN"), make_agent(sb3_span.PPO, env=lambda: make("matrix"))
    agent.policy = other.policy
    assert_sb3s(agent, observations(other))
    with pytest.raises(ValueError, match="Unexpected observation shape"):
        agent.predict(observations(make_one("PPO, SPAN")), deterministic=True)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_whatever_has_a_predict_is_asked(name):
    class Wrapped:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            return "asked", state

    agent = make_agent(getattr(sb3_span, name))
    agent.policy = Wrapped()
    assert agent.predict(np.zeros(3), deterministic=True)[0] == "asked"


@needs_native
def test_an_agent_copied_in_a_callback_acts_in_c():
    class Copies(BaseCallback):
        def _on_step(self) -> bool:
            self.copied = copy.deepcopy(self.model.policy)
            return True

    agent, callback = train(make_one("PPO, SPAN"), 64), Copies()
    agent.learn(64, callback=callback, log_interval=None, reset_num_timesteps=False)
    agent.policy = callback.copied
    assert_sb3s(agent, observations(agent))
    assert is_native(agent)


def test_threads_that_act_with_one_agent(agent):
    expected, errors = assert_sb3s(agent, observations(agent)), []

    def act():
        for _ in range(200):
            try:
                np.testing.assert_allclose(agent.predict(observations(agent), deterministic=True)[0], expected, atol=1e-5)
                head_of(agent.policy).bias.grad = th.zeros(2)  # the plan is made anew
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
