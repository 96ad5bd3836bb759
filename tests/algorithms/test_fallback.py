"""What the native updates do not know is trained by SB3's own, and nothing that somebody has changed is overlooked."""

import copy
import pickle

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise
from torch import nn

import sb3_span
from tests.algorithms.twins import assert_same, make_agent, make_twins, needs_native, train
from tests.policies.envs import make

STEPS = {"SAC": 40, "PPO": 96}
UNKNOWN = {
    "gsde": dict(use_sde=True),
    "image": dict(env=lambda: make("image")),
    "discrete observations": dict(env=lambda: make("discrete")),
    "adamw": dict(policy_kwargs=dict(optimizer_class=th.optim.AdamW)),
    "amsgrad": dict(policy_kwargs=dict(optimizer_kwargs=dict(amsgrad=True))),
    "preprocess": dict(policy_kwargs=dict(span_arch=dict(preprocess="layernorm", nmodes=3))),
    "degree": dict(policy_kwargs=dict(span_arch=dict(basis="bspline", degree=4, nmodes=3))),
    "extractor": dict(
        policy_kwargs=dict(
            features_extractor_class=sb3_span.SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=dict(nmodes=3))
        )
    ),
}


@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("option", UNKNOWN)
def test_unknown_options_are_sb3s(name, option):
    theirs, ours = make_twins(name, STEPS[name], **UNKNOWN[option])
    assert ours._plan is None
    assert_same(theirs, ours, tolerance=0.0)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_unknown_activations_are_sb3s(name):
    theirs, ours = make_twins(name, STEPS[name], network="mlp", policy_kwargs=dict(activation_fn=nn.ELU))
    assert ours._plan is None
    assert_same(theirs, ours, tolerance=0.0)


@pytest.mark.parametrize("actions", ["multidiscrete", "multibinary"])
def test_unknown_actions_are_sb3s(actions):
    theirs, ours = make_twins("PPO", STEPS["PPO"], env=lambda: make("vector", actions))
    assert ours._plan is None
    assert_same(theirs, ours, tolerance=0.0)


def test_noise_on_sacs_actions_is_added():
    noise = dict(action_noise=NormalActionNoise(np.zeros(2), np.ones(2)))
    assert_same(*make_twins("SAC", STEPS["SAC"], **noise))


def networks_of(agent):
    if hasattr(agent, "critic"):
        return dict(
            critic=agent.critic, qf=agent.critic.qf, actor=agent.actor, actor_body=agent.actor.latent_pi, head=agent.actor.mu,
            extractor=agent.critic.features_extractor, preprocess=agent.critic.qf.preprocess,
        )  # fmt: skip
    return dict(
        policy=agent.policy, body=agent.policy.mlp_extractor, stack=agent.policy.mlp_extractor.pi_vf,
        head=agent.policy.action_net, extractor=agent.policy.features_extractor,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "part"),
    [("SAC", part) for part in ("critic", "qf", "actor", "actor_body", "head", "extractor", "preprocess")]
    + [("PPO", part) for part in ("body", "stack", "head", "extractor")],
)
def test_hooks_are_called(name, part):
    agent = train(make_agent(getattr(sb3_span, name)), STEPS[name])
    calls = []
    networks_of(agent)[part].register_forward_hook(lambda *_: calls.append(part))
    train(agent, STEPS[name])
    assert calls


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_hooks_of_gradients_and_steps_are_called(name):
    agent = train(make_agent(getattr(sb3_span, name)), STEPS[name])
    optimizer = agent.policy.optimizer if name == "PPO" else agent.critic.optimizer
    calls = []
    handle = optimizer.param_groups[0]["params"][0].register_hook(lambda grad: calls.append("gradient"))
    train(agent, STEPS[name])
    handle.remove()
    optimizer.register_step_post_hook(lambda *_: calls.append("step"))
    train(agent, STEPS[name])
    assert {"gradient", "step"} <= set(calls)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_a_frozen_parameter_stays(name):
    agent = train(make_agent(getattr(sb3_span, name)), STEPS[name])
    span = agent.actor.latent_pi if name == "SAC" else agent.policy.mlp_extractor.pi_vf
    span.scale.requires_grad_(False)
    before, weights = span.scale.clone(), span.coefficients.clone()
    span.scale.grad = None
    train(agent, STEPS[name])
    assert th.equal(span.scale, before)
    assert not th.equal(span.coefficients, weights)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_double_precision(name):
    """Parameters that are converted on the way: what the kernel had the addresses of is gone."""
    agent = train(make_agent(getattr(sb3_span, name), network="mlp"), STEPS[name])
    agent.policy.double()
    with pytest.raises(RuntimeError, match=r"dtype|same type"):  # as SB3: observations stay in single precision
        train(agent, STEPS[name])


