"""The exported C on an emulated Cortex-M4F."""

import numpy as np
import pytest
from stable_baselines3 import PPO, SAC

from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.device import missing_tools, run_on_device
from sb3_span.deploy.policy import DeterministicPolicy
from tests.deploy.models import lively
from tests.policies.models import name

needs_device = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))


@needs_device
@pytest.mark.parametrize("algo, actions", [(SAC, "box"), (PPO, "multidiscrete")], ids=name)
def test_same_actions_on_the_device(algo, actions, record_property):
    policy = DeterministicPolicy(lively(algo, actions=actions))
    files = write_c(policy, "")
    observations = np.random.default_rng(0).uniform(-1, 1, (500, 3)).astype(np.float32)
    device = run_on_device(policy, files, observations)
    with CompiledPolicy(policy, files) as compiled:
        np.testing.assert_array_equal(device.actions, compiled(observations))  # to the last bit
    np.testing.assert_allclose(device.actions, policy.predict(observations), atol=3e-5)
    assert len(np.unique(device.actions, axis=0)) > 1

    parameters = sum(array.count(",") for array in files["policy.c"].split("static const float")[1:])
    assert 4 * parameters < device.flash < 4 * parameters + 2_000
    assert 0 < device.ram < 1_000
    assert 100 < device.instructions < 5_000
    again = run_on_device(policy, files, observations)
    assert again.instructions == device.instructions
    for measure in ("flash", "ram", "instructions"):
        record_property(measure, getattr(device, measure))
    print(f"{algo.__name__}: {device.flash} bytes of flash, {device.ram} of RAM, {device.instructions:.0f} instructions")


@needs_device
def test_more_work_is_more_instructions():
    """Each of the 8 more modes has a sum and a product for each of 3 dimensions: at least 5 instructions each time."""
    counts = []
    for nmodes in (4, 12):
        policy = DeterministicPolicy(lively(SAC, span_arch=dict(nmodes=nmodes)))
        observations = np.zeros((100, 3), np.float32)
        counts.append(run_on_device(policy, write_c(policy, ""), observations).instructions)
    assert counts[1] - counts[0] > 8 * 3 * 5


def test_missing_tools_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    policy = DeterministicPolicy(lively())
    with pytest.raises(ValueError, match="apt-get install gcc-arm-none-eabi"):
        run_on_device(policy, {}, np.zeros((1, 3)))
