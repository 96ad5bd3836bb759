"""An active suspension as a Gymnasium environment: a quarter car on random roads, a force between body and wheel."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_span.plants.quarter_car import (
    BODY_VELOCITY,
    FORCE,
    INTEGRATED,
    N_STATES,
    TRAVEL,
    TYRE,
    WHEEL_VELOCITY,
    Motion,
    QuarterCar,
    tyre_force,
)
from sb3_span.plants.roads import check_road, make_road, severity

ENV_ID = "QuarterCar-v0"
ACCELERATION, WEIGHTED = N_STATES, N_STATES + 1
NAMES = ("body acceleration", "body velocity", "travel", "travel velocity", "force")
# What is 1 in an observation, but for the force: m/s^2, m/s, m, m/s.
SCALES = np.array([2.0, 0.1, 0.02, 0.2, 1.0], np.float32)
CLIP = 10.0
# The cost: the squares of the weighted acceleration in m/s^2 and, times these, of the travel relative to its limit, of the
# tyre's force relative to the weight, of the command relative to the force limit.
TRAVEL_WEIGHT, TYRE_WEIGHT, COMMAND_WEIGHT = 2.0, 3.0, 0.02


class QuarterCarEnv(gym.Env):
    """
    A quarter car whose actuator is commanded at a steady rate. An episode is a drive of some seconds; it ends by truncation.

    Each episode draws a road, a body mass and a speed from those given. Observations, of order one: body acceleration, its
    integral (with a leak), travel and travel velocity of the suspension, the actuator's force. A car measures those. It does
    not measure the tyre's deflection, the road ahead, or the body's mass. Actions from -1 to 1 are shares of the force limit.

    The reward is minus the mean cost during the step: the square of the body acceleration as ISO 2631-1 weights it, of the
    travel, of the tyre's force and of the command. It is relative to the road's severity, so that a smooth road counts as much
    as a rough one.

    :param road: ISO 8608's classes "A" to "E", or "bump"; several to draw from
    :param body_mass: In kg; a number, or the lowest and the highest
    :param speed: In m/s; a number, or the lowest and the highest
    :param seconds: Duration of an episode
    :param time_step: Of the simulation, in seconds
    :param substeps: How many of them a command is held: 10 are 100 Hz, 1 is 1 kHz
    :param render_mode: "rgb_array" for pictures of the car, with the actuator's force as a line beside it
    :param car: Further parameters of :class:`~sb3_span.plants.quarter_car.QuarterCar`, such as ``damping``
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}

    def __init__(
        self,
        road: str | Sequence[str] = ("C", "D"),
        body_mass: float | tuple[float, float] = (260.0, 380.0),
        speed: float | tuple[float, float] = (15.0, 25.0),
        seconds: float = 5.0,
        time_step: float = 0.001,
        substeps: int = 10,
        render_mode: str | None = None,
        **car: float,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self.roads = (road,) if isinstance(road, str) else tuple(road)
        if not self.roads:
            raise ValueError("road is empty; name at least one.")
        for each in self.roads:
            check_road(each)
        self._body_mass, self._speed = _range("body_mass", body_mass), _range("speed", speed)
        if not isinstance(substeps, int) or substeps < 1:
            raise ValueError(f"substeps is {substeps!r}; it must be an integer of at least 1.")
        self._parameters = car
        for mass in self._body_mass:
            checked = QuarterCar(body_mass=mass, **car)
            checked.check_time_step(time_step)
            checked.check_time_step(time_step * substeps, "The time between commands, time_step * substeps,", 2)
        self.time_step, self.substeps = time_step, substeps
        self.n_steps = round(seconds / (time_step * substeps)) if np.isfinite(seconds) else 0
        if self.n_steps < 1:
            raise ValueError(f"seconds is {seconds!r}; an episode must last at least one command, {time_step * substeps:g} s.")
        self.observation_space = spaces.Box(-CLIP, CLIP, (len(NAMES),), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.motion: Motion | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.road = self.roads[self.np_random.integers(len(self.roads))]
        self.speed = float(self.np_random.uniform(*self._speed))
        self.car = QuarterCar(body_mass=float(self.np_random.uniform(*self._body_mass)), **self._parameters)
        self.motion = Motion(self.car, self.time_step, self.substeps)
        self.heights = make_road(self.road, self.speed, self.time_step, self.n_steps * self.substeps, self.np_random)
        self._velocities = (np.diff(self.heights) / self.time_step).reshape(self.n_steps, self.substeps)
        self._severity = severity(self.road, self.speed)
        self._step = 0
        return self._observe(self.motion.state, self.motion.acceleration()), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.motion is None or self._step >= self.n_steps:
            raise ValueError("No drive is under way: call reset before the first step, and after the last.")
        car, share = self.car, min(max(float(action[0]), -1.0), 1.0)
        outputs = self.outputs = self.motion.advance(self._velocities[self._step], share * car.force_limit)
        self._step += 1
        weighted, travel = outputs[:, WEIGHTED], outputs[:, TRAVEL] / car.travel_limit
        force = tyre_force(car, outputs[:, TYRE]) / car.weight
        cost = weighted.dot(weighted) + TRAVEL_WEIGHT * travel.dot(travel) + TYRE_WEIGHT * force.dot(force)
        reward = -float(cost / self.substeps + COMMAND_WEIGHT * share**2) / self._severity
        return self._observe(outputs[-1], outputs[-1, ACCELERATION]), reward, False, self._step >= self.n_steps, {}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        if self.render_mode is None:
            return None
        if self.motion is None:
            raise ValueError("There is nothing to draw yet: call reset first.")
        from sb3_span.plants.suspension_picture import draw

        state, now = self.motion.state, self._step * self.substeps
        return draw(self.heights, now, self.speed * self.time_step, state, state[FORCE] / self.car.force_limit)

    def _observe(self, state: np.ndarray, acceleration: float) -> np.ndarray:
        travel_velocity = state[BODY_VELOCITY] - state[WHEEL_VELOCITY]
        readings = (acceleration, state[INTEGRATED], state[TRAVEL], travel_velocity, state[FORCE] / self.car.force_limit)
        observation = np.array(readings, np.float32) / SCALES
        return np.clip(observation, -CLIP, CLIP, out=observation)


def register() -> None:
    """Register the environment with Gymnasium, and so for the RL Zoo."""
    if ENV_ID not in gym.registry:
        gym.register(ENV_ID, entry_point="sb3_span.plants.suspension:QuarterCarEnv")


def _range(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    """A number, or the lowest and the highest, as two numbers."""
    ends = np.array([value, value] if np.isscalar(value) else value, dtype=float)
    if ends.shape != (2,) or not (np.isfinite(ends).all() and 0 < ends[0] <= ends[1]):
        raise ValueError(f"{name} is {value!r}; it must be a number above 0, or two: the lowest and the highest.")
    return float(ends[0]), float(ends[1])
