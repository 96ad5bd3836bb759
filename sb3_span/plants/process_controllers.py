"""What agents are compared with: fixed inputs, a tuned PID controller, and pcgym's nonlinear model predictive controller."""

import warnings
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_span.plants.process import ProcessEnv

# Kp, Ki, Kd of each input: of actions by errors in ranges of the set points, Ki and Kd by steps. Found by process_tuning.py.
PID_GAINS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "SPANReactor-v0": ((2.19, 0.0578, 17.8),),
    "SPANExtraction-v0": ((0.796, 0.527, 0.055), (0.931, 0.457, 0.00704)),
    "SPANFourTanks-v0": ((1.73, 0.133, 0.23), (1.51, 0.112, 0.041)),
}


class Controller(Protocol):
    """From what an environment has at a step to an action."""

    def reset(self, env: ProcessEnv) -> None:
        """At the beginning of an episode."""

    def act(self, observation: np.ndarray, env: ProcessEnv) -> np.ndarray:
        """
        :param observation: The agent's observation, shape (D,)
        :param env: The environment, with the measured values in units
        :return: From -1 to 1, shape (A,)
        """
        ...


class Fixed:
    """The inputs that keep the plant in the middle of its set points' ranges."""

    def reset(self, env: ProcessEnv) -> None:
        middle = np.array([(each.low + each.high) / 2 for each in env.plant.set_points])
        steady = env.model.steady(middle)
        assert steady is not None  # the model was refused otherwise
        self._action = env.to_action(steady[1])

    def act(self, observation: np.ndarray, env: ProcessEnv) -> np.ndarray:
        return self._action


class Agent:
    """A trained agent, without noise."""

    def __init__(self, model: BaseAlgorithm) -> None:
        self._model = model

    def reset(self, env: ProcessEnv) -> None:
        pass

    def act(self, observation: np.ndarray, env: ProcessEnv) -> np.ndarray:
        return self._model.predict(observation, deterministic=True)[0]


class PID:
    """
    One controller for each input, of the measured error that it is paired with; the derivative is that of the measured value,
    smoothed over two steps. The integral stops where the input is at its bound.

    :param gains: Kp, Ki and Kd of each input, all positive, shape (A, 3); None for the tuned ones
    """

    def __init__(self, gains: Any = None) -> None:
        self._given = gains

    def reset(self, env: ProcessEnv) -> None:
        gains = np.array(PID_GAINS[env.plant.env_id] if self._given is None else self._given)
        self._p, self._i, self._d = (gains * np.array(env.plant.directions)[:, None]).T
        self._pairs = list(env.plant.pairing)
        self._integral = env.to_action(env.inputs)  # the plant is at rest
        self._before, self._slope = self._values(env), np.zeros(len(self._pairs))

    def act(self, observation: np.ndarray, env: ProcessEnv) -> np.ndarray:
        values = self._values(env)
        error = (env.set_points[self._pairs] - self._offset(env)) / self._width(env) - values
        self._slope = (self._slope + values - self._before) / 2.0
        self._before = values
        proportional = self._p * error - self._d * self._slope
        integral = self._integral + self._i * error
        action = proportional + integral
        # Further integration only where it leads away from the bound.
        held = (np.abs(action) > 1.0) & (action * self._i * error > 0)
        self._integral = np.where(held, self._integral, integral)
        return np.clip(proportional + self._integral, -1.0, 1.0)

    def _values(self, env: ProcessEnv) -> np.ndarray:
        measured = np.array([env.measured[env.plant.index(env.plant.set_points[pair].name)] for pair in self._pairs])
        return (measured - self._offset(env)) / self._width(env)

    def _offset(self, env: ProcessEnv) -> np.ndarray:
        return np.array([env.plant.set_points[pair].low for pair in self._pairs])

    def _width(self, env: ProcessEnv) -> np.ndarray:
        return np.array([env.plant.set_points[pair].width for pair in self._pairs])


class NMPC:
    """
    pcgym's oracle (do-mpc, IPOPT) in a closed loop with the environment: it knows the equations, the true state and the
    reward, but not the next set points, and keeps states below their limits.

    Three things of pcgym 0.1.8 are put right: its set points lag one step behind and begin with the episode's last; its weight
    of the inputs' changes also pulls the inputs to zero; it simulates an undisturbed plant of its own.

    :param env: The environment; its parameters are known to the controller
    :param horizon: Steps that are planned ahead
    """

    def __init__(self, env: ProcessEnv, horizon: int = 20) -> None:
        from pcgym.oracle import oracle

        plant, n_states = env.plant, len(env.plant.states)
        model = SimpleOde(env)
        described = SimpleNamespace(
            model=model,
            Nu=len(plant.inputs),
            Nd_model=0,
            Nx_oracle=n_states,
            N=env.n_steps,
            dt=env.sample_time,
            tsim=env.n_steps * env.sample_time,
            SP={each.name: [0.0] for each in plant.set_points},
        )
        weights = np.zeros(n_states)
        for each in plant.set_points:
            weights[plant.index(each.name)] = 1.0 / (each.width**2 * len(plant.set_points))
        low, high = (np.array([getattr(each, end) for each in plant.inputs]) for end in ("low", "high"))
        options = {
            "x0": np.zeros(n_states),
            "SP": described.SP,
            "a_space": {"low": low, "high": high},
            "constraints": {name: [limit] for name, limit in plant.upper_limits.items()},
            "cons_type": {name: ["<="] for name in plant.upper_limits},
        }
        planner = oracle(described, options, {"N": horizon, "Q": np.diag(weights)})
        # After __init__, which has made R_sym of it, the weight of the inputs themselves: now it weighs their changes alone.
        planner.R = np.diag(env.move_cost * (2.0 / (high - low)) ** 2 / len(plant.inputs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of CasADi and do-mpc, about each other
            self._mpc, _ = planner.setup_mpc()
        self._parameters = self._mpc.get_p_template(1)
        self._mpc.p_fun = lambda time: self._parameters

    def reset(self, env: ProcessEnv) -> None:
        self._mpc.reset_history()
        self._mpc.x0, self._mpc.u0 = env.state, env.inputs
        self._mpc.set_initial_guess()

    def act(self, observation: np.ndarray, env: ProcessEnv) -> np.ndarray:
        self._parameters["_p", 0, "SP"] = env.set_points
        return env.to_action(self._mpc.make_step(env.state.reshape(-1, 1)).ravel())


class SimpleOde:
    """A plant's equations in the form that pcgym's oracle asks for."""

    def __init__(self, env: ProcessEnv) -> None:
        self._env = env

    def __call__(self, x: Any, u: Any) -> list[Any]:
        rhs = self._env.model.rhs(x, u)
        return [rhs[i] for i in range(len(self._env.plant.states))]

    def info(self) -> dict[str, Any]:
        return {"states": [each.name for each in self._env.plant.states]}
