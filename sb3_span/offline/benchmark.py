"""What ``sb3-span speed`` measures offline: the time of an update of IQL, and of its evaluation one by one and together."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import yaml

from sb3_span.offline import evaluate, make_config
from sb3_span.offline.adroit import EPISODE_STEPS
from sb3_span.offline.dataset import ArrayDataset
from sb3_span.offline.evaluation import make_envs
from sb3_span.speed.timing import take_turns
from sb3_span.speed.training import drift_scales

ENVIRONMENTS = tuple(EPISODE_STEPS)
N_EPISODES = 20
ROWS = 20_000


def time_updates(hyperparams: Path, env_id: str, rounds: int) -> dict[str, Any]:
    """
    Batches of random numbers, from a data set as large as an expert's: the values do not change the time.

    :param hyperparams: Folder with ``offline_span.yml`` and ``offline_mlp.yml``
    :param env_id: An environment of the Adroit hand
    :param rounds: Rounds to measure
    :return: One row of the table
    """
    dataset = _random_dataset(env_id)
    agents = {method: _make_agent(hyperparams, method, env_id, dataset) for method in ("span", "mlp")}
    contenders = {method: partial(_update, agent, dataset) for method, agent in agents.items()}
    timings = take_turns(contenders, rounds, calls=20)
    lower, middle, upper = timings["span"].quartiles(timings["mlp"])
    return {
        "environment": env_id,
        "algorithm": "IQL",
        "span_us": 1e6 * timings["span"].median,
        "mlp_us": 1e6 * timings["mlp"].median,
        "ratio": middle,
        "ratio_lower": lower,
        "ratio_upper": upper,
        "rounds": rounds,
    }


def time_evaluation(hyperparams: Path, rounds: int) -> dict[str, Any]:
    """
    :param hyperparams: Folder with ``offline_span.yml``
    :param rounds: Rounds to measure
    :return: Seconds for episodes of the door, played one by one and together
    """
    env_id = ENVIRONMENTS[0]
    agent = _make_agent(hyperparams, "span", env_id, _random_dataset(env_id))
    envs = make_envs(gym.make(env_id), N_EPISODES)
    contenders = {
        "alone": partial(evaluate, agent, envs[:1], N_EPISODES, 0),
        "together": partial(evaluate, agent, envs, N_EPISODES, 0),
    }
    timings = take_turns(contenders, rounds)
    for env in envs:
        env.close()
    lower, middle, upper = timings["together"].quartiles(timings["alone"])
    return {
        "environment": env_id,
        "episodes": N_EPISODES,
        "one_by_one_s": timings["alone"].median,
        "together_s": timings["together"].median,
        "ratio": middle,
        "ratio_lower": lower,
        "ratio_upper": upper,
    }


def _make_agent(hyperparams: Path, method: str, env_id: str, dataset: ArrayDataset) -> Any:
    entry = yaml.safe_load((hyperparams / f"offline_{method}.yml").read_text())[env_id]
    agent = make_config(entry).create(device="cpu:0")
    agent.build_with_dataset(dataset)
    for part in (agent.impl.modules.policy, agent.impl.modules.value_func, agent.impl.q_function):
        drift_scales(part)
    return agent


def _update(agent: Any, dataset: ArrayDataset) -> None:
    agent.update(dataset.sample_transition_batch(agent.batch_size))


def _random_dataset(env_id: str) -> ArrayDataset:
    env = gym.make(env_id)
    assert env.observation_space.shape is not None and env.action_space.shape is not None
    generator = np.random.default_rng(0)
    observations = generator.normal(size=(ROWS, *env.observation_space.shape)).astype(np.float32)
    actions = generator.uniform(-1, 1, size=(ROWS, *env.action_space.shape)).astype(np.float32)
    env.close()
    timeouts = (np.arange(1, ROWS + 1) % EPISODE_STEPS[env_id] == 0).astype(np.float32)
    return ArrayDataset(observations, actions, np.zeros(ROWS, dtype=np.float32), np.zeros(ROWS, dtype=np.float32), timeouts)
