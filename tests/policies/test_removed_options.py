"""Options that earlier versions had: saved models name them, and load as long as they did not use them."""

import pickle

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3

import sb3_span  # noqa: F401
from sb3_span.nn import SPANArch
from tests.policies.models import make_model, name


@pytest.mark.parametrize("option", ["bounded", "mode_norm"])
@pytest.mark.parametrize("algo", [SAC, TD3, PPO, DQN], ids=name)
def test_an_agent_that_was_saved_without_them(algo, option, tmp_path):
    env = "CartPole-v1" if algo is DQN else "Pendulum-v1"
    model = make_model(algo, env, span_arch={"nmodes": 3, option: False})
    model.save(tmp_path / "agent")
    loaded = algo.load(tmp_path / "agent", device="cpu")
    observations = np.random.default_rng(0).normal(size=(20, *model.observation_space.shape)).astype(np.float32)
    actions = model.predict(observations, deterministic=True)[0]
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], actions)


@pytest.mark.parametrize("option", ["bounded", "mode_norm"])
@pytest.mark.parametrize("by_role", [False, True])
def test_one_that_was_used_is_refused(option, by_role):
    arch = {"nmodes": 3, option: True}
    with pytest.raises(
        ValueError, match=rf"{option}=True \(modes through .*\), which this version no longer has.*Leave {option}"
    ):
        make_model(SAC, "Pendulum-v1", learn=False, span_arch=dict(qf=arch) if by_role else arch)


@pytest.mark.parametrize("value", [False, True])
def test_a_pickled_shape(value):
    arch = SPANArch(nmodes=3)
    object.__setattr__(arch, "mode_norm", value)  # as the class of an earlier version had it
    loaded = pickle.loads(pickle.dumps(arch))
    if value:
        with pytest.raises(ValueError, match="mode_norm=True"):
            SPANArch.make(loaded)
    else:
        assert SPANArch.make(loaded) == SPANArch(nmodes=3)
