"""The environment and the controllers that agents are compared with."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_sb3

import sb3_span.plants  # noqa: F401
from sb3_span.plants.quarter_car import FORCE, INTEGRATED, N_STATES, TRAVEL, TYRE, Motion, QuarterCar
from sb3_span.plants.ride import drive, ride
from sb3_span.plants.suspension import QuarterCarEnv
from sb3_span.plants.suspension_control import cost_matrices, expected_cost, lqr, lqr_gain, output_feedback, passive, skyhook


def test_registered_and_as_gymnasium_wants():
    env = gym.make("QuarterCar-v0", body_mass=300.0)
    check_sb3(env.unwrapped)
    check_gymnasium(gym.make("QuarterCar-v0", render_mode="rgb_array").unwrapped)
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
    env = QuarterCarEnv(road="C", body_mass=320.0, speed=20.0)
    env.reset(seed=0)
    rng, observations, velocities = np.random.default_rng(0), [], []
    for _ in range(env.n_steps):
        before = env.motion.state.copy()
        observation, *_ = env.step(rng.uniform(-0.3, 0.3, 1))
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
    assert np.all((observations.std(axis=0) > 0.1) & (observations.std(axis=0) < 3.0))  # of order one


def test_pictures_show_the_body_move():
    env = gym.make("QuarterCar-v0", road="C", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    at_rest = env.render()
    for _ in range(50):
        env.step(np.ones(1))  # upwards
    body = [np.flatnonzero((picture == (27, 108, 168)).all(axis=-1).any(axis=1)).mean() for picture in (at_rest, env.render())]
    assert at_rest.shape == (360, 480, 3) and body[1] < body[0] - 10
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        QuarterCarEnv(render_mode="human")


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
    envs = [QuarterCarEnv(road=road, speed=20.0, body_mass=320.0) for road in ("A", "C")]
    costs = [each.cost for each in ride(envs, passive, [3, 3])]
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


def test_linear_controllers_cost_what_theory_says():
    """The road's velocity is white noise, but for the standard's highest frequency, which hardly reaches the car."""
    car = QuarterCar(force_limit=1e9)
    env = QuarterCarEnv(road="A", speed=20.0, body_mass=320.0, seconds=20.0, substeps=1, force_limit=1e9)
    measured = [each.cost for each in ride([env], lqr(car), [0])]
    assert np.mean(measured) == pytest.approx(expected_cost(car, lqr_gain(car)[0]), rel=0.1)


def test_lqr_is_the_best_and_output_feedback_close():
    car = QuarterCar()
    gain, p = lqr_gain(car)
    best = expected_cost(car, gain)
    rng = np.random.default_rng(0)
    assert all(best < expected_cost(car, gain * rng.normal(1.0, 0.1, N_STATES)) for _ in range(10))
    # By theory the noise of each step costs what the Riccati matrix says.
    noise = car.discretise(1e-3)[:N_STATES, N_STATES]
    variance = (2 * np.pi * 0.1) ** 2 * 256e-6 * 20.0 / 2 / 1e-3
    assert best == pytest.approx(variance * noise @ p @ noise, rel=1e-6)
    # On roads of the standard, which reach no limit; the car is the one that they were made for.
    envs = [QuarterCarEnv(road="B", body_mass=320.0, speed=20.0, seconds=10.0, substeps=1) for _ in range(2)]
    costs = [np.mean([each.cost for each in ride(envs, to, [0, 1])]) for to in (lqr(), output_feedback(), skyhook(), passive)]
    assert costs[0] < costs[1] < 1.05 * costs[0]
    assert costs[1] < 0.9 * costs[2] < 0.9 * costs[3]


def test_an_unstable_controller_costs_infinitely_much():
    assert expected_cost(QuarterCar(), 1e4 * np.eye(N_STATES)[1] * -1) == np.inf


def test_drives_together_are_the_drives():
    envs = [QuarterCarEnv(seconds=1.5) for _ in range(3)]
    together = ride(envs, skyhook(), [4, 5, 6])
    assert together == [ride([env], skyhook(), [seed])[0] for env, seed in zip(envs, [4, 5, 6], strict=True)]
    outputs, rewards = drive(envs[:1], skyhook(), [4])
    assert together[0].weighted == pytest.approx(np.sqrt(np.mean(outputs[0, 1000:, -1] ** 2)))
    assert together[0].cost == pytest.approx(-rewards[0, 100:].mean())


def test_stops_and_flights_are_counted():
    envs = [QuarterCarEnv(road=road, body_mass=320.0, speed=25.0) for road in ("E", "A")]
    rough, smooth = ride(envs, passive, [0, 0])
    assert rough.on_stops > 0.02 and rough.airborne > 0.05 and rough.longest_travel > 1
    assert smooth.on_stops == smooth.airborne == 0 and smooth.longest_travel < 0.3
    with pytest.raises(ValueError, match="seconds is too short: the first 1 are not measured"):
        ride([QuarterCarEnv(seconds=1.0)], passive, [0])


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
