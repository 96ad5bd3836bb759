"""A wrong call is told what came in, what is allowed and what to do."""

from dataclasses import replace

import numpy as np
import pytest
from sb3_contrib import QRDQN, TQC, CrossQ, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

import sb3_span
from sb3_span import (
    ClippedMlpPolicy,
    SPANActorCriticPolicy,
    SPANDQNPolicy,
    SPANFeaturesExtractor,
    SPANPolicy,
    SPANQRDQNPolicy,
    SPANRecurrentActorCriticPolicy,
    SPANTD3Policy,
    SPANTQCPolicy,
)
from sb3_span.nn import SPANArch
from tests.policies.envs import make
from tests.policies.models import ALGORITHMS, POLICIES, action_spaces, make_model, name


@pytest.mark.parametrize(
    "policy_kwargs, message",
    [
        (dict(span_arch=dict(modes=3)), r"unknown key 'modes'; allowed are"),
        (dict(span_arch=dict(nmodes=0)), r"span_arch\['nmodes'\] is 0; it must be an integer of at least 1"),
        (dict(span_arch=dict(degree=1)), r"degree'\] is 1; the kernel basis is quadratic"),
        (dict(span_arch=dict(actor=dict(nmodes=3))), r"span_arch has the key 'actor'; the networks here are \[.*'.f'\]"),
        (dict(net_arch=[64, 64]), r"got net_arch=\[64, 64\], .* Pass span_arch=dict\(nmodes=..., nelems=...\) instead"),
        (dict(activation_fn=None), r"got activation_fn=None, which shapes an MLP"),
        (dict(nmodes=3, basis="kernel"), r"got nmodes=3, basis='kernel', .*: span_arch=dict\(nmodes=3, basis='kernel'\)"),
    ],
)
@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_wrong_options(algo, policy_kwargs, message):
    with pytest.raises(ValueError, match=message):
        algo("SPANPolicy", make("vector", action_spaces(algo)[0]), policy_kwargs=policy_kwargs)


@pytest.mark.parametrize(
    "algo, span_arch, message",
    [
        (PPO, dict(qf=dict(nmodes=3)), r"key 'qf'; the networks here are \['pi', 'vf'\].*span_arch=dict\(pi=.*, vf="),
        (SAC, dict(vf=dict(nmodes=3)), r"key 'vf'; the networks here are \['pi', 'qf'\]"),
        (DQN, dict(pi=dict(nmodes=3)), r"key 'pi'; the networks here are \['qf'\].*span_arch=dict\(qf=dict\(nmodes=10\)\)"),
        (PPO, dict(pi={}, nmodes=3), r"key 'nmodes'; the networks here are \['pi', 'vf'\]"),
        (SAC, dict(pi=[64], qf=[64]), r"In span_arch\['pi'\]: span_arch is \[64\]; it must be a dict"),
        (TD3, dict(pi=dict(nmodes=1.5)), r"In span_arch\['pi'\]: span_arch\['nmodes'\] is 1.5"),
    ],
)
def test_wrong_shape_by_role(algo, span_arch, message):
    with pytest.raises(ValueError, match=message):
        algo("SPANPolicy", make("vector", action_spaces(algo)[0]), policy_kwargs=dict(span_arch=span_arch))


OF_PPO = SPANArch(group_size=2, latent_dim=32, nmodes=4, nelems=4)
OF_OTHERS = SPANArch(group_size=3, latent_dim=48, nmodes=8, nelems=4)


@pytest.mark.parametrize("vf", [dict(vf=None), {}])
@pytest.mark.parametrize(
    "pi, expected",
    [
        (SPANArch(nmodes=4), SPANArch(nmodes=4)),
        (dict(nmodes=4), SPANArch(nmodes=4)),
        (dict(latent_dim=5), SPANArch(latent_dim=5)),
        (dict(slope=5.0), replace(OF_PPO, slope=5.0)),
        (dict(mode_norm=False), OF_PPO),  # as earlier versions have saved it
        (dict(preprocess="layernorm"), SPANArch(preprocess="layernorm")),
    ],
    ids=str,
)
def test_shape_by_role(pi, expected, vf):
    """Where no part of the shape is named, it is the default's; where one is, the others are those of the paper."""
    archs = PPO("SPANPolicy", make("vector"), policy_kwargs=dict(span_arch=dict(pi=pi, **vf))).policy.archs
    assert archs == dict(pi=expected, vf=OF_PPO)


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_default_shapes(algo):
    kwargs = dict(buffer_size=1) if issubclass(algo, OffPolicyAlgorithm) else {}
    archs = algo("SPANPolicy", make("vector", action_spaces(algo)[0]), **kwargs).policy.archs
    assert set(archs.values()) == {OF_OTHERS if issubclass(algo, OffPolicyAlgorithm) else OF_PPO}


