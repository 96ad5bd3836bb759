"""
A plant's equations, which are pcgym's, compiled by CasADi: a sample time's change, steady states.

pcgym builds a new integrator at every step; here the same equations are integrated by a fixed number of Runge-Kutta steps,
built once.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from sb3_span.plants.process_plants import Plant

# The longest step of the integrator, in time constants of the fastest mode. Beyond 2.8 it would be unstable.
LONGEST_STEP = 0.5


class ProcessModel:
    """
    :param plant: What to simulate
    :param sample_time: Time between two actions
    :param parameters: Parameters of pcgym's model that differ from its own
    """

    def __init__(self, plant: Plant, sample_time: float, parameters: dict[str, float]) -> None:
        casadi, model_class = _import(plant)
        _check_parameters(plant, model_class, parameters)
        self.plant, self.sample_time = plant, sample_time
        self.equations = model_class(int_method="casadi", **parameters)  # pcgym's model: symbols in, a list of symbols out
        n_states, n_inputs = len(plant.states), len(plant.inputs)
        x, u = casadi.SX.sym("x", n_states), casadi.SX.sym("u", n_inputs)
        rhs = self.rhs(x, u)
        derivative = casadi.Function("derivative", [x, u], [rhs])
        self._derivative = Compiled(derivative, n_states)

        step, after = sample_time / plant.substeps, x
        for _ in range(plant.substeps):
            k1 = derivative(after, u)
            k2 = derivative(after + step / 2 * k1, u)
            k3 = derivative(after + step / 2 * k2, u)
            k4 = derivative(after + step * k3, u)
            after = after + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        self._advance = Compiled(casadi.Function("advance", [x, u], [after]), n_states)

        z, set_points = casadi.vertcat(x, u), casadi.SX.sym("set_points", n_inputs)
        controlled = casadi.vertcat(*(x[plant.index(each.name)] for each in plant.set_points))
        equations = {"x": z, "p": set_points, "g": casadi.vertcat(rhs, controlled - set_points)}
        self._root = casadi.rootfinder("steady", "newton", equations, {"error_on_fail": False})
        self._jacobian = casadi.Function("jacobian", [x, u], [casadi.jacobian(rhs, x)])
        self._check_step(step)

    def rhs(self, x: Any, u: Any) -> Any:
        """
        The equations in symbols, for CasADi.

        :param x: States, shape (D, 1)
        :param u: Inputs, shape (A, 1)
        """
        casadi, _ = _import(self.plant)
        if self.plant.floor is not None:
            x = casadi.fmax(x, self.plant.floor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pcgym calls numpy's functions with CasADi's symbols
            return casadi.vertcat(*self.equations(x, u))

    def derivative(self, state: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """
        :param state: Shape (D,)
        :param inputs: Shape (A,)
        :return: Change of the state in a unit of time, shape (D,)
        """
        return self._derivative(state, inputs)

    def advance(self, state: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """
        :return: The state after a sample time with these inputs, shape (D,)
        """
        after = self._advance(state, inputs)
        if not math.isfinite(after.sum()):
            raise FloatingPointError(
                f"The state of {self.plant.env_id} is no longer finite after inputs of {inputs.tolist()}: its equations are "
                "too fast for the integrator. Use a shorter sample_time, or parameters nearer to pcgym's."
            )
        return after if self.plant.floor is None else np.maximum(after, self.plant.floor)

    def steady(self, set_points: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """
        :param set_points: Shape (A,)
        :return: The state and the inputs with which nothing changes, shapes (D,) and (A,); None if the inputs cannot do that
        """
        solution = np.array(self._root(self.plant.guess, set_points)).ravel()
        state, inputs = np.split(solution, [len(self.plant.states)])
        scale = np.array([each.width for each in self.plant.states])
        if not np.isfinite(solution).all() or np.abs(self.derivative(state, inputs) / scale).max() * self.sample_time > 1e-6:
            return None
        allowed = all(each.low <= value <= each.high for each, value in zip(self.plant.inputs, inputs, strict=True))
        below = all(state[self.plant.index(name)] <= limit for name, limit in self.plant.upper_limits.items())
        return (state, inputs) if allowed and below else None

    def _check_step(self, step: float) -> None:
        """Refuse a step that is too long for the plant in the middle of its range."""
        middle = np.array([(each.low + each.high) / 2 for each in self.plant.set_points])
        steady = self.steady(middle)
        if steady is None:
            raise ValueError(
                f"{self.plant.env_id} cannot be kept at set points of {middle.tolist()} with these parameters: no inputs "
                "within their bounds have that steady state below the limits. Use parameters nearer to pcgym's."
            )
        fastest = np.abs(np.linalg.eigvals(np.array(self._jacobian(*steady)))).max()
        if fastest * step > LONGEST_STEP:
            longest = self.sample_time * LONGEST_STEP / (fastest * step)
            raise ValueError(
                f"A sample_time of {self.sample_time:g} {self.plant.time_unit} makes the integration of {self.plant.env_id} "
                f"inaccurate and then unstable: with these parameters at most {longest:.3g} {self.plant.time_unit} is allowed."
            )


class Compiled:
    """A function of CasADi of states and inputs, called with arrays that it reads in place, which is quicker."""

    def __init__(self, function: Any, n_states: int) -> None:
        self._state, self._inputs = np.zeros(n_states), np.zeros(function.size1_in(1))
        self._result = np.zeros(n_states)
        self._buffer, self._evaluate = function.buffer()
        self._buffer.set_arg(0, self._state.data)
        self._buffer.set_arg(1, self._inputs.data)
        self._buffer.set_res(0, self._result.data)

    def __call__(self, state: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        self._state[:], self._inputs[:] = state, inputs
        self._evaluate()
        return self._result.copy()


def _import(plant: Plant) -> tuple[Any, Callable[..., Any]]:
    """
    :return: CasADi, and pcgym's class of the model
    """
    try:
        import casadi
        from pcgym import model_classes
    except ImportError as error:
        raise ImportError(f"{plant.env_id} needs pcgym ({error}): pip install 'sb3_span[process]'") from error
    return casadi, getattr(model_classes, plant.model)


def _check_parameters(plant: Plant, model_class: Any, parameters: dict[str, float]) -> None:
    own = {field.name: field.default for field in dataclasses.fields(model_class) if isinstance(field.default, int | float)}
    for name, value in parameters.items():
        if name not in own:
            raise ValueError(f"{plant.env_id} has no parameter {name!r}; its model has {sorted(own)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or value * own[name] <= 0:
            sign = "positive" if own[name] > 0 else "negative"
            raise ValueError(f"{name} of {plant.env_id} is {value!r}; a {sign} number is needed, such as {own[name]:g}.")