class _Moves(BaseCallback):
    """Gives the parameters other memory, in the middle of a rollout."""

    def _on_step(self) -> bool:
        for parameter in self.model.policy.parameters():
            parameter.data = parameter.data.clone()
        return True


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_moved_parameters_are_noticed(name):
    agents = []
    for module in (stable_baselines3, sb3_span):
        agent = train(make_agent(getattr(module, name)), STEPS[name])
        agents.append(agent.learn(STEPS[name], callback=_Moves(), log_interval=None, reset_num_timesteps=False))
    assert_same(*agents)


def swap_activation(agent):
    body = agent.actor.latent_pi if hasattr(agent, "actor") else agent.policy.mlp_extractor.policy_net
    body[1] = nn.Sigmoid()


def shrink_a_critic(agent):
    """With its optimizer, and its target: the first of the two is smaller then."""
    for critic in (agent.critic, agent.critic_target):
        critic.qf0[2], critic.qf0[4] = nn.Linear(7, 3), nn.Linear(3, 1)
    agent.critic_target.load_state_dict(agent.critic.state_dict())
    agent.critic.optimizer = th.optim.Adam(agent.critic.parameters(), lr=3e-4)


def share_layers(agent):
    agent.policy.mlp_extractor.value_net = agent.policy.mlp_extractor.policy_net
    agent.policy.optimizer = th.optim.Adam(agent.policy.parameters(), lr=3e-4, eps=1e-5)


def share_critics(agent):
    for critic in (agent.critic, agent.critic_target):
        critic.qf1 = critic.qf0
        critic.q_networks = [critic.qf0, critic.qf0]
    agent.critic.optimizer = th.optim.Adam(agent.critic.parameters(), lr=3e-4)


def replace_log_std(agent):
    agent.policy.log_std = nn.Parameter(th.full((2,), -1.5))


def replace_head(agent):
    agent.policy.action_net = nn.Linear(5, 2)


def set_ent_coef(agent):
    agent.ent_coef_tensor = th.tensor(5.0)


@pytest.mark.parametrize(
    ("name", "change", "options"),
    [
        ("SAC", swap_activation, {}),
        ("PPO", swap_activation, {}),
        ("SAC", shrink_a_critic, {}),
        ("SAC", share_critics, {}),
        ("SAC", set_ent_coef, dict(ent_coef=0.1)),
        ("PPO", share_layers, {}),
        ("PPO", replace_log_std, {}),
        ("PPO", replace_head, {}),
    ],
)
def test_what_is_replaced_is_noticed(name, change, options):
    agents = []
    for module in (stable_baselines3, sb3_span):
        agent = train(make_agent(getattr(module, name), network="mlp", **options), STEPS[name])
        th.manual_seed(3)
        change(agent)
        agents.append(train(agent, STEPS[name]))
    assert_same(*agents)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
def test_wide_mlps_are_sb3s(name):
    _, ours = make_twins(name, STEPS[name], network="mlp", policy_kwargs=dict(net_arch=[512, 512]))
    assert ours._plan is None


def test_predict_of_a_subclass_acts():
    class Careful(sb3_span.SAC):
        calls = 0

        def predict(self, *args, **kwargs):
            self.calls += 1
            return super().predict(*args, **kwargs)

    sizes = dict(buffer_size=500, learning_starts=20, batch_size=16)
    agent = train(Careful("SPANPolicy", make("vector"), seed=0, device="cpu", **sizes), STEPS["SAC"])
    assert agent.calls == STEPS["SAC"] - 20


