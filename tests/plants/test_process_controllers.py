"""The references: PID and NMPC follow set points, and do better than inputs that do not change."""

import numpy as np
import pytest

from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import NMPC, PID, PID_GAINS, Fixed
from sb3_span.plants.process_episodes import play
from sb3_span.plants.process_plants import PLANTS, REACTOR
from sb3_span.plants.process_tuning import tune

pytest.importorskip("pcgym", reason="the extra 'process' is not installed")
SEED = 4


@pytest.mark.parametrize("env_id", PLANTS)
def test_order_of_the_references(env_id):
    """Nonlinear MPC, which knows everything but the next set points; PID; fixed inputs, which keep the plant as it is."""
    env = ProcessEnv(env_id)
    nmpc, pid, fixed = (play(env, controller, SEED) for controller in (NMPC(env), PID(), Fixed()))
    returns = [each.measures()["return"] for each in (nmpc, pid, fixed)]
    assert returns == sorted(returns, reverse=True) and returns[0] > returns[2] / 3
    np.testing.assert_array_equal(nmpc.set_points, fixed.set_points)
    # At the end of the episode both are where they should be; the MPC exactly.
    assert np.abs(nmpc.errors[-5:]).max() < 0.01 and np.abs(pid.errors[-5:]).mean() < 0.06
    assert nmpc.violated.sum() == 0


def test_nmpc_knows_the_parameters_of_its_environment():
    """With colder feed the coolant is warmer."""
    errors = []
    for known in ({"Ti": 340}, {}):
        env = ProcessEnv("SPANReactor-v0", noise=0.0, n_steps=60, Ti=340)
        errors.append(np.abs(play(env, NMPC(ProcessEnv("SPANReactor-v0", **known)), SEED).errors[-5:]).max())
    assert errors[0] < 0.01 < errors[1]


def test_pid_ends_without_error():
    """Also where the plant is not the one that it was tuned on: that is what the integral is for."""
    env = ProcessEnv("SPANReactor-v0", noise=0.0, n_steps=200, UA=4.8e4)
    assert np.abs(play(env, PID(), SEED).errors[-5:]).max() < 0.01


def test_pid_by_hand():
    """Kp times the error at the first step, Ki more for each one that lasts; no more of it at a bound."""
    env = ProcessEnv("SPANFourTanks-v0", noise=0.0)
    env.reset(seed=0)
    controller = PID([(0.5, 0.01, 0.0), (0.5, 0.01, 0.0)])
    controller.reset(env)
    start = env.to_action(env.inputs)
    error = ((env.set_points - env.measured[:2]) / 0.15)[::-1]  # each pump follows the tank across
    np.testing.assert_allclose(controller.act(None, env), np.clip(start + 0.51 * error, -1, 1))
    np.testing.assert_allclose(controller.act(None, env), np.clip(start + 0.52 * error, -1, 1))
    env.set_points = env.measured[:2] + 1.5  # far out of reach for 50 steps, then ten below in one
    for _ in range(50):
        assert controller.act(None, env) == pytest.approx([1.0, 1.0])
    env.set_points = env.measured[:2] - 1.5
    assert controller.act(None, env) == pytest.approx([-1.0, -1.0])


def test_slope_is_that_of_the_measured_value():
    """A jump of the set point does not kick; a rising value is held back."""
    env = ProcessEnv("SPANReactor-v0", noise=0.0)
    env.reset(seed=0)
    controller = PID([(1e-9, 1e-9, 2.0)])
    controller.reset(env)
    rest = env.to_action(env.inputs)
    env.set_points = env.set_points + 0.1
    assert controller.act(None, env) == pytest.approx(rest, abs=1e-6)
    env.measured = env.measured + np.array([0.045, 0.0])  # a tenth of the range: the coolant should be warmer
    assert controller.act(None, env) == pytest.approx(rest + 2.0 * 0.1 / 2, abs=1e-6)


def test_tuning_finds_better_gains():
    env = ProcessEnv(REACTOR.env_id, n_steps=40)
    (first, at_first, _), (gains, at_end, tried) = tune(env, generations=0), tune(env, generations=2)
    assert first.shape == gains.shape == (1, 3) and (gains > 0).all()
    assert at_end > at_first and tried > 40
    assert set(PID_GAINS) == set(PLANTS)
