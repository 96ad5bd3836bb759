"""Normalised modes inside policies."""

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3

import sb3_span  # noqa: F401
from sb3_span.nn import SPAN
from tests.policies.models import make_model, name


def spans(model) -> list[SPAN]:
    return [module for module in model.policy.modules() if isinstance(module, SPAN)]


def are_normed(model) -> set[bool]:
    return {span.arch.mode_norm for span in spans(model)}


def env_of(algo) -> str:
    return "CartPole-v1" if algo is DQN else "Pendulum-v1"


def test_off_unless_asked_for():
    assert are_normed(make_model(SAC, "Pendulum-v1", learn=False)) == {False}


@pytest.mark.parametrize("algo", [SAC, TD3, PPO, DQN], ids=name)
@pytest.mark.parametrize("mode_norm", [True, False])
def test_saved_with_the_agent(algo, mode_norm, tmp_path):
    model = make_model(algo, env_of(algo), span_arch=dict(nmodes=3, mode_norm=mode_norm))
    model.save(tmp_path / "agent")
    loaded = algo.load(tmp_path / "agent", device="cpu")
    assert are_normed(loaded) == {mode_norm}
    observations = np.random.default_rng(0).normal(size=(20, *model.observation_space.shape)).astype(np.float32)
    actions = model.predict(observations, deterministic=True)[0]
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], actions)


def test_bounded_modes_are_no_more():
    """Saved models may name the option that normalised modes have replaced."""
    make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(bounded=False))
    with pytest.raises(ValueError, match=r"bounded=True.*Use mode_norm"):
        make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(bounded=True))


def test_one_role_alone():
    model = make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(qf=dict(nmodes=3, mode_norm=True)))
    assert not model.actor.latent_pi.arch.mode_norm
    assert model.critic.qf.arch.mode_norm and model.critic_target.qf.arch.mode_norm


def test_refuses_what_is_neither_true_nor_false():
    with pytest.raises(ValueError, match=r"span_arch\['mode_norm'\] is 'layer'; it must be True or False"):
        make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(mode_norm="layer"))
