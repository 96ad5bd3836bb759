"""The quarter car against what is known of it: statics, energy, frequency responses."""

import numpy as np
import pytest
from scipy.linalg import expm

from sb3_span.plants.quarter_car import (
    BODY_VELOCITY,
    FORCE,
    GRAVITY,
    N_STATES,
    TRAVEL,
    TYRE,
    WHEEL_VELOCITY,
    Motion,
    QuarterCar,
    tyre_force,
)

MECHANICAL = [TRAVEL, BODY_VELOCITY, TYRE, WHEEL_VELOCITY]


def drive(car, state, seconds, command=0.0, time_step=1e-3):
    motion = Motion(car, time_step, state=state)
    return np.array([motion.advance(np.zeros(1), command)[0] for _ in range(round(seconds / time_step))])


def at(**values):
    state = np.zeros(N_STATES)
    for name, value in values.items():
        state[globals()[name.upper()]] = value
    return state


def energy(car, states):
    return 0.5 * (
        car.body_mass * states[:, BODY_VELOCITY] ** 2
        + car.wheel_mass * states[:, WHEEL_VELOCITY] ** 2
        + car.spring_stiffness * states[:, TRAVEL] ** 2
        + car.tyre_stiffness * states[:, TYRE] ** 2
    )


def test_settles_under_gravity():
    """Let down from where nothing touches, the springs carry the weight: they are then as short as Hooke says."""
    car = QuarterCar(stop_stiffness=0.0, damping=2_000.0)
    spring, tyre = car.body_mass * GRAVITY / car.spring_stiffness, car.weight / car.tyre_stiffness
    # Heights are relative to rest: the unloaded springs are longer by what gravity will take.
    states = drive(car, at(travel=spring, tyre=tyre + 0.01), 8.0)
    assert tyre_force(car, states[:1, TYRE])[0] == -car.weight
    np.testing.assert_allclose(states[-1, MECHANICAL], 0.0, atol=1e-6)


def test_a_constant_force_lengthens_the_spring_alone():
    car = QuarterCar()
    final = drive(car, None, 10.0, command=500.0)[-1]
    assert final[FORCE] == pytest.approx(500.0)
    assert final[TRAVEL] == pytest.approx(500.0 / car.spring_stiffness, rel=1e-4)
    assert final[TYRE] == pytest.approx(0.0, abs=1e-6)


def test_force_is_limited_and_follows_at_its_bandwidth():
    car = QuarterCar(force_limit=800.0, actuator_bandwidth=10.0)
    states = drive(car, None, 0.5, command=1e6)
    time = 1e-3 * np.arange(1, 501)
    np.testing.assert_allclose(states[:, FORCE], 800.0 * (1 - np.exp(-2 * np.pi * 10.0 * time)), rtol=1e-9)


def test_energy_without_damping_is_kept():
    car = QuarterCar(damping=0.0)
    states = drive(car, at(travel=0.03, tyre=-0.002, body_velocity=0.1), 10.0)
    before = energy(car, at(travel=0.03, tyre=-0.002, body_velocity=0.1)[None])[0]
    np.testing.assert_allclose(energy(car, states), before, rtol=1e-9)


def test_the_damper_takes_the_energy_that_is_lost():
    car, start = QuarterCar(), at(travel=0.03, body_velocity=0.1)
    states = np.vstack([start, drive(car, start, 2.0, time_step=1e-4)[:, :N_STATES]])
    power = car.damping * (states[:, BODY_VELOCITY] - states[:, WHEEL_VELOCITY]) ** 2
    lost = np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2 * 1e-4)])
    np.testing.assert_allclose(energy(car, states) + lost, energy(car, start[None])[0], rtol=1e-5)
    assert lost[-1] > 0.9 * energy(car, start[None])[0]


def test_in_flight_body_and_wheel_fall_together():
    """With the spring unloaded only gravity acts."""
    car = QuarterCar(damping=0.0, stop_stiffness=0.0)
    states = drive(car, at(travel=car.body_mass * GRAVITY / car.spring_stiffness, tyre=0.3), 0.1)
    np.testing.assert_allclose(states[:, TYRE], 0.3 - GRAVITY / 2 * (1e-3 * np.arange(1, 101)) ** 2, rtol=1e-9)