@pytest.mark.parametrize("algo", [PPO, SAC], ids=name)
def test_agents_with_the_default_networks_of_an_earlier_version(algo, tmp_path):
    """They are refused with what to do, and with that they act as before."""
    shape = dict(span_arch=dict(nmodes=5, nelems=6))
    model = algo("SPANPolicy", make("vector"), policy_kwargs=dict(shape))
    model.policy_kwargs = {}  # as a file has it whose agent was trained without options
    model.save(tmp_path / "agent")
    advice = r"custom_objects=dict\(policy_kwargs=dict\(span_arch=dict\(nmodes=5, nelems=6\)\)\)"
    with pytest.raises(RuntimeError, match=rf"5 modes of 6 basis functions on \d+ latent dimensions.*{advice}"):
        algo.load(tmp_path / "agent")
    loaded = algo.load(tmp_path / "agent", custom_objects=dict(policy_kwargs=shape))
    obs = model.observation_space.sample()
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])


def test_max_grad_norm_where_the_algorithm_has_it():
    with pytest.raises(ValueError, match=r"got max_grad_norm=3, which is the algorithm's option here"):
        PPO("SPANPolicy", make("vector"), policy_kwargs=dict(max_grad_norm=3))


@pytest.mark.parametrize("max_grad_norm", [0, -1.0, "10", True, float("nan")])
@pytest.mark.parametrize(
    "algo, policy", [(SAC, SPANPolicy), (SAC, ClippedMlpPolicy), (TD3, SPANTD3Policy), (TQC, SPANTQCPolicy)], ids=name
)
def test_wrong_max_grad_norm(algo, policy, max_grad_norm):
    with pytest.raises(ValueError, match=r"max_grad_norm is .*; it must be a positive number, or None .* Try 10.0"):
        algo(policy, make("vector"), policy_kwargs=dict(max_grad_norm=max_grad_norm))


def test_features_extractor():
    with pytest.raises(ValueError, match=r"span_arch\['nmodes'\] is 0"):
        SPANFeaturesExtractor(make("vector").observation_space, span_arch=dict(nmodes=0))


class MyPPO(sb3_span.PPO):
    pass


class MyPolicy(SPANPolicy):
    pass


@pytest.mark.parametrize(
    "algo, policy, users",
    [
        (sb3_span.PPO, SPANRecurrentActorCriticPolicy, "RecurrentPPO"),
        (MyPPO, MyPolicy, "SAC"),
        (sb3_span.SAC, SPANActorCriticPolicy, "PPO and A2C"),
        (PPO, SPANTD3Policy, "TD3 and DDPG"),
        (SAC, SPANActorCriticPolicy, "PPO and A2C"),
        (TD3, SPANTQCPolicy, "TQC"),
        (DQN, SPANQRDQNPolicy, "QRDQN"),
        (QRDQN, SPANDQNPolicy, "DQN"),
        (RecurrentPPO, SPANActorCriticPolicy, "PPO and A2C"),
        (CrossQ, SPANActorCriticPolicy, "PPO and A2C"),
    ],
    ids=name,
)
def test_class_of_another_algorithm(algo, policy, users):
    spaces = ["box"] if algo is CrossQ else action_spaces(algo)
    algorithm = algo.__name__
    with pytest.raises(
        ValueError, match=rf'^{algorithm} got {policy.__name__}, the policy of {users}\. .* {algorithm}\("SPANPolicy", env\);'
    ):
        algo(policy, make("vector", spaces[0]))


@pytest.mark.parametrize(
    "saved_by, loaded_by",
    [(PPO, SAC), (PPO, sb3_span.SAC), (SAC, PPO), (SAC, TD3), (sb3_span.SAC, sb3_span.PPO), (TQC, SAC)],
    ids=name,
)
def test_agent_of_another_algorithm(saved_by, loaded_by, tmp_path):
    options = dict(buffer_size=1) if issubclass(saved_by, OffPolicyAlgorithm) else {}
    saved_by("SPANPolicy", make("vector"), **options).save(tmp_path / "agent")
    advice = rf"load a saved one with the algorithm that saved it: {saved_by.__name__}\.load"
    with pytest.raises(ValueError, match=rf"^{loaded_by.__name__} got SPAN.*; {advice}"):
        loaded_by.load(tmp_path / "agent")


class Teaching(SAC):
    """Builds a second policy, of another family, beside its own."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.teacher = SPANActorCriticPolicy(self.observation_space, self.action_space, lambda _: 1e-3)


def test_right_class_is_never_refused():
    """Subclasses, and policies that are built by hand, even while another algorithm is training."""

    class BuildPolicy(BaseCallback):
        def _on_step(self) -> bool:
            env = make("vector")
            SPANActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
            return True

    SAC(MyPolicy, make("vector"), buffer_size=100).learn(2, callback=BuildPolicy())
    Teaching("SPANPolicy", make("vector"), buffer_size=100)
    MyPPO("SPANPolicy", make("vector"), n_steps=8, batch_size=8)
    sb3_span.PPO("MlpPolicy", make("vector"), n_steps=8, batch_size=8)
    for algo, policy in POLICIES.items():
        subclass = type(f"My{policy.__name__}", (policy,), {})
        make_model(algo, make("vector", action_spaces(algo)[0]), policy=subclass, learn=False)
