"""Where rounding, or an option at the end of its range, could make a difference."""

import copy

import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.logger import configure
from torch import nn

import sb3_span
from tests.algorithms.twins import assert_same, make_agent, make_twins, needs_native, train
from tests.policies.envs import ACTIONS, RandomEnv, make

pytestmark = needs_native


@pytest.mark.parametrize("actions", ["box", "discrete"])
@pytest.mark.parametrize("option", ["clip_range", "clip_range_vf"])
def test_a_clip_range_that_ends_at_zero(option, actions):
    """With the parameters of the rollout the ratio is 1, exactly, and so nothing is clipped yet."""
    options = {option: lambda progress: 0.2 * progress}
    theirs, ours = make_twins("PPO", 96, env=lambda: make("vector", actions), **options)
    assert getattr(ours, option)(ours._current_progress_remaining) == 0
    assert_same(theirs, ours)


@pytest.mark.parametrize("actions", ["box", "discrete"])
@pytest.mark.parametrize("network", ["span", "mlp"])
def test_the_ratio_of_the_first_batch_is_one(network, actions):
    """Also for MLPs, whose outputs in torch depend on how many observations there are at once."""
    options = dict(clip_range=lambda progress: 0.0, batch_size=33, n_epochs=1, n_steps=11, n_envs=3)
    agent = train(make_agent(sb3_span.PPO, network=network, env=lambda: make("vector", actions), **options), 33)
    assert agent.logger.name_to_value["train/clip_fraction"] == 0.0
    assert agent.logger.name_to_value["train/approx_kl"] == 0.0


@pytest.mark.parametrize("network", ["span", "mlp"])
@pytest.mark.parametrize(
    "options", [dict(max_grad_norm=-1.0), dict(max_grad_norm=0.0), dict(target_kl=0.0), dict(target_kl=-1.0)], ids=str
)
def test_options_at_the_end_of_their_range(options, network):
    assert_same(*make_twins("PPO", 96, network=network, learning_rate=1e-3, **options))


def test_tanh_is_exact_to_the_last_digit():
    """An actor without hidden layers, of weight 1: its action is tanh of what it sees."""
    env = RandomEnv(spaces.Box(-100, 100, (1,), np.float32), spaces.Box(-1, 1, (1,), np.float32))
    agent = make_agent(sb3_span.SAC, network="mlp", env=lambda: env, policy_kwargs=dict(net_arch=[]))
    agent.actor.mu.weight.data.fill_(1.0)
    agent.actor.mu.bias.data.zero_()
    x = np.concatenate([np.linspace(-12, 12, 20001), np.geomspace(1e-30, 1, 2000), [88.0, 1e4, -1e30, 0.0]]).astype(np.float32)
    actions = agent.predict(x[:, None], deterministic=True)[0][:, 0]
    assert agent._native_actor.plan is not None
    expected = np.tanh(x.astype(np.float64))
    # SB3 brings it to the environment's range, [-1, 1] here, by way of 0 to 2: half a digit of 1 is lost there.
    np.testing.assert_allclose(actions, expected, rtol=0, atol=2.5e-7)


class _Large(RandomEnv):
    """Pictures' worth of numbers that nobody has normalised."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(0, 255, (3,), np.float32), ACTIONS["box"])


@pytest.mark.parametrize("network", ["span", "mlp"])
def test_log_density_of_large_means_is_more_exact_than_sb3s(network):
    """SB3 finds the noise again from the action that it was added to, where digits are lost."""
    errors = []
    for module in (stable_baselines3, sb3_span):
        agent = train(make_agent(module.SAC, network=network, env=_Large, ent_coef="auto_0.5", learning_starts=35), 30)
        agent.set_logger(configure(None, []))
        head = agent.actor.log_std
        head.weight.data.zero_()
        head.bias.data.fill_(-8.0)  # small deviations from large means
        agent.actor.mu.weight.data.zero_()
        agent.actor.mu.bias.data.fill_(50.0)
        np.random.seed(1)
        noise_seed = 2
        th.manual_seed(noise_seed)
        noise = th.randn(16, 2, dtype=th.float32)
        th.manual_seed(noise_seed)
        before = float(agent.log_ent_coef.detach())
        agent.train(1, 16)
        # The action is 1, whose slope is 0; SB3 adds 1e-6 to it.
        log_prob = (-0.5 * noise.double() ** 2 + 8.0 - 0.5 * np.log(2 * np.pi) - np.log(1e-6)).sum(dim=1)
        expected = -before * float((log_prob + agent.target_entropy).mean())
        errors.append(abs(agent.logger.name_to_value["train/ent_coef_loss"] - expected))
    theirs, ours = errors
    assert ours < 1e-4 < 5e-4 < theirs


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_saturated_tanh_layers(name):
    kwargs = dict(net_arch=[8, 8], activation_fn=nn.Tanh)
    assert_same(
        *make_twins(name, 40 if name == "SAC" else 96, network="mlp", env=_Large, policy_kwargs=kwargs), tolerance=1e-4
    )


def test_an_update_with_a_nan_reward_is_named_before_more_is_spoilt():
    agent = train(make_agent(sb3_span.SAC), 40)
    agent.replay_buffer.rewards[:] = np.nan
    before = copy.deepcopy(agent.actor.state_dict())
    with pytest.raises(ValueError, match="NaN or infinite"):
        agent.train(1, 8)
    assert before.keys() == agent.actor.state_dict().keys()
