"""Episodes of a controller, and what is measured of them."""

from dataclasses import dataclass

import numpy as np

from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import Controller

# At the end of each set point, for the offset that remains.
SETTLED = 10


@dataclass(frozen=True)
class Episode:
    """
    :param rewards: Of each step, shape (T,)
    :param errors: True errors after each step in ranges of the set points, shape (T, A)
    :param controlled: True values after each step in the plant's units, shape (T, A)
    :param set_points: Those that held, shape (T, A)
    :param inputs: Shape (T, A)
    :param moves: Mean squares of the actions' changes, shape (T,)
    :param violated: Steps that ended with a state beyond its limit, shape (T,)
    """

    rewards: np.ndarray
    errors: np.ndarray
    controlled: np.ndarray
    set_points: np.ndarray
    inputs: np.ndarray
    moves: np.ndarray
    violated: np.ndarray

    def measures(self) -> dict[str, float]:
        """
        The return; the integral of the squared error (ISE: ranges squared, summed over the steps, mean of the set points); the
        mean error of the last ten steps before each change, in ranges; steps with a violation; the sum of squared moves.
        """
        half = len(self.rewards) // 2
        settled = np.concatenate([self.errors[max(0, half - SETTLED) : half], self.errors[-SETTLED:]])
        return {
            "return": float(self.rewards.sum()),
            "ise": float((self.errors**2).mean(axis=1).sum()),
            "offset": float(np.abs(settled).mean()),
            "violations": float(self.violated.sum()),
            "moves": float(self.moves.sum()),
        }


def play(env: ProcessEnv, controller: Controller, seed: int) -> Episode:
    """
    :param seed: Of the environment: the same set points and noise for every controller
    """
    observation, _ = env.reset(seed=seed)
    controller.reset(env)
    rows, is_over = [], False
    controlled = [env.plant.index(each.name) for each in env.plant.set_points]
    while not is_over:
        set_points = env.set_points
        observation, reward, _, is_over, info = env.step(controller.act(observation, env))
        rows.append(
            (reward, info["error"], info["state"][controlled], set_points, info["inputs"], info["move"], info["violated"])
        )
    return Episode(*(np.array(column) for column in zip(*rows, strict=True)))
