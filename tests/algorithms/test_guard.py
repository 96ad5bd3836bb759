"""What is changed about networks and optimizers is noticed before native code works on them again."""

import copy

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import sb3_span
from sb3_span.algorithms.guard import Guard
from tests.algorithms.twins import assert_same, make_agent, needs_native, train

pytestmark = needs_native


def replace_module(agent):
    agent.actor.mu = nn.Linear(agent.actor.mu.in_features, agent.actor.mu.out_features)


def replace_parameter(agent):
    agent.critic.qf0[0].weight = nn.Parameter(agent.critic.qf0[0].weight.detach().clone())


def move_parameter(agent):
    agent.critic_target.qf1[0].bias.data = agent.critic_target.qf1[0].bias.data.clone()


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
    assert agent._ready_plan() is agent._plan and agent._plan.holds(agent)
    agent.actor.mu.bias.register_hook(lambda grad: None)


def hook_optimizer(agent):
    agent.actor.optimizer.register_step_pre_hook(lambda *_: None)


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


def replace_coefficient(agent):
    agent.log_ent_coef = agent.log_ent_coef.detach().clone().requires_grad_(True)


def freeze_coefficient(agent):
    agent.log_ent_coef.requires_grad_(False)


def hook_coefficient(agent):
    agent.log_ent_coef.register_hook(lambda grad: None)


def replace_target(agent):
    agent.critic_target = agent.critic


CHANGES = [
    replace_module, replace_parameter, move_parameter, freeze, forget_gradient, replace_gradient, hook_module, hook_parameter,
    hook_parameter_again, hook_optimizer, replace_list, replace_optimizer, replace_state, load_state, add_group, add_parameter,
    set_betas, replace_coefficient, freeze_coefficient, hook_coefficient, replace_target,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change):
    agent = train(make_agent(sb3_span.SAC, network="mlp"), 30)
    agent.train(1, 8)
    assert agent._plan.holds(agent), "an update is no change"
    change(agent)
    assert not agent._plan.holds(agent)


@pytest.mark.parametrize("network", ["span", "mlp"])
@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_training_is_no_change(name, network):
    """Otherwise every step would take the long way."""
    agent = train(make_agent(getattr(sb3_span, name), network=network), 96)
    plan = agent._plan
    train(agent, 96)
    assert plan is not None
    assert agent._plan is plan


def test_a_falling_rate_is_no_change():
    agent = train(make_agent(sb3_span.SAC, learning_rate=lambda left: 1e-3 * left), 30)
    plan = agent._plan
    train(agent, 20)
    assert plan is not None
    assert agent._plan is plan


class _Sets(BaseCallback):
    """What somebody may set while an agent learns."""

    def _on_step(self) -> bool:
        self.model.tau = self.model.gamma = 0.5
        self.model.target_entropy = -7.0
        self.model.vf_coef = self.model.max_grad_norm = 0.1
        self.model.ent_coef = 0.3
        return True


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_settings_count_from_when_they_are_set(name):
    agents = []
    for module in (stable_baselines3, sb3_span):
        agent = train(make_agent(getattr(module, name)), 64)
        agents.append(agent.learn(64, callback=_Sets(), log_interval=None, reset_num_timesteps=False))
    assert_same(*agents)


def test_loaded_parameters_count():
    """``set_parameters`` gives the optimizers other states."""
    agent, other = train(make_agent(sb3_span.SAC), 40), train(make_agent(sb3_span.SAC, learning_rate=1e-2), 40)
    agent.set_parameters(copy.deepcopy(other.get_parameters()))
    twin = make_agent(stable_baselines3.SAC)
    twin.set_parameters(copy.deepcopy(other.get_parameters()))
    for one in (agent, twin):
        one.replay_buffer = other.replay_buffer
        one.set_logger(stable_baselines3.common.logger.configure(None, []))
        th.manual_seed(0)
        np.random.seed(0)
        one._n_updates = 0
        one.log_ent_coef.data[:] = other.log_ent_coef.data
        one.train(3, 8)
    assert_same(twin, agent)


def shrink(agent):
    for parameter in agent.policy.parameters():
        parameter.data = 0.9 * parameter.data


@pytest.mark.parametrize("function", ["_on_training_start", "_on_rollout_start", "_on_step", "_on_rollout_end"])
@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_every_function_of_a_callback_is_watched(name, function):
    """Parameters move elsewhere in memory, the first time that it is called and the fourth."""

    def run(algorithm):
        agent, calls = train(make_agent(algorithm), 64), []

        def change(callback):
            calls.append(None)
            if len(calls) in (1, 4):
                shrink(callback.model)
            return True

        functions = {"_on_step": lambda callback: True, function: change}
        th.manual_seed(0), np.random.seed(0)
        agent.learn(160, callback=type("Shrink", (BaseCallback,), functions)(), log_interval=None, reset_num_timesteps=False)
        return agent

    assert_same(run(getattr(stable_baselines3, name)), run(getattr(sb3_span, name)))


class Nothing(BaseCallback):
    def _on_step(self):
        return True


@pytest.mark.parametrize("callback, checks", [(None, range(1, 4)), (Nothing, range(60, 65)), ([Nothing], range(60, 65))])
def test_an_agent_is_checked_only_where_it_can_have_changed(callback, checks, monkeypatch):
    agent, counted = train(make_agent(sb3_span.SAC), 60), []
    holds = Guard.holds
    monkeypatch.setattr(Guard, "holds", lambda guard: counted.append(None) or holds(guard))
    callback = [one() for one in callback] if isinstance(callback, list) else callback and callback()
    agent.learn(60, callback=callback, log_interval=None, reset_num_timesteps=False)
    assert len(counted) in checks
