"""How the networks inside the policies are built, evaluated, trained and copied to their targets."""

import pytest
import torch as th
from sb3_contrib import TQC, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_span.nn import SPAN, kernel_info
from sb3_span.nn.native import NativeSPAN
from tests.policies.envs import make
from tests.policies.models import ALGORITHMS, OFF_POLICY, VALUE_BASED, action_spaces, make_model, name, observations


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_every_parameter_moves_in_one_update(algo):
    """Also the critic's under TRPO, which keeps the critic's loss away from every tensor that the actor uses."""
    env = DummyVecEnv([lambda: make("vector", action_spaces(algo)[0])] * 8)
    replay = dict(learning_starts=256, batch_size=256, buffer_size=2048, train_freq=1)
    sizes, steps = dict(n_steps=64), 512
    if algo in OFF_POLICY:
        sizes, steps = {**replay, "gradient_steps": 2 if algo is TD3 else 1}, 264  # TD3's actor learns from every other
    elif algo in VALUE_BASED:
        sizes, steps = {**replay, "target_update_interval": 8}, 272  # the target follows at the next step
    elif algo in (PPO, MaskablePPO, RecurrentPPO):
        sizes.update(batch_size=512, n_epochs=1)
    model = make_model(algo, env, learn=False, span_arch=dict(nmodes=3, nelems=2), **sizes)
    before = {name: param.detach().clone() for name, param in model.policy.named_parameters()}
    model.learn(steps)
    for parameter, value in model.policy.named_parameters():
        assert (value != before[parameter]).all(), parameter


@pytest.fixture
def calls(monkeypatch):
    """Every evaluation of a network: the size of its stack, and which of the stack alone."""
    calls = []
    forward = SPAN.forward

    def spy(self, x, only=None):
        calls.append((self.n_stack, only))
        return forward(self, x, only)

    monkeypatch.setattr(SPAN, "forward", spy)
    return calls


@pytest.mark.parametrize("algo", [SAC, TD3, TQC], ids=name)
def test_critics_are_evaluated_as_one_stack(algo, calls):
    model = make_model(algo, make("vector"), learn=False, policy_kwargs=dict(n_critics=3))
    obs, _ = model.policy.obs_to_tensor(observations(model))
    model.critic(obs, th.zeros(6, 2))
    assert calls == [(3, None)]


@pytest.mark.parametrize("algo", [PPO, MaskablePPO], ids=name)
def test_actor_and_critic_are_evaluated_as_one_stack(algo, calls):
    model = make_model(algo, make("vector", "discrete"), learn=False)
    obs, _ = model.policy.obs_to_tensor(observations(model))
    model.policy(obs)
    assert calls == [(2, None)]
    calls.clear()
    model.policy.predict_values(obs)
    model.predict(observations(model))
    assert calls == [(2, 1), (2, 0)]


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_native_kernel_does_the_work(algo, calls, monkeypatch):
    if kernel_info()["kernel"] != "native":
        pytest.skip("the native kernel is not in use")
    native_calls = []
    call = NativeSPAN.__call__
    monkeypatch.setattr(NativeSPAN, "__call__", lambda self, *args: native_calls.append(args) or call(self, *args))
    make_model(algo, make("vector", action_spaces(algo)[0]))
    assert len(native_calls) == len(calls) > 20


@pytest.mark.parametrize("algo", [SAC, TD3], ids=name)
def test_critics_differ_and_the_first_can_be_asked_alone(algo):
    model = make_model(algo, make("vector"), policy_kwargs=dict(n_critics=3))
    obs, _ = model.policy.obs_to_tensor(observations(model))
    act = th.rand(6, 2)
    values = model.critic(obs, act)
    assert [value.shape for value in values] == [(6, 1)] * 3
    assert not th.allclose(values[0], values[1])
    th.testing.assert_close(model.critic.q1_forward(obs, act), values[0])


def test_quantiles_of_tqc_are_those_of_each_critic():
    model = make_model(TQC, make("vector"), policy_kwargs=dict(n_critics=3, n_quantiles=4))
    obs, _ = model.policy.obs_to_tensor(observations(model))
    act = th.rand(6, 2)
    quantiles = model.critic(obs, act)
    assert quantiles.shape == (6, 3, 4)
    assert model.critic.quantiles_total == 12
    for i in range(3):
        th.testing.assert_close(quantiles[:, i], model.critic.qf(th.cat([obs, act], dim=1), only=i))


@pytest.mark.parametrize("preprocess", ["dense", "batchnorm", "minmax"])
@pytest.mark.parametrize("algo", [*OFF_POLICY, *VALUE_BASED], ids=name)
def test_targets_follow(algo, preprocess):
    sync = dict(target_update_interval=1) if algo in VALUE_BASED else {}
    env = make("vector", action_spaces(algo)[0])
    model = make_model(algo, env, span_arch=dict(preprocess=preprocess), tau=1.0, **sync)
    model.learning_starts = 1000  # DQN's target follows at the next step: take some, without learning
    model.learn(4)
    networks = dict(model.policy.named_children())
    targets = [key for key in networks if key.endswith("_target")]
    assert len(targets) == (2 if algo in (TD3, DDPG) else 1)
    for key in targets:
        target = networks[key].state_dict()
        for parameter, value in networks[key.removesuffix("_target")].state_dict().items():
            if "num_batches_tracked" not in parameter:
                th.testing.assert_close(target[parameter], value)


def test_actions_of_td3_are_within_bounds():
    model = make_model(TD3, make("vector"), learn=False)
    with th.no_grad():
        model.actor.mu[0].head.weight.mul_(1000)
    action = model.predict(observations(model))[0]
    assert (model.action_space.low <= action).all() and (action <= model.action_space.high).all()
    assert set(action.flatten()) <= {-2.0, 1.0}


@pytest.mark.parametrize("algo", [PPO, MaskablePPO, TRPO, RecurrentPPO], ids=name)
def test_orthogonal_initialisation_reaches_w_pre(algo):
    policy = make_model(algo, make("vector", "discrete"), learn=False).policy
    layers = [module.preprocess for module in policy.mlp_extractor.modules() if isinstance(module, SPAN)]
    weights = [weight for layer in layers for weight in layer.weight.detach()]
    assert len(weights) == 2 and not th.allclose(*weights)
    for weight in weights:
        th.testing.assert_close(weight @ weight.T, 2 * th.eye(len(weight)), rtol=0, atol=1e-5)
    assert all((layer.bias == 0).all() for layer in layers)


def test_dqn_has_one_output_for_each_action():
    model = make_model(DQN, make("vector", "discrete"), learn=False)
    obs, _ = model.policy.obs_to_tensor(observations(model))
    assert model.q_net(obs).shape == (6, 3)
