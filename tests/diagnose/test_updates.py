import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from torch import nn

import sb3_span
from sb3_span.diagnose.parts import find_networks
from sb3_span.diagnose.transitions import draw, n_collected
from sb3_span.diagnose.updates import expected, interference, steps, update
from tests.diagnose.agents import Walk, fill, make_agent, walking_dqn


def freeze(parameter):
    parameter.requires_grad_(False)


def test_a_table_does_not_interfere():
    model = fill(walking_dqn())
    model.lr_schedule = lambda _: 0.1
    batches = [draw(model, 100).split(4) for _ in range(3)]
    assert all(0 < len(others) < 100 for _, others in batches)
    assert interference(model, batches) > 0.1  # through the biases
    freeze(model.policy.q_net.q_net[0].bias)
    assert interference(model, batches) == 0


def test_one_number_for_all_states_interferes_fully():
    make = lambda: Walk(spaces.Discrete(2))  # noqa: E731
    model = fill(make_agent(stable_baselines3.PPO, make, "MlpPolicy", policy_kwargs=dict(net_arch=[])), 32)
    model.lr_schedule = lambda _: 0.1
    freeze(model.policy.value_net.weight)
    assert interference(model, [draw(model, 32).split(1)]) == pytest.approx(1, rel=1e-4)


def test_a_batch_and_the_others_share_no_state_and_action():
    model = fill(walking_dqn())
    batch, others = draw(model, 150).split(5)
    assert len(batch) == 5
    assert not set(batch.keys()) & set(others.keys())
    assert n_collected(model) == 200


def test_momentum_of_earlier_batches_is_not_interference():
    options = dict(optimizer_class=th.optim.SGD, optimizer_kwargs=dict(momentum=0.9))
    model = fill(walking_dqn(**options))
    model.lr_schedule = lambda _: 0.1
    freeze(model.policy.q_net.q_net[0].bias)
    weight = model.policy.q_net.q_net[0].weight
    model.policy.optimizer.state[weight]["momentum_buffer"] = th.ones_like(weight)
    batch, others = draw(model, 100).split(4)
    moved = expected(update(model, batch).twin, others) - expected(model, others)
    np.testing.assert_allclose(moved, -0.1 * 0.9, atol=1e-5)
    assert interference(model, [(batch, others)]) == 0
    assert th.equal(model.policy.optimizer.state[weight]["momentum_buffer"], th.ones_like(weight))


@pytest.mark.parametrize("policy", ["SPANPolicy", "MlpPolicy"])
def test_gradients_are_those_of_the_step(policy):
    """With plain SGD the parameters move by the rate times the gradient, part by part."""
    kwargs = dict(optimizer_class=th.optim.SGD)
    kwargs |= dict(span_arch=dict(nmodes=3, nelems=3), lr_scale=1.0) if policy == "SPANPolicy" else dict(net_arch=[5, 4])
    model = make_agent(stable_baselines3.SAC, "Pendulum-v1", policy, learning_rate=1e-3, policy_kwargs=kwargs).learn(60)
    with th.random.fork_rng():
        batch = draw(model, 16)
        made = update(model, batch)
    with th.random.fork_rng():
        draw(model, 16)  # the same noise
        found = steps(model, batch)
    after = find_networks(made.twin.policy)
    for role, network in find_networks(model.policy).items():
        assert found[role].keys() == network.parts().keys() == after[role].parts().keys()
        for name, pieces in network.parts().items():
            news = after[role].parts()[name]
            moves = [new.of(new.parameter) - old.of(old.parameter) for old, new in zip(pieces, news, strict=True)]
            norm = th.cat([move.flatten() for move in moves]).norm().item() / 1e-3
            assert found[role][name].gradient == pytest.approx(norm, rel=0.02, abs=1e-3), name


def test_the_step_of_a_part_is_measured_alone():
    model = fill(walking_dqn())
    model.lr_schedule = lambda _: 0.1
    batch = draw(model, 16)
    layer = model.policy.q_net.q_net[0]
    assert isinstance(layer, nn.Linear)
    step = steps(model, batch)["critic"]["head"]
    whole = expected(update(model, batch).twin, batch) - expected(model, batch)
    assert step.change == pytest.approx(whole.square().mean().sqrt().item(), rel=1e-5)  # there is no other part


def test_actor_and_critic_of_one_stack_are_told_apart():
    model = make_agent(sb3_span.PPO, "CartPole-v1", vf_coef=0.0).learn(64)
    assert model.policy.mlp_extractor.is_stack
    found = steps(model, draw(model, 16))
    for name in ("preprocess", "scale", "coefficients", "head"):
        assert found["critic"][name].gradient == 0
        assert found["actor"][name].gradient > 0
        assert found["actor"][name].change > 0


def test_td3_moves_its_actor_in_the_update_that_is_looked_at():
    model = make_agent(stable_baselines3.TD3, "Pendulum-v1", policy_delay=7).learn(60)
    assert all(step.gradient > 0 for step in steps(model, draw(model, 16))["actor"].values())
