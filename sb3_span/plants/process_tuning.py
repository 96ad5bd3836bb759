"""
Tune the PID controllers by differential evolution (scipy):

    python -m sb3_span.plants.process_tuning

prints the gains that process_controllers.py has: those with the highest mean return over five episodes, which no evaluation
has.
"""

import numpy as np
from scipy.optimize import differential_evolution

from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import PID
from sb3_span.plants.process_episodes import play
from sb3_span.plants.process_plants import PLANTS

EPISODES = range(1000, 1005)
# Of the logarithms of Kp, Ki and Kd.
BOUNDS = [(-1.5, 1.5), (-3.0, 0.5), (-3.0, 1.5)]
GENERATIONS = 10


def tune(env: ProcessEnv, generations: int = GENERATIONS) -> tuple[np.ndarray, float, int]:
    """
    :param generations: Of the search; the first one is random
    :return: The gains, shape (A, 3), their mean return, and how many were tried
    """

    def cost(logarithms: np.ndarray) -> float:
        controller = PID(10.0 ** logarithms.reshape(-1, 3))
        return -float(np.mean([play(env, controller, seed).rewards.sum() for seed in EPISODES]))

    n_inputs = len(env.plant.inputs)
    found = differential_evolution(
        cost, BOUNDS * n_inputs, maxiter=generations, popsize=8 // n_inputs, init="sobol", seed=0, polish=False
    )
    return 10.0 ** found.x.reshape(-1, 3), -float(found.fun), int(found.nfev)


if __name__ == "__main__":
    for env_id in PLANTS:
        gains, mean_return, tried = tune(ProcessEnv(env_id))
        rows = ", ".join(f"({', '.join(f'{gain:.3g}' for gain in each)})" for each in gains)
        print(f'    "{env_id}": ({rows},),  # {tried} tried, return {mean_return:.3f}')
