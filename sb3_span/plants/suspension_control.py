"""What an active suspension is compared with: no force, skyhook, and two regulators that are optimal for the linear car."""

from collections.abc import Callable, Sequence

import numpy as np

from sb3_span.plants.quarter_car import BODY_VELOCITY, FORCE, INTEGRATED, N_STATES, TRAVEL, TYRE, WHEEL_VELOCITY, QuarterCar
from sb3_span.plants.roads import CLASSES, REFERENCE, REFERENCE_SPEED
from sb3_span.plants.suspension import COMMAND_WEIGHT, SCALES, TRAVEL_WEIGHT, TYRE_WEIGHT, QuarterCarEnv
from sb3_span.plants.vibration import wk_filter

# From the last observations of B environments, shape (B, 5), and these, which know their states, to actions, shape (B, 1).
Controller = Callable[[np.ndarray, Sequence[QuarterCarEnv]], np.ndarray]


def passive(observations: np.ndarray, envs: Sequence[QuarterCarEnv]) -> np.ndarray:
    """No force: spring and damper alone."""
    return np.zeros((len(observations), 1))


def skyhook(gain: float = 1_500.0) -> Controller:
    """
    A damper between the body and the sky: a force against the body's velocity, as the car measures it.

    :param gain: In Ns/m
    """

    def control(observations: np.ndarray, envs: Sequence[QuarterCarEnv]) -> np.ndarray:
        limits = np.array([env.car.force_limit for env in envs])
        return (-gain * SCALES[1] * observations[:, 1] / limits)[:, None]

    return control


def lqr(car: QuarterCar | None = None, time_step: float = 0.001) -> Controller:
    """
    The best controller of a car without limits, for the environment's cost. It knows the whole state, with the tyre's
    deflection and the inside of the weighting filter, which a car does not measure.

    :param car: The car that it is made for; None for the default one
    :param time_step: Between commands, in seconds
    """
    gain = lqr_gain(car or QuarterCar(), time_step)[0]

    def control(observations: np.ndarray, envs: Sequence[QuarterCarEnv]) -> np.ndarray:
        return np.array([[-gain @ env.motion.state / env.car.force_limit] for env in envs if env.motion])

    return control


def output_feedback(car: QuarterCar | None = None, time_step: float = 0.001) -> Controller:
    """
    The best linear function of the observations, for a car without limits and the environment's cost on a random road.

    :param car: The car that it is made for; None for the default one
    :param time_step: Between commands, in seconds
    """
    gains = output_feedback_gains(car or QuarterCar(), time_step)
    return lambda observations, envs: observations @ gains[:, None]


def lqr_gain(car: QuarterCar, time_step: float = 0.001) -> tuple[np.ndarray, np.ndarray]:
    """
    :param car: The car
    :param time_step: Between commands, in seconds
    :return: K, shape (14,), and P, shape (14, 14): the command -K x costs x P x from the state x on, summed over all steps
    """
    from scipy.linalg import solve_discrete_are

    step = car.discretise(time_step)
    a, b = step[:N_STATES, :N_STATES], step[:N_STATES, [N_STATES + 1]]
    q, r = cost_matrices(car)
    p = solve_discrete_are(a, b, q, r)
    return np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)[0], p


def output_feedback_gains(car: QuarterCar, time_step: float = 0.001) -> np.ndarray:
    """
    :param car: The car
    :param time_step: Between commands, in seconds
    :return: One for each observation: the action is their product, shape (5,)
    """
    from scipy.optimize import minimize

    observed = np.zeros((len(SCALES), N_STATES))
    observed[0], observed[1, INTEGRATED], observed[2, TRAVEL] = car.dynamics()[0][BODY_VELOCITY], 1.0, 1.0
    observed[3, BODY_VELOCITY], observed[3, WHEEL_VELOCITY], observed[4, FORCE] = 1.0, -1.0, 1.0 / car.force_limit
    observed /= SCALES[:, None]

    def cost(gains: np.ndarray) -> float:
        return expected_cost(car, -car.force_limit * gains @ observed, time_step)

    # From a little skyhook, which is stable.
    found = minimize(cost, [0.0, -0.1, 0.0, 0.0, 0.0], method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-4})
    return np.asarray(found.x)


def expected_cost(car: QuarterCar, gain: np.ndarray, time_step: float = 0.001) -> float:
    """
    What a linear controller costs on a road whose velocity is white noise: ISO 8608's without its band limits.

    :param car: The car, without limits
    :param gain: K of the command -K x, shape (14,)
    :param time_step: Between commands, in seconds
    :return: The mean cost of a step, relative to the road's severity; infinite for an unstable controller
    """
    from scipy.linalg import solve_discrete_lyapunov

    step = car.discretise(time_step)
    closed = step[:N_STATES, :N_STATES] - np.outer(step[:N_STATES, N_STATES + 1], gain)
    if np.abs(np.linalg.eigvals(closed)).max() >= 1.0:
        return np.inf
    # The variance of a step's road velocity: its two-sided density over the step.
    variance = (2 * np.pi * REFERENCE) ** 2 * CLASSES["C"] * REFERENCE_SPEED / 2 / time_step
    noise = step[:N_STATES, N_STATES]
    covariance = solve_discrete_lyapunov(closed, variance * np.outer(noise, noise))
    q, r = cost_matrices(car)
    return float(np.trace((q + r * np.outer(gain, gain)) @ covariance))


def cost_matrices(car: QuarterCar) -> tuple[np.ndarray, np.ndarray]:
    """
    The environment's cost while the tyre is on the road: x Q x + R u^2 of the state x and the command u in N.

    :return: Q, shape (14, 14), and R, shape (1, 1)
    """
    rows = np.zeros((3, N_STATES))
    rows[0, -8:] = wk_filter()[2]
    rows[1, TRAVEL] = np.sqrt(TRAVEL_WEIGHT) / car.travel_limit
    rows[2, TYRE] = np.sqrt(TYRE_WEIGHT) * car.tyre_stiffness / car.weight
    return rows.T @ rows, np.array([[COMMAND_WEIGHT / car.force_limit**2]])
