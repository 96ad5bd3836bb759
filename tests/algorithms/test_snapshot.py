"""Whatever is changed about networks and optimizers, the native update notices it before its next step."""

import pytest
import torch as th
from torch import nn

import sb3_span
from tests.algorithms.twins import make_agent, needs_native, train

pytestmark = needs_native


class Other(nn.Linear):
    pass


def rename(agent):
    agent.actor.mu.__class__ = Other


def replace_module(agent):
    agent.actor.mu = nn.Linear(agent.actor.mu.in_features, agent.actor.mu.out_features)


def replace_parameter(agent):
    agent.critic.qf0[0].weight = nn.Parameter(agent.critic.qf0[0].weight.detach().clone())


def move_parameter(agent):
    agent.critic_target.qf1[0].bias.data = agent.critic_target.qf1[0].bias.data.clone()


def reshape_parameter(agent):
    weight = agent.actor.mu.weight
    weight.data = weight.data.view(-1)


def freeze(agent):
    agent.critic.qf0[0].weight.requires_grad_(False)


def forget_gradient(agent):
    agent.actor.mu.weight.grad = None


def replace_gradient(agent):
    agent.actor.mu.weight.grad = agent.actor.mu.weight.grad.clone()


def hook_module(agent):
    agent.critic.qf1[2].register_forward_pre_hook(lambda *_: None)


def hook_parameter(agent):
    agent.actor.mu.bias.register_hook(lambda grad: None)


def hook_parameter_again(agent):
    agent.actor.mu.bias.register_hook(lambda grad: None).remove()
    agent._native.prepare()
    assert agent._native.is_ready()
    agent.actor.mu.bias.register_hook(lambda grad: None)


def hook_optimizer(agent):
    agent.actor.optimizer.register_step_pre_hook(lambda *_: None)


def replace_forward(agent):
    agent.actor.mu.forward = lambda x: x


def replace_list(agent):
    agent.critic.q_networks[1] = agent.critic.q_networks[0]


def replace_optimizer(agent):
    agent.critic.optimizer = th.optim.Adam(agent.critic.parameters())


def replace_state(agent):
    state = agent.critic.optimizer.state[agent.critic.qf0[0].weight]
    state["exp_avg"] = state["exp_avg"].clone()


def load_state(agent):
    agent.critic.optimizer.load_state_dict(agent.critic.optimizer.state_dict())


def add_group(agent):
    agent.critic.optimizer.add_param_group(dict(params=[nn.Parameter(th.zeros(1))]))


def add_parameter(agent):
    agent.critic.optimizer.param_groups[0]["params"].append(nn.Parameter(th.zeros(1)))


def set_betas(agent):
    agent.actor.optimizer.param_groups[0]["betas"] = (0.5, 0.9)


def set_tau(agent):
    agent.tau = 0.5


def set_target_entropy(agent):
    agent.target_entropy = -7.0


def replace_coefficient(agent):
    agent.log_ent_coef = agent.log_ent_coef.detach().clone().requires_grad_(True)


def freeze_coefficient(agent):
    agent.log_ent_coef.requires_grad_(False)


def hook_coefficient(agent):
    agent.log_ent_coef.register_hook(lambda grad: None)


def replace_target(agent):
    agent.critic_target = agent.critic


CHANGES = [
    rename, replace_module, replace_parameter, move_parameter, reshape_parameter, freeze, forget_gradient, replace_gradient,
    hook_module, hook_parameter, hook_parameter_again, hook_optimizer, replace_forward, replace_list, replace_optimizer,
    replace_state, load_state, add_group, add_parameter, set_betas, set_tau, set_target_entropy, replace_coefficient,
    freeze_coefficient, hook_coefficient, replace_target,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change):
    agent = train(make_agent(sb3_span.SAC, network="mlp"), 30)
    agent.train(1, 8)
    assert agent._native.is_ready(), "an update is no change"
    change(agent)
    assert not agent._native.is_ready()


@pytest.mark.parametrize("network", ["span", "mlp"])
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_training_is_no_change(name, network):
    """Otherwise every step would take the long way."""
    agent = train(make_agent(getattr(sb3_span, name), network=network), 96)
    plan = agent._native.plan
    train(agent, 96)
    assert plan is not None
    assert agent._native.plan is plan


def test_a_falling_rate_is_no_change():
    agent = train(make_agent(sb3_span.SAC, learning_rate=lambda left: 1e-3 * left), 30)
    plan = agent._native.plan
    train(agent, 20)
    assert plan is not None
    assert agent._native.plan is plan
