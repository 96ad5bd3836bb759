"""
The scores of a policy that acts at random: the zero of normalised scores.

    python -m sb3_span.scores.random_scores

plays the paper's environments with uniformly random actions and writes ``data/random_scores.csv``. The same packages give the
same file.
"""

import csv
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sb3_span.scores.references import RANDOM_SCORES, known_environments

EPISODES, SEED = 1000, 0


def random_returns(env_id: str, episodes: int, seed: int) -> np.ndarray:
    """
    :param episodes: How many episodes to play
    :param seed: Seed of the actions and of the first episode; each further episode has the next one
    :return: The return of each episode, shape (episodes,)
    """
    env = gym.make(env_id)
    env.action_space.seed(seed)
    returns = np.zeros(episodes)
    for episode in range(episodes):
        env.reset(seed=seed + episode)
        done = False
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns[episode] += float(reward)
            done = terminated or truncated
    env.close()
    return returns


def measure(env_id: str, episodes: int, seed: int) -> dict[str, Any]:
    returns = random_returns(env_id, episodes, seed)
    return {
        "env": env_id,
        "mean_return": f"{returns.mean():.4f}",
        "std_return": f"{returns.std(ddof=1):.4f}",
        "episodes": episodes,
        "seed": seed,
        "gymnasium": version("gymnasium"),
        "mujoco": version("mujoco"),
    }


def main() -> None:
    rows = []
    for env_id in known_environments():
        rows.append(measure(env_id, EPISODES, SEED))
        print(f"{env_id}: {rows[-1]['mean_return']} +- {rows[-1]['std_return']}")
    with Path(str(RANDOM_SCORES)).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
