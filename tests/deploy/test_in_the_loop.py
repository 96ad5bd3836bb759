"""The exported C as a controller: one observation after the other, here and on an emulated Cortex-M4F."""

import numpy as np
import pytest
from stable_baselines3 import PPO, SAC

from sb3_span.deploy.device import missing_tools
from sb3_span.deploy.in_the_loop import PolicyInTheLoop
from sb3_span.deploy.policy import DeterministicPolicy
from tests.deploy.models import lively
from tests.policies.models import name

needs_device = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))
on_both = pytest.mark.parametrize("on_device", [False, pytest.param(True, marks=needs_device)], ids=["here", "device"])


@on_both
@pytest.mark.parametrize("algo, actions", [(SAC, "box"), (PPO, "multidiscrete")], ids=name)
def test_each_observation_gets_its_action(algo, actions, on_device):
    """Which may depend on the one before: the simulation waits for it."""
    policy = DeterministicPolicy(lively(algo, actions=actions))
    rng, observation, seen, taken = np.random.default_rng(0), np.zeros(3, np.float32), [], []
    with PolicyInTheLoop(policy, on_device) as act:
        for _ in range(50):
            action = act(observation)
            assert action.shape == policy.action_space.shape
            seen.append(observation)
            taken.append(action)
            observation = (rng.uniform(-1, 1, 3) + 0.1 * action.sum()).astype(np.float32)
        assert len(act.instructions) == (50 if on_device else 0)
        assert all(100 < each < 20_000 for each in act.instructions)
    np.testing.assert_allclose(taken, policy.predict(np.array(seen)), atol=3e-5)
    assert len(np.unique(taken, axis=0)) > 1


@on_both
def test_not_a_number_is_refused(on_device):
    with PolicyInTheLoop(DeterministicPolicy(lively()), on_device) as act:
        with pytest.raises(ValueError, match="policy_act returned 1 for the observation"):
            act(np.array([0.0, np.nan, 0.0]))
        assert np.isfinite(act(np.zeros(3))).all()  # the next one is answered


@on_both
def test_nothing_is_left(on_device, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with PolicyInTheLoop(DeterministicPolicy(lively()), on_device) as act:
        process = act._process
        assert process.poll() is None
    assert process.poll() is not None
    assert not list(tmp_path.iterdir())


def test_a_controller_that_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(PolicyInTheLoop, "_compile", lambda self, folder: ["sh", "-c", "echo no >&2; exit 3"])
    with (
        PolicyInTheLoop(DeterministicPolicy(lively())) as act,
        pytest.raises(ValueError, match="The controller ended with status 3: no"),
    ):
        act(np.zeros(3))