def test_natural_frequencies():
    """The frequencies at which the car without damping oscillates, and the textbook's approximations."""
    car = QuarterCar(damping=0.0)
    a, _ = car.dynamics()
    eigenvalues = np.linalg.eigvals(a[np.ix_(MECHANICAL, MECHANICAL)])
    np.testing.assert_allclose(np.unique(np.abs(eigenvalues.imag).round(9)) / (2 * np.pi), car.natural_frequencies, rtol=1e-6)
    in_series = car.spring_stiffness * car.tyre_stiffness / (car.spring_stiffness + car.tyre_stiffness)
    body = np.sqrt(in_series / car.body_mass) / (2 * np.pi)
    wheel = np.sqrt((car.spring_stiffness + car.tyre_stiffness) / car.wheel_mass) / (2 * np.pi)
    np.testing.assert_allclose(car.natural_frequencies, (body, wheel), rtol=0.01)


def test_transfer_function_from_road_to_body():
    """
    The ratio of heights (k_t (c s + k_s)) / (...) of the equations of motion, at 0.3 to 30 Hz; here as accelerations' response
    to the road's velocity.
    """
    car = QuarterCar()
    a, b = car.dynamics()
    omega = 2 * np.pi * np.geomspace(0.3, 30, 40)
    s = 1j * omega
    strut = car.damping * s + car.spring_stiffness
    wheel = car.wheel_mass * s**2 + strut + car.tyre_stiffness
    heights = strut * car.tyre_stiffness / ((car.body_mass * s**2 + strut) * wheel - strut**2)
    states = np.linalg.solve(s[:, None, None] * np.eye(N_STATES) - a, b[:, 0])
    np.testing.assert_allclose(states @ a[BODY_VELOCITY], heights * s, rtol=1e-9)


@pytest.mark.parametrize("mode", [(False, 0), (True, 0), (False, 1), (False, -1)])
def test_discretisation_is_exact(mode):
    """A step is as good as a thousand small ones."""
    car, rng = QuarterCar(), np.random.default_rng(0)
    state, inputs = rng.normal(size=N_STATES), np.array([0.3, 200.0, 1.0])
    a, b = car.dynamics(*mode)
    small = expm(np.block([[a, b], [np.zeros((3, N_STATES + 3))]]) * 1e-6)[:N_STATES]
    expected = state
    for _ in range(1000):
        expected = small @ np.concatenate([expected, inputs])
    actual = car.discretise(1e-3, *mode)[:N_STATES] @ np.concatenate([state, inputs])
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-8)


def test_steps_together_are_the_steps():
    """On the road, across a stop and off the road."""
    car, rng = QuarterCar(), np.random.default_rng(0)
    together, alone, modes = Motion(car, 1e-3, 10), Motion(car, 1e-3), set()
    for _ in range(300):
        velocities, command = rng.normal(0, 4.0, 10), rng.normal(0, 2_000.0)
        expected = np.vstack([alone.advance(velocities[i : i + 1], command) for i in range(10)])
        np.testing.assert_allclose(together.advance(velocities, command), expected, rtol=1e-7, atol=1e-7)
        modes |= set(zip(expected[:, TYRE] > together.lift_off, np.abs(expected[:, TRAVEL]) > car.travel_limit, strict=True))
    assert len(modes) == 4


def test_the_tyre_does_not_pull_and_the_stops_hold():
    car = QuarterCar()
    states = drive(car, at(tyre=0.05), 0.02)
    assert tyre_force(car, states[:, TYRE]).min() == -car.weight
    hard, soft = (
        np.abs(drive(QuarterCar(stop_stiffness=stiffness), at(body_velocity=2.0), 1.0)[:, TRAVEL]).max()
        for stiffness in (150_000.0, 0.0)
    )
    assert car.travel_limit < hard < 0.12 < soft


@pytest.mark.parametrize(
    "parameters, message",
    [
        (dict(body_mass=-1.0), "body_mass is -1.0; it must be a number above 0"),
        (dict(tyre_stiffness=0.0), "tyre_stiffness is 0.0; it must be a number above 0"),
        (dict(wheel_mass=float("nan")), "wheel_mass is nan"),
        (dict(damping=-5.0), "damping is -5.0; it must be a number of at least 0"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        QuarterCar(**parameters)


@pytest.mark.parametrize("time_step", [0.0, -0.001, 0.01, float("nan")])
def test_bad_time_steps(time_step):
    with pytest.raises(ValueError, match=r"this car needs more than 0 and at most 0.0043 s.*11.8 Hz"):
        Motion(QuarterCar(), time_step)
