"""
A quarter of a car: body and wheel, spring and damper, an actuator between them, a tyre on a road.

The state is [travel, body velocity, tyre deflection, wheel velocity, actuator force, integrated acceleration, 8 states of the
frequency weighting]. Heights are relative to those at rest under gravity, lengths positive when longer, forces and velocities
positive upwards on the body.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from sb3_span.plants.vibration import wk_filter

GRAVITY = 9.81
TRAVEL, BODY_VELOCITY, TYRE, WHEEL_VELOCITY, FORCE, INTEGRATED, WEIGHTING = range(7)
N_STATES = WEIGHTING + 8
# A car integrates its accelerometer with a leak, or its offset would run away.
LEAK = 2.0 * np.pi * 0.1
STEPS_PER_OSCILLATION = 20


@dataclass(frozen=True)
class QuarterCar:
    """
    :param body_mass: In kg
    :param wheel_mass: In kg
    :param spring_stiffness: In N/m
    :param damping: In Ns/m
    :param tyre_stiffness: In N/m
    :param force_limit: Of the actuator, in N
    :param actuator_bandwidth: Of the force behind the command, first order, in Hz
    :param travel_limit: Of the suspension, either way, where the stops begin, in m
    :param stop_stiffness: Of the stops, which add to the spring, in N/m
    """

    body_mass: float = 320.0
    wheel_mass: float = 40.0
    spring_stiffness: float = 18_000.0
    damping: float = 800.0
    tyre_stiffness: float = 200_000.0
    force_limit: float = 1_500.0
    actuator_bandwidth: float = 20.0
    travel_limit: float = 0.08
    stop_stiffness: float = 150_000.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("damping", "stop_stiffness"):
                if not (np.isfinite(value) and value >= 0):
                    raise ValueError(f"{field.name} is {value!r}; it must be a number of at least 0.")
            elif not (np.isfinite(value) and value > 0):
                raise ValueError(f"{field.name} is {value!r}; it must be a number above 0.")

    @property
    def weight(self) -> float:
        """The tyre's force at rest, in N."""
        return (self.body_mass + self.wheel_mass) * GRAVITY

    @cached_property
    def natural_frequencies(self) -> tuple[float, float]:
        """Of the body and of the wheel, without damping, in Hz."""
        k_s, k_t = self.spring_stiffness, self.tyre_stiffness
        stiffness = np.array([[k_s, -k_s], [-k_s, k_s + k_t]])
        squares = np.linalg.eigvals(stiffness / np.array([[self.body_mass], [self.wheel_mass]])).real
        low, high = np.sqrt(np.sort(squares)) / (2 * np.pi)
        return float(low), float(high)

    def check_time_step(
        self, time_step: float, name: str = "time_step", per_oscillation: float = STEPS_PER_OSCILLATION
    ) -> None:
        """Refuse steps that miss the wheel's oscillation."""
        longest = 1.0 / (per_oscillation * self.natural_frequencies[1])
        if not 0 < time_step <= longest:
            raise ValueError(
                f"{name} is {time_step!r} s; this car needs more than 0 and at most {longest:.2g} s, since its wheel "
                f"oscillates at {self.natural_frequencies[1]:.1f} Hz. Try 0.001."
            )

    def dynamics(self, airborne: bool = False, stop: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """
        x' = A x + B [road velocity, command, 1].

        :param airborne: Whether the tyre has left the road
        :param stop: 1 if the suspension is on its upper stop (longest), -1 if on the lower one, 0 if on neither
        :return: Shapes (14, 14), (14, 3)
        """
        a, b = np.zeros((N_STATES, N_STATES)), np.zeros((N_STATES, 3))
        between = np.zeros(N_STATES)  # force of spring, damper, stop and actuator on the body
        between[TRAVEL] = -self.spring_stiffness - abs(stop) * self.stop_stiffness
        between[BODY_VELOCITY], between[WHEEL_VELOCITY] = -self.damping, self.damping
        between[FORCE] = 1.0
        preload = stop * self.stop_stiffness * self.travel_limit
        a[TRAVEL, BODY_VELOCITY], a[TRAVEL, WHEEL_VELOCITY] = 1.0, -1.0
        a[TYRE, WHEEL_VELOCITY], b[TYRE, 0] = 1.0, -1.0
        a[BODY_VELOCITY], b[BODY_VELOCITY, 2] = between / self.body_mass, preload / self.body_mass
        a[WHEEL_VELOCITY], b[WHEEL_VELOCITY, 2] = -between / self.wheel_mass, -preload / self.wheel_mass
        if airborne:  # it does not pull: gravity is all that is left
            b[WHEEL_VELOCITY, 2] -= self.weight / self.wheel_mass
        else:
            a[WHEEL_VELOCITY, TYRE] = -self.tyre_stiffness / self.wheel_mass
        omega = 2 * np.pi * self.actuator_bandwidth
        a[FORCE, FORCE], b[FORCE, 1] = -omega, omega
        a[INTEGRATED], b[INTEGRATED] = a[BODY_VELOCITY], b[BODY_VELOCITY]
        a[INTEGRATED, INTEGRATED] -= LEAK
        weighting, of_acceleration, _ = wk_filter()
        a[WEIGHTING:, WEIGHTING:] = weighting
        a[WEIGHTING:] += np.outer(of_acceleration, a[BODY_VELOCITY])
        b[WEIGHTING:] += np.outer(of_acceleration, b[BODY_VELOCITY])
        return a, b

    def discretise(self, time_step: float, airborne: bool = False, stop: int = 0) -> np.ndarray:
        """
        One step, exact for a road velocity and a command that are constant meanwhile.

        :return: [next state, its body acceleration, its weighted acceleration] from [state, road velocity, command, 1], shape
            (16, 17)
        """
        try:  # the package without extras registers the environment, and has no scipy
            from scipy.linalg import expm
        except ImportError as error:
            raise ImportError(
                f"The quarter car needs scipy ({error}). Install it with: pip install 'sb3_span[zoo]'"
            ) from error
        a, b = self.dynamics(airborne, stop)
        generator = np.zeros((N_STATES + 3, N_STATES + 3))
        generator[:N_STATES] = np.hstack([a, b])
        step = expm(generator * time_step)[:N_STATES]
        acceleration = a[BODY_VELOCITY] @ step
        acceleration[-1] += b[BODY_VELOCITY, 2]
        return np.vstack([step, acceleration, wk_filter()[2] @ step[WEIGHTING:]])


class Motion:
    """
    The car on its way, some steps at a time. At each step the wheel may lift off or land, and the suspension reach or leave a
    stop.

    :param car: The car
    :param time_step: In seconds
    :param n_steps: How many steps a command is held
    :param state: To begin with, shape (14,); None for rest
    """

    def __init__(self, car: QuarterCar, time_step: float, n_steps: int = 1, state: np.ndarray | None = None) -> None:
        car.check_time_step(time_step)
        self.car, self._time_step, self._n_steps = car, time_step, n_steps
        self.lift_off = car.weight / car.tyre_stiffness
        self._steps: dict[tuple[bool, int], np.ndarray] = {}
        self._together = _join(self._step(False, 0), n_steps)
        # State, road velocities, command, 1.
        self._input = np.zeros(N_STATES + n_steps + 2)
        self._input[-1] = 1.0
        if state is not None:
            self._input[:N_STATES] = state

    @property
    def state(self) -> np.ndarray:
        """Shape (14,)"""
        return self._input[:N_STATES]

    def advance(self, road_velocities: np.ndarray, command: float) -> np.ndarray:
        """
        :param road_velocities: Of the height under the wheel at each step, in m/s, shape (n_steps,)
        :param command: To the actuator, in N; limited
        :return: State, body acceleration and weighted acceleration after each step, shape (n_steps, 16)
        """
        x, limit = self._input, self.car.force_limit
        x[N_STATES:-2], x[-2] = road_velocities, min(max(command, -limit), limit)
        if self._mode(x) == (False, 0):
            outputs = self._together.dot(x).reshape(self._n_steps, -1)
            # Nearly always: nothing lifts off or reaches a stop on the way.
            if outputs[:, TYRE].max() <= self.lift_off and np.abs(outputs[:, TRAVEL]).max() <= self.car.travel_limit:
                x[:N_STATES] = outputs[-1, :N_STATES]
                return outputs
        outputs = np.empty((self._n_steps, N_STATES + 2))
        for i, velocity in enumerate(road_velocities):
            outputs[i] = self._step(*self._mode(x)).dot([*x[:N_STATES], velocity, x[-2], 1.0])
            x[:N_STATES] = outputs[i, :N_STATES]
        return outputs

    def acceleration(self) -> float:
        """Of the body, now, in m/s^2."""
        a, b = self.car.dynamics(*self._mode(self._input))
        return float(a[BODY_VELOCITY] @ self.state + b[BODY_VELOCITY, 2])

    def _mode(self, state: np.ndarray) -> tuple[bool, int]:
        travel = float(state[TRAVEL])
        stop = 0 if abs(travel) <= self.car.travel_limit else 1 if travel > 0 else -1
        return bool(state[TYRE] > self.lift_off), stop

    def _step(self, airborne: bool, stop: int) -> np.ndarray:
        if (airborne, stop) not in self._steps:
            self._steps[airborne, stop] = self.car.discretise(self._time_step, airborne, stop)
        return self._steps[airborne, stop]


def _join(step: np.ndarray, n_steps: int) -> np.ndarray:
    """
    :param step: One step, shape (16, 17)
    :param n_steps: How many
    :return: The outputs of all steps from [state, road velocities, command, 1], shape (16 n_steps, 14 + n_steps + 2)
    """
    state, joined = np.eye(N_STATES, N_STATES + n_steps + 2), []
    for i in range(n_steps):
        outputs = step[:, :N_STATES] @ state
        outputs[:, [N_STATES + i, -2, -1]] += step[:, N_STATES:]
        joined.append(outputs)
        state = outputs[:N_STATES]
    return np.vstack(joined)


def tyre_force(car: QuarterCar, deflection: np.ndarray) -> np.ndarray:
    """What the tyre presses on the road less the weight, in N; minus the weight when it has lifted off."""
    return -np.minimum(car.tyre_stiffness * deflection, car.weight)
