"""A drive with a controller, measured: comfort, travel, grip."""

from dataclasses import dataclass

import numpy as np

from sb3_span.plants.quarter_car import FORCE, TRAVEL, TYRE, tyre_force
from sb3_span.plants.suspension import ACCELERATION, WEIGHTED, QuarterCarEnv
from sb3_span.plants.suspension_control import Controller

WARM_UP = 1.0  # seconds that are not measured: the car starts at rest


@dataclass(frozen=True)
class Ride:
    """
    :param cost: Mean of the environment's cost, relative to the road's severity: minus the mean reward
    :param weighted: Body acceleration as ISO 2631-1 weights it, RMS, in m/s^2
    :param acceleration: Body acceleration, RMS, in m/s^2
    :param travel: Of the suspension, RMS, in m
    :param longest_travel: The largest travel relative to its limit
    :param on_stops: Share of the time that the suspension is on a stop
    :param tyre_force: What the tyre presses on the road less the weight, RMS, relative to the weight
    :param airborne: Share of the time that the tyre is off the road
    :param force: Of the actuator, RMS, in N
    """

    cost: float
    weighted: float
    acceleration: float
    travel: float
    longest_travel: float
    on_stops: float
    tyre_force: float
    airborne: float
    force: float


def drive(env: QuarterCarEnv, controller: Controller, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """
    One episode.

    :return: State, body acceleration and weighted acceleration after each step of the simulation, shape (T, 16); and the
        rewards, shape (n_steps,)
    """
    observation, _ = env.reset(seed=seed)
    outputs, rewards, is_over = [], [], False
    while not is_over:
        observation, reward, _, is_over, _ = env.step(controller(observation, env))
        outputs.append(env.outputs)
        rewards.append(reward)
    return np.concatenate(outputs), np.array(rewards)


def ride(env: QuarterCarEnv, controller: Controller, seed: int) -> Ride:
    """
    :param env: The car and its roads
    :param controller: From observations to actions
    :param seed: Draws road, mass and speed
    """
    outputs, rewards = drive(env, controller, seed)
    skipped = round(WARM_UP / (env.time_step * env.substeps))
    if skipped >= env.n_steps:
        raise ValueError(f"A drive of {env.n_steps * env.substeps * env.time_step:g} s is too short: the first is not measured.")
    outputs, car = outputs[skipped * env.substeps :], env.car
    force = tyre_force(car, outputs[:, TYRE]) / car.weight
    travel = np.abs(outputs[:, TRAVEL])
    return Ride(
        cost=-float(rewards[skipped:].mean()),
        weighted=_rms(outputs[:, WEIGHTED]),
        acceleration=_rms(outputs[:, ACCELERATION]),
        travel=_rms(travel),
        longest_travel=float(travel.max() / car.travel_limit),
        on_stops=float((travel > car.travel_limit).mean()),
        tyre_force=_rms(force),
        airborne=float((force <= -1.0).mean()),
        force=_rms(outputs[:, FORCE]),
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
