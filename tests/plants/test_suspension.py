"""The environment and the controllers that agents are compared with."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from scipy.linalg import solve_discrete_lyapunov
from stable_baselines3.common.env_checker import check_env as check_sb3

import sb3_span.plants  # noqa: F401
from sb3_span.plants.quarter_car import FORCE, INTEGRATED, N_STATES, TRAVEL, TYRE, Motion, QuarterCar
from sb3_span.plants.ride import drive, ride
from sb3_span.plants.roads import CLASSES
from sb3_span.plants.suspension import QuarterCarEnv
from sb3_span.plants.suspension_control import cost_matrices, lqr, lqr_gain, passive, skyhook


def test_registered_and_as_gymnasium_wants():
    env = gym.make("QuarterCar-v0", body_mass=300.0)
    check_sb3(env.unwrapped)
    check_gymnasium(env.unwrapped, skip_render_check=True)
    assert env.unwrapped._body_mass == (300.0, 300.0)


def test_the_seed_decides():
    def play(seed):
        env = QuarterCarEnv()
        observations, rewards = [env.reset(seed=seed)[0]], []
        rng = np.random.default_rng(0)
        for _ in range(2):  # the second drive too
            for _ in range(env.n_steps):
                observation, reward, _, over, _ = env.step(rng.uniform(-1, 1, 1))
                observations.append(observation)
                rewards.append(reward)
            assert over
            observations.append(env.reset()[0])
        return np.array(observations), np.array(rewards), (env.road, env.speed, env.car.body_mass)

    first, again, other = play(0), play(0), play(1)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert first[2] == again[2] != other[2]


def test_observations_are_what_a_car_measures():
    env = QuarterCarEnv(road="D", body_mass=320.0, speed=20.0, travel_limit=1.0)
    env.reset(seed=0)
    rng, observations, velocities = np.random.default_rng(0), [], []
    for _ in range(env.n_steps):
        before = env.motion.state.copy()
        observation, *_ = env.step(rng.uniform(-1, 1, 1))
        state = env.motion.state
        mechanical = -18_000.0 * state[TRAVEL] - 800.0 * (state[1] - state[3]) + state[FORCE]
        assert observation[0] * 2.0 == pytest.approx(mechanical / 320.0, rel=1e-4, abs=1e-4)
        assert observation[1] * 0.1 == pytest.approx(state[INTEGRATED], rel=1e-5)
        assert observation[2] * 0.02 == pytest.approx(state[TRAVEL], rel=1e-5)
        assert observation[4] * 1500.0 == pytest.approx(state[FORCE], rel=1e-4, abs=1e-3)
        observations.append(observation)
        velocities.append((state[TRAVEL] - before[TRAVEL]) / 0.01)
    observations = np.array(observations)
    # Travel velocity is the change of travel, but for the time within the step.
    assert np.corrcoef(observations[:, 3], velocities)[0, 1] > 0.9
    assert np.all((observations.std(axis=0) > 0.2) & (observations.std(axis=0) < 3.0))  # of order one


def test_rewards_are_the_documented_cost():
    """On one road; relative to its severity, which on class D at 10 m/s is 2."""
    env = QuarterCarEnv(road="D", body_mass=320.0, speed=10.0, substeps=4)
    env.reset(seed=0)
    for share in (0.5, -2.0, 0.0):
        _, reward, *_ = env.step(np.array([share]))
        states, weighted = env.outputs, env.outputs[:, -1]
        force = 200_000.0 * states[:, TYRE] / (360.0 * 9.81)
        costs = weighted**2 + 2 * (states[:, TRAVEL] / 0.08) ** 2 + 3 * force**2 + 0.02 * min(share**2, 1.0)
        assert reward == pytest.approx(-costs.mean() / 2.0)


def test_a_smooth_road_counts_as_much_as_a_rough_one():
    costs = [ride(QuarterCarEnv(road=road, speed=20.0, body_mass=320.0), passive, seed=3).cost for road in ("A", "C")]
    assert costs[0] == pytest.approx(costs[1], rel=1e-3)  # nothing reached a limit


def test_lqr_costs_what_the_riccati_matrix_says():
    """From any state without a road, to the end; another gain costs more."""
    car = QuarterCar(force_limit=1e9)
    gain, p = lqr_gain(car)
    q, r = cost_matrices(car)
    start = np.random.default_rng(0).normal(0, 1e-2, N_STATES)

    def total(gain):
        motion, cost = Motion(car, 1e-3, state=start), 0.0
        for _ in range(10_000):
            state = motion.state.copy()
            command = -gain @ state
            cost += state @ q @ state + r[0, 0] * command**2
            motion.advance(np.zeros(1), command)
        return cost

    assert total(gain) == pytest.approx(start @ p @ start, rel=1e-6)
    assert total(0.95 * gain) > total(gain) < total(1.05 * gain)
    assert total(0 * gain) > 1.2 * total(gain)


def test_lqr_on_a_random_road_costs_what_theory_says():
    """The tyre's road is white noise of velocity up to the standard's highest frequency, which the car hardly passes."""
    car = QuarterCar(force_limit=1e9, stop_stiffness=0.0)
    gain, _ = lqr_gain(car)
    q, r = cost_matrices(car)
    step = car.discretise(1e-3)
    closed = step[:N_STATES, :N_STATES] - np.outer(step[:N_STATES, N_STATES + 1], gain)
    noise = step[:N_STATES, N_STATES]
    variance = (2 * np.pi) ** 2 * CLASSES["A"] * 0.1**2 * 20.0 / 2 / 1e-3  # of a step's velocity: two-sided density / step
    covariance = solve_discrete_lyapunov(closed, variance * np.outer(noise, noise))
    expected = np.trace((q + r * np.outer(gain, gain)) @ covariance)
    env = QuarterCarEnv(road="A", speed=20.0, body_mass=320.0, seconds=30.0, substeps=1, force_limit=1e9)
    control = lqr(car)
    measured = [ride(env, control, seed).cost * CLASSES["A"] / CLASSES["C"] for seed in range(2)]
    assert np.mean(measured) == pytest.approx(expected, rel=0.1)


def test_references_are_ordered():
    """By the cost that LQR minimises, on roads that reach no limit."""
    env = QuarterCarEnv(road="B", body_mass=320.0, speed=20.0, seconds=10.0, substeps=1)
    costs = [ride(env, controller, seed=0).cost for controller in (lqr(), skyhook(), passive)]
    assert costs[0] < 0.95 * costs[1] < 0.95 * costs[2]
    _, rewards = drive(env, passive, seed=0)
    assert -rewards[1000:].mean() == pytest.approx(costs[2])


def test_stops_and_flights_are_counted():
    env = QuarterCarEnv(road="E", body_mass=320.0, speed=25.0, substeps=1)
    rough = ride(env, passive, seed=0)
    assert rough.on_stops > 0.02 and rough.airborne > 0.05 and rough.longest_travel > 1
    smooth = ride(QuarterCarEnv(road="A", body_mass=320.0, speed=25.0, substeps=1), passive, seed=0)
    assert smooth.on_stops == smooth.airborne == 0 and smooth.longest_travel < 0.3


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(road="F"), "road is 'F'; it must be one of A, B, C, D, E, bump"),
        (dict(road=()), "road is empty"),
        (dict(body_mass=-1.0), "body_mass is -1.0; it must be a number above 0, or two"),
        (dict(body_mass=(400.0, 300.0)), r"body_mass is \(400.0, 300.0\); .* the lowest and the highest"),
        (dict(speed=0.0), "speed is 0.0"),
        (dict(wheel_mass=-4.0), "wheel_mass is -4.0; it must be a number above 0"),
        (dict(time_step=0.02), "time_step is 0.02 s; this car needs more than 0 and at most 0.0043 s"),
        (dict(substeps=60), r"time_step \* substeps, is 0.06 s; this car needs .* at most 0.043 s"),
        (dict(substeps=0), "substeps is 0; it must be an integer of at least 1"),
        (dict(seconds=0.0), "seconds is 0.0; an episode must last at least one command, 0.01 s"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        QuarterCarEnv(**options)


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="body_weight"):
        QuarterCarEnv(body_weight=300.0)


def test_a_step_needs_a_drive():
    env = QuarterCarEnv(seconds=0.02)
    with pytest.raises(ValueError, match="No drive is under way: call reset"):
        env.step(np.zeros(1))
    env.reset(seed=0)
    env.step(np.zeros(1))
    assert env.step(np.zeros(1))[3]
    with pytest.raises(ValueError, match="No drive is under way"):
        env.step(np.zeros(1))
