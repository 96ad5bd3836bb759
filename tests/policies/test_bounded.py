"""Which policies bound their modes, and that agents saved before any did act as they did then."""

from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3

import sb3_span  # noqa: F401
from sb3_span.nn import SPAN
from tests.policies.models import make_model, name

BEFORE = Path(__file__).parents[2] / "examples" / "agents" / "InvertedPendulum-v5.zip"


def spans(model) -> list[SPAN]:
    return [module for module in model.policy.modules() if isinstance(module, SPAN)]


@pytest.mark.parametrize("algo, bounded", [(SAC, True), (TD3, True), (PPO, False), (DQN, False)], ids=name)
def test_default_of_each_algorithm(algo, bounded):
    env = "CartPole-v1" if algo is DQN else "Pendulum-v1"
    assert {span.arch.bounded for span in spans(make_model(algo, env, learn=False))} == {bounded}
    chosen = make_model(algo, env, learn=False, span_arch=dict(nmodes=2, bounded=not bounded))
    assert {span.arch.bounded for span in spans(chosen)} == {not bounded}


def test_one_role_alone():
    model = make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(pi=dict(bounded=False), qf=dict(nmodes=3)))
    assert not model.actor.latent_pi.arch.bounded
    assert model.critic.qf.arch.bounded and model.critic_target.qf.arch.bounded


def test_refuses_what_is_neither_true_nor_false():
    with pytest.raises(ValueError, match=r"span_arch\['bounded'\] is 'tanh'; it must be True or False"):
        make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(bounded="tanh"))


def test_saved_before_there_was_the_choice(tmp_path):
    before = SAC.load(BEFORE, device="cpu")
    assert not any(span.arch.bounded for span in spans(before))
    before.save(tmp_path / "again")
    again = SAC.load(tmp_path / "again", device="cpu")
    assert not any(span.arch.bounded for span in spans(again))
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        before.predict(observations, deterministic=True)[0], again.predict(observations, deterministic=True)[0]
    )
