"""A wrong call is told what came in, what is allowed and what to do."""

import pytest
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback

from sb3_span import ClippedMlpPolicy, SPANActorCriticPolicy, SPANFeaturesExtractor, SPANPolicy
from tests.policies.envs import make


@pytest.mark.parametrize(
    "policy_kwargs, message",
    [
        (dict(span_arch=dict(modes=3)), r"unknown key 'modes'; allowed are"),
        (dict(span_arch=dict(nmodes=0)), r"span_arch\['nmodes'\] is 0; it must be an integer of at least 1"),
        (dict(span_arch=dict(pi=dict(nmodes=1.5))), r"In span_arch\['pi'\]: span_arch\['nmodes'\] is 1.5"),
        (dict(span_arch=dict(degree=1)), r"degree'\] is 1; the kernel basis is quadratic"),
        (dict(span_arch=dict(pi={}, nmodes=3)), r"span_arch has the key 'nmodes'; the networks here are \['pi', '.f'\]"),
        (dict(span_arch=dict(actor=dict(nmodes=3))), r"span_arch has the key 'actor'; the networks here are \['pi', '.f'\]"),
        (dict(net_arch=[64, 64]), r"got net_arch=\[64, 64\], .* Pass span_arch=dict\(nmodes=..., nelems=...\) instead"),
        (dict(activation_fn=None), r"got activation_fn=None, which shapes an MLP"),
    ],
)
@pytest.mark.parametrize("algo", [PPO, SAC])
def test_wrong_options(algo, policy_kwargs, message):
    with pytest.raises(ValueError, match=message):
        algo("SPANPolicy", make("vector"), policy_kwargs=policy_kwargs)


def test_role_of_another_algorithm():
    with pytest.raises(ValueError, match=r"key 'qf'; the networks here are \['pi', 'vf'\].*span_arch=dict\(pi=.*, vf="):
        PPO("SPANPolicy", make("vector"), policy_kwargs=dict(span_arch=dict(qf=dict(nmodes=3))))
    with pytest.raises(ValueError, match=r"key 'vf'; the networks here are \['pi', 'qf'\]"):
        SAC("SPANPolicy", make("vector"), policy_kwargs=dict(span_arch=dict(vf=dict(nmodes=3))))


@pytest.mark.parametrize("max_grad_norm", [0, -1.0, "10", True, float("nan")])
@pytest.mark.parametrize("policy", [SPANPolicy, ClippedMlpPolicy])
def test_wrong_max_grad_norm(policy, max_grad_norm):
    with pytest.raises(ValueError, match=r"max_grad_norm is .*; it must be a positive number, or None .* Try 10.0"):
        SAC(policy, make("vector"), policy_kwargs=dict(max_grad_norm=max_grad_norm))


def test_features_extractor():
    with pytest.raises(ValueError, match=r"span_arch\['nmodes'\] is 0"):
        SPANFeaturesExtractor(make("vector").observation_space, span_arch=dict(nmodes=0))


class MyPPO(PPO):
    pass


class MyPolicy(SPANPolicy):
    pass


@pytest.mark.parametrize(
    "algo, policy, right",
    [
        (PPO, SPANPolicy, "SPANActorCriticPolicy"),
        (A2C, SPANPolicy, "SPANActorCriticPolicy"),
        (MyPPO, MyPolicy, "SPANActorCriticPolicy"),
        (SAC, SPANActorCriticPolicy, "SPANPolicy"),
    ],
)
def test_wrong_class_for_the_algorithm(algo, policy, right):
    name = algo.__name__
    with pytest.raises(
        ValueError, match=rf'{name} was given {policy.__name__}, .* Use {name}\({right}, env\), .*\("SPANPolicy", env'
    ):
        algo(policy, make("vector"))


@pytest.mark.parametrize("algo, policy", [(TD3, SPANPolicy), (DDPG, SPANActorCriticPolicy), (DQN, SPANPolicy)])
def test_algorithm_without_a_span_policy(algo, policy):
    env = make("vector", "discrete" if algo is DQN else "box")
    with pytest.raises(ValueError, match=rf"There is no SPAN policy for {algo.__name__}: .*=SPANFeaturesExtractor"):
        algo(policy, env)


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