class _Watches(BaseCallback):
    """What a callback may do with the policy while experience is collected."""

    def _on_step(self) -> bool:
        policy, obs = self.model.policy, th.zeros(2, 3)
        with th.no_grad():
            th.manual_seed(0)
            actions = policy(obs)[0]
            for twin in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
                th.manual_seed(0)
                assert th.allclose(actions, twin(obs)[0])
                next(twin.parameters()).data.fill_(100.0)  # the copy's own
        policy(obs)[1].mean().backward()
        policy.optimizer.zero_grad()
        with pytest.raises((RuntimeError, ValueError)):
            policy(th.zeros(1, 2))
        return True


def test_callbacks_may_copy_and_ask_the_policy():
    agent = train(make_agent(sb3_span.PPO), STEPS["PPO"])
    agent.learn(STEPS["PPO"], callback=_Watches(), log_interval=None, reset_num_timesteps=False)
    assert "forward" not in vars(agent.policy)


def test_agents_can_be_copied():
    agent = train(make_agent(sb3_span.SAC), STEPS["SAC"])
    twin = copy.deepcopy(agent)
    before = twin.actor.mu.weight.clone()
    train(agent, STEPS["SAC"])
    assert th.equal(twin.actor.mu.weight, before)
    train(twin, STEPS["SAC"])
    assert not th.equal(twin.actor.mu.weight, before)


def test_an_unfinished_rollout_is_refused():
    agent = train(make_agent(sb3_span.PPO), STEPS["PPO"])
    agent.rollout_buffer.reset()
    with pytest.raises(AssertionError):
        agent.train()


@needs_native
@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("network", ["span", "mlp"])
def test_nan_is_named(name, network):
    agent = train(make_agent(getattr(sb3_span, name), network=network), STEPS[name])
    agent.policy.state_dict()[
        {"SAC": "critic.qf", "PPO": "mlp_extractor"}[name]
        + {
            "SACspan": ".coefficients",
            "PPOspan": ".pi_vf.coefficients",
            "SACmlp": "0.0.weight",
            "PPOmlp": ".value_net.0.weight",
        }[name + network]
    ].fill_(float("nan"))
    with pytest.raises(ValueError, match=r"NaN or infinite.*learning rate"):
        agent.train(1, 8) if name == "SAC" else agent.train()


@pytest.mark.parametrize("network", ["span", "mlp"])
def test_observations_that_are_nan_are_named_as_by_sb3(network):
    agent = train(make_agent(sb3_span.PPO, network, env=lambda: make("vector", "discrete")), STEPS["PPO"])
    agent._last_obs = np.full_like(agent._last_obs, np.nan)
    with pytest.raises(ValueError, match=r"Expected parameter logits[\s\S]*nan"):
        train(agent, STEPS["PPO"])


@needs_native
@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("loader", [stable_baselines3, sb3_span])
def test_saved_agents_go_on(name, loader, tmp_path):
    """What ours has saved, both load, with Adam's memory; and what SB3 has saved goes on in ours."""
    agent = train(make_agent(getattr(sb3_span, name)), STEPS[name])
    agent.save(tmp_path / "agent")
    agent.replay_buffer = copy.deepcopy(agent.replay_buffer) if name == "SAC" else None
    loaded = getattr(loader, name).load(tmp_path / "agent", env=agent.get_env())
    saved_by_sb3 = train(make_agent(getattr(stable_baselines3, name)), STEPS[name])
    saved_by_sb3.save(tmp_path / "sb3")
    ours = getattr(sb3_span, name).load(tmp_path / "sb3", env=saved_by_sb3.get_env())
    theirs = getattr(stable_baselines3, name).load(tmp_path / "sb3", env=saved_by_sb3.get_env())
    assert_same(saved_by_sb3, agent)
    for first, second in ((agent, loaded), (ours, theirs)):
        for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
            assert th.allclose(one, other, atol=1e-6)
    if name == "SAC":
        ours.replay_buffer = theirs.replay_buffer = saved_by_sb3.replay_buffer
        for one in (ours, theirs):
            th.manual_seed(0)
            np.random.seed(0)
            one.set_logger(stable_baselines3.common.logger.configure(None, []))
            one.train(3, 8)
        assert ours._plan is not None
        assert_same(theirs, ours)
