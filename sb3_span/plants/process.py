"""Chemical plants as Gymnasium environments: pcgym's equations with set points, bounds, noise and reward of ours."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_span.plants.process_model import ProcessModel
from sb3_span.plants.process_plants import PLANTS, find_plant

# Observations are clipped here: 1 is the end of a state's scale.
CLIP = 3.0
TRIES = 200


class ProcessEnv(gym.Env):
    """
    A plant with set points to follow. An episode begins at rest; then the set points jump, and once more half-way.

    Observations: the states with noise, from -1 to 1 between the ends of their scales; the set points less the measured
    values, divided by the range of the set points; the last action. Actions are from -1 to 1, between the lowest and the
    highest inputs.

    The reward of a step is minus the mean squared error (in ranges of the set points), minus the share by which states are
    beyond their limits (in tenths of the limit, at most 1 each), minus ``move_cost`` times the mean square of the action's
    change.

    ``info`` has the true ``state``, the ``inputs`` and ``set_points`` in the plant's units, the true ``error`` in ranges,
    ``violated`` and ``move``.

    :param env_id: One of our ids, such as ``SPANReactor-v0``
    :param n_steps: Length of an episode
    :param noise: Standard deviation of the measurements' noise, as a share of each state's scale
    :param move_cost: Weight of the actions' changes in the reward
    :param sample_time: Time between two actions, in the plant's unit; None for the plant's own
    :param render_mode: "rgb_array" for pictures of what is controlled and its set points so far
    :param parameters: Parameters of pcgym's model, such as ``UA=4e4``
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        env_id: str,
        n_steps: int = 100,
        noise: float = 0.005,
        move_cost: float = 0.05,
        sample_time: float | None = None,
        render_mode: str | None = None,
        **parameters: float,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self.plant = find_plant(env_id)
        sample_time = self.plant.sample_time if sample_time is None else sample_time
        if not isinstance(n_steps, int) or n_steps < 2:
            raise ValueError(f"n_steps is {n_steps!r}; a whole number of at least 2 is needed.")
        for name, value, ok in (
            ("noise", noise, noise >= 0),
            ("move_cost", move_cost, move_cost >= 0),
            ("sample_time", sample_time, sample_time > 0),
        ):
            if not (ok and np.isfinite(value)):
                least = "above 0" if name == "sample_time" else "of at least 0"
                raise ValueError(f"{name} is {value!r}; a number {least} is needed.")
        self.n_steps, self.noise, self.move_cost, self.sample_time = n_steps, noise, move_cost, sample_time
        self.model = ProcessModel(self.plant, sample_time, parameters)
        plant = self.plant
        self._low, self._span = _ends(plant.states)
        self._input_low, self._input_span = _ends(plant.inputs)
        self._set_point_low, self._set_point_span = _ends(plant.set_points)
        self._controlled = np.array([plant.index(each.name) for each in plant.set_points])
        self._limited = np.array([plant.index(name) for name in plant.upper_limits])
        self._limits = np.array(list(plant.upper_limits.values()))
        size = len(plant.states) + len(plant.set_points) + len(plant.inputs)
        self.observation_space = spaces.Box(-CLIP, CLIP, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (len(plant.inputs),), np.float32)
        # In the plant's units, for controllers: what is true, what is measured, the set points that hold, the last inputs.
        self.state = self.measured = self.set_points = self.inputs = np.zeros(0)
        self._t = n_steps
        self._trace: list[tuple[np.ndarray, np.ndarray]] = []  # what is controlled and its set points, if it is drawn

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        _, self.state, self.inputs = self._draw()
        self._first, self._second = self._draw()[0], self._draw()[0]
        self.set_points, self._t = self._first, 0
        self._action = self.to_action(self.inputs)
        self._trace.clear()
        self._remember()
        return self._observe(), self._info(np.zeros(len(self._controlled)), False, 0.0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._t >= self.n_steps:
            raise ValueError("No episode is under way: call reset before the first step, and after the last.")
        if not np.isfinite(action).all():
            raise ValueError(f"The action is {np.asarray(action).tolist()}; finite numbers are needed.")
        action = _clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        self.inputs = self.to_inputs(action)
        self.state = self.model.advance(self.state, self.inputs)
        error = (self.set_points - self.state[self._controlled]) / self._set_point_span
        excess = _clip((self.state[self._limited] - self._limits) / (0.1 * self._limits), 0.0, 1.0)
        beyond, change = float(excess.sum()), action - self._action
        move = float(change @ change) / len(change)
        reward = -float(error @ error) / len(error) - beyond - self.move_cost * move
        info = self._info(error, beyond > 0, move)
        self._action = action
        self._remember()
        self._t += 1
        if self._t == self.n_steps // 2:
            self.set_points = self._second
        return self._observe(), reward, False, self._t == self.n_steps, info

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        if self.render_mode is None:
            return None
        if not self._trace:
            raise ValueError("There is nothing to draw yet: call reset first.")
        from sb3_span.plants.process_picture import draw

        values, set_points = (
            (np.array(each) - self._set_point_low) / self._set_point_span for each in zip(*self._trace, strict=True)
        )
        names = [f"{each.name}, {each.unit}" for each in self.plant.set_points]
        return draw(values, set_points, self.n_steps, names)

    def _remember(self) -> None:
        if self.render_mode is not None:
            self._trace.append((self.state[self._controlled], self.set_points))

    def to_inputs(self, action: np.ndarray) -> np.ndarray:
        """
        :param action: From -1 to 1, shape (A,)
        :return: Inputs in the plant's units, shape (A,)
        """
        return self._input_low + (_clip(action, -1.0, 1.0) + 1.0) / 2.0 * self._input_span

    def to_action(self, inputs: Any) -> np.ndarray:
        """
        :param inputs: Inputs in the plant's units, shape (A,); clipped to their bounds
        :return: The action that sets them, shape (A,)
        """
        return _clip(2.0 * (np.asarray(inputs) - self._input_low) / self._input_span - 1.0, -1.0, 1.0)

    def _draw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        :return: Set points that the plant can be kept at, with the state and the inputs that do it
        """
        for _ in range(TRIES):
            set_points = self._set_point_low + self.np_random.random(len(self._controlled)) * self._set_point_span
            if (steady := self.model.steady(set_points)) is not None:
                return set_points, *steady
        raise ValueError(
            f"{self.plant.env_id} with these parameters has no steady state within its bounds for {TRIES} set points that "
            "were drawn: use parameters nearer to pcgym's."
        )

    def _observe(self) -> np.ndarray:
        noise = self.noise * self._span * self.np_random.standard_normal(len(self.state))
        self.measured = self.state + noise
        scaled = 2.0 * (self.measured - self._low) / self._span - 1.0
        error = (self.set_points - self.measured[self._controlled]) / self._set_point_span
        return _clip(np.concatenate([scaled, error, self._action]), -CLIP, CLIP).astype(np.float32)

    def _info(self, error: np.ndarray, violated: bool, move: float) -> dict[str, Any]:
        return {
            "state": self.state,
            "inputs": self.inputs,
            "set_points": self.set_points,
            "error": error,
            "violated": violated,
            "move": move,
        }


def register() -> None:
    """Register the environments with Gymnasium, and so for the RL Zoo. This does not need pcgym."""
    for env_id in PLANTS:
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="sb3_span.plants.process:ProcessEnv",
                kwargs={"env_id": env_id},
                disable_env_checker=True,  # it would check every step, and tests do
            )


def _clip(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """``np.clip`` in less time."""
    return np.minimum(np.maximum(values, low), high)


def _ends(ranges: Any) -> tuple[np.ndarray, np.ndarray]:
    """
    :return: Lowest values and widths, shapes (n,)
    """
    return np.array([each.low for each in ranges]), np.array([each.width for each in ranges])
