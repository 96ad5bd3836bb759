"""The plants' equations against solutions on paper: steady states, balances of mass and energy, another integrator."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_plants import EXTRACTION, FOUR_TANKS, PLANTS, REACTOR

pytest.importorskip("pcgym", reason="the extra 'process' is not installed")


@pytest.fixture(scope="module")
def models():
    return {env_id: ProcessEnv(env_id).model for env_id in PLANTS}


def draw(ranges, rng):
    return np.array([rng.uniform(each.low, each.high) for each in ranges])


def test_steady_states_of_the_reactor(models):
    """From the set point: the reaction's rate, so the temperature, so the coolant's."""
    model = models[REACTOR.env_id]
    for ca in (0.45, 0.5, 0.6, 0.75, 0.9):
        temperature = 8750 / np.log(7.2e10 * ca / (1 - ca))
        coolant = temperature - ((350 - temperature) + 5e4 / 239 * (1 - ca)) / (5e4 / 23900)
        state, inputs = model.steady([ca])
        np.testing.assert_allclose([*state, *inputs], [ca, temperature, coolant], rtol=1e-8)
    assert model.steady([0.5])[1][0] == pytest.approx(300, abs=0.1)  # the textbook's operating point: 0.5 mol/l, 350 K, 300 K


def test_steady_states_of_the_four_tanks(models):
    """A lower tank loses what reaches it: a share of one pump at once, the rest of the other's by an upper tank."""
    state, (v1, v2) = models[FOUR_TANKS.env_id].steady([0.2, 0.12])
    k1, k2, areas = 0.00085, 0.00095, np.array([0.0035, 0.0030, 0.0020, 0.0025])
    inflow = [0.2 * k1 * v1 + 0.8 * k2 * v2, 0.2 * k2 * v2 + 0.8 * k1 * v1, 0.8 * k2 * v2, 0.8 * k1 * v1]
    np.testing.assert_allclose(state, (inflow / areas) ** 2 / (2 * 9.81), rtol=1e-8)
    np.testing.assert_allclose(state[:2], [0.2, 0.12])


def test_steady_states_of_the_extraction_column(models):
    """What the liquid loses the gas carries away, over the column and over each stage."""
    state, (liquid, gas) = models[EXTRACTION.env_id].steady([0.25, 0.45])
    x, y = np.array([0.6, *state[0::2]]), np.array([*state[1::2], 0.05])
    np.testing.assert_allclose(liquid * (x[:-1] - x[1:]), gas * (y[:-1] - y[1:]), rtol=1e-8)
    np.testing.assert_allclose(gas * (y[:-1] - y[1:]), 5 * 5 * (x[1:] - y[:-1] ** 2), rtol=1e-8)
    assert liquid * (0.6 - 0.25) == pytest.approx(gas * (0.45 - 0.05))


@pytest.mark.parametrize("env_id", PLANTS)
def test_nothing_changes_at_rest(models, env_id):
    model, rng = models[env_id], np.random.default_rng(0)
    scale = [each.width for each in model.plant.states]
    for _ in range(20):
        set_points = draw(model.plant.set_points, rng)
        state, inputs = model.steady(set_points)
        assert np.abs(model.derivative(state, inputs) / scale).max() * model.sample_time < 1e-6
        np.testing.assert_allclose(model.advance(state, inputs), state, rtol=1e-5)
        np.testing.assert_allclose([state[model.plant.index(each.name)] for each in model.plant.set_points], set_points)


def test_set_points_out_of_reach_have_no_steady_state(models):
    assert models[FOUR_TANKS.env_id].steady([0.5, 0.5]) is None  # more than the pumps deliver
    assert models[EXTRACTION.env_id].steady([0.25, 0.65]) is None  # above the limit


def test_energy_balance_of_the_reactor(models):
    """The reaction turns concentration into heat: it cancels in the sum of both."""
    rng, rise = np.random.default_rng(1), 5e4 / 239
    for _ in range(20):
        (ca, temperature), (coolant,) = draw(REACTOR.states, rng), draw(REACTOR.inputs, rng)
        d_ca, d_temperature = models[REACTOR.env_id].derivative(np.array([ca, temperature]), np.array([coolant]))
        flows = 350 - temperature + rise * (1 - ca) + 5e4 / 23900 * (coolant - temperature)
        assert d_temperature + rise * d_ca == pytest.approx(flows, rel=1e-9)


def test_mass_balances(models):
    rng = np.random.default_rng(2)
    for _ in range(20):
        state, (liquid, gas) = draw(EXTRACTION.states, rng), draw(EXTRACTION.inputs, rng)
        change = 5 * models[EXTRACTION.env_id].derivative(state, np.array([liquid, gas])).sum()
        assert change == pytest.approx(liquid * (0.6 - state[8]) + gas * (0.05 - state[1]), rel=1e-9)
        levels, volts = draw(FOUR_TANKS.states, rng), draw(FOUR_TANKS.inputs, rng)
        change = models[FOUR_TANKS.env_id].derivative(levels, volts).sum()
        outflow = 0.0035 * np.sqrt(2 * 9.81 * levels[0]) + 0.0030 * np.sqrt(2 * 9.81 * levels[1])
        assert change == pytest.approx(0.00085 * volts[0] + 0.00095 * volts[1] - outflow, rel=1e-9)


@pytest.mark.parametrize("env_id", PLANTS)
def test_agrees_with_an_integrator_that_controls_its_error(models, env_id):
    """Ten steps with inputs at random, and the reactor as it runs away."""
    model, rng = models[env_id], np.random.default_rng(3)
    state, _ = model.steady([(each.low + each.high) / 2 for each in model.plant.set_points])
    width = np.array([each.width for each in model.plant.states])
    hottest = [model.plant.inputs[0].high] if env_id == REACTOR.env_id else None
    highest = 0.0
    for step in range(40 if hottest else 10):
        inputs = np.array(hottest or draw(model.plant.inputs, rng))
        span = (0.0, model.sample_time)
        exact = solve_ivp(lambda _, x, u=inputs: model.derivative(x, u), span, state, "LSODA", rtol=1e-10, atol=1e-12).y[:, -1]
        after = model.advance(state, inputs)
        assert np.abs((after - exact) / width).max() < (1e-3 if hottest else 1e-5), step
        state, highest = after, max(highest, after.max())
    assert not hottest or highest > 420


def test_agrees_with_pcgym(models):
    """Its own environment, from the same state with the same inputs."""
    import pcgym

    low, high = np.array([285.0], np.float32), np.array([315.0], np.float32)
    options = {
        "model": "cstr",
        "N": 100,
        "tsim": 10.0,
        "SP": {"Ca": [0.7] * 100},
        "x0": np.array([0.8, 330.0, 0.7]),
        "a_space": {"low": low, "high": high},
        "o_space": {"low": np.array([0, 300, 0], np.float32), "high": np.array([1, 400, 1], np.float32)},
        "normalise_a": False,
        "normalise_o": False,
    }
    env, state = pcgym.make_env(options), np.array([0.8, 330.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # numpy's functions with CasADi's symbols
        env.reset()
    for coolant in (302.0, 296.0, 310.0, 300.0):
        theirs = env.step(np.array([coolant]))[0][:2]
        state = models[REACTOR.env_id].advance(state, np.array([coolant]))
        np.testing.assert_allclose(state, theirs, rtol=1e-4)
