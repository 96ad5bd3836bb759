"""Drives with a controller, measured: comfort, travel, grip."""

from collections.abc import Sequence
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
    :param travel: Of the suspension, RMS, relative to its limit
    :param longest_travel: The largest, likewise
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


def drive(envs: Sequence[QuarterCarEnv], controller: Controller, seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """
    One episode of each environment, together.

    :param envs: B of them, with episodes of one length
    :param controller: From observations to actions
    :param seeds: One for each: draws road, mass and speed
    :return: State, body acceleration and weighted acceleration after each step of the simulation, shape (B, T, 16); and the
        rewards, shape (B, n_steps)
    """
    observations = np.array([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    outputs, rewards = [], []
    for _ in range(envs[0].n_steps):
        actions = controller(observations, envs)
        steps = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        observations = np.array([step[0] for step in steps])
        rewards.append([step[1] for step in steps])
        outputs.append([env.outputs for env in envs])
    return np.concatenate(outputs, axis=1), np.array(rewards).T


def ride(envs: Sequence[QuarterCarEnv], controller: Controller, seeds: Sequence[int]) -> list[Ride]:
    """
    :param envs: B of them, with episodes of one length
    :param controller: From observations to actions
    :param seeds: One for each: draws road, mass and speed
    :return: What was measured, one for each
    """
    skipped = round(WARM_UP / (envs[0].time_step * envs[0].substeps))
    if skipped >= envs[0].n_steps:
        raise ValueError(f"seconds is too short: the first {WARM_UP:g} are not measured. Try 6.")
    outputs, rewards = drive(envs, controller, seeds)
    return [
        _measure(env, each[skipped * env.substeps :], -float(of_each[skipped:].mean()))
        for env, each, of_each in zip(envs, outputs, rewards, strict=True)
    ]


def _measure(env: QuarterCarEnv, outputs: np.ndarray, cost: float) -> Ride:
    """
    :param outputs: Shape (T, 16)
    """
    force = tyre_force(env.car, outputs[:, TYRE]) / env.car.weight
    travel = np.abs(outputs[:, TRAVEL]) / env.car.travel_limit
    return Ride(
        cost=cost,
        weighted=_rms(outputs[:, WEIGHTED]),
        acceleration=_rms(outputs[:, ACCELERATION]),
        travel=_rms(travel),
        longest_travel=float(travel.max()),
        on_stops=float((travel > 1.0).mean()),
        tyre_force=_rms(force),
        airborne=float((force <= -1.0).mean()),
        force=_rms(outputs[:, FORCE]),
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
