"""What an active suspension is compared with: no force, skyhook, and the linear-quadratic regulator."""

from collections.abc import Callable

import numpy as np

from sb3_span.plants.quarter_car import INTEGRATED, N_STATES, TRAVEL, TYRE, QuarterCar
from sb3_span.plants.suspension import COMMAND_WEIGHT, TRAVEL_WEIGHT, TYRE_WEIGHT, QuarterCarEnv
from sb3_span.plants.vibration import wk_filter

# From the last observation, shape (5,), and the environment, which knows its state, to an action, shape (1,).
Controller = Callable[[np.ndarray, QuarterCarEnv], np.ndarray]


def passive(observation: np.ndarray, env: QuarterCarEnv) -> np.ndarray:
    """No force: spring and damper alone."""
    return np.zeros(1)


def skyhook(gain: float = 1_500.0) -> Controller:
    """
    A damper between the body and the sky: a force against the body's velocity, as the car measures it.

    :param gain: In Ns/m
    """

    def control(observation: np.ndarray, env: QuarterCarEnv) -> np.ndarray:
        assert env.motion is not None
        return np.array([-gain * env.motion.state[INTEGRATED] / env.car.force_limit])

    return control


def lqr(car: QuarterCar | None = None, time_step: float = 0.001) -> Controller:
    """
    The best linear controller of a car without limits, for the environment's cost. It knows the whole state, with the tyre's
    deflection and the inside of the weighting filter, which a car does not measure.

    :param car: The car that it is made for; None for the default one
    :param time_step: Between commands, in seconds
    """
    designed = car or QuarterCar()
    gain = lqr_gain(designed, time_step)[0]

    def control(observation: np.ndarray, env: QuarterCarEnv) -> np.ndarray:
        assert env.motion is not None
        return np.array([-gain @ env.motion.state / env.car.force_limit])

    return control


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
