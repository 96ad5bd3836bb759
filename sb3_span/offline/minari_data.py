"""
Data sets of Minari for d3rlpy.

d3rlpy 2.8 has its own loader, ``d3rlpy.datasets.get_minari``, which must not be used: Minari stores one observation more than
actions in every episode, that loader joins them unaligned, and the observations of each further episode are one more row late.
Nothing fails, and the agent learns nonsense.
"""

import dataclasses
import re
import warnings

import gymnasium as gym
import minari
import numpy as np
from d3rlpy.constants import ActionSpace
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from minari import MinariDataset
from minari.storage import get_dataset_path

from sb3_span.offline.adroit import EPISODE_STEPS
from sb3_span.offline.dataset import ArrayDataset

# Errors from a file that is truncated or not Minari's.
DAMAGED = (OSError, KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, RuntimeError)


def load_minari(dataset_id: str, download: bool = False) -> tuple[ArrayDataset, gym.Env]:
    """
    A data set of Minari, aligned: row by row an observation, the action taken there, its reward, and whether it ended the
    episode. The observation after an episode's last action is left out, since d3rlpy cannot store it.

    :param dataset_id: For example ``"D4RL/door/expert-v2"``
    :param download: Whether to download it if it is missing
    :return: The data set, and the environment to evaluate in, with the task's own time limit
    """
    data = _open(dataset_id, download)
    _check_spaces(data)
    try:
        dataset = _align(data)
    except DAMAGED as error:
        raise ValueError(_damaged(dataset_id, error)) from error
    return dataset, _make_env(data)


def environment_id(dataset_id: str, download: bool = False) -> str:
    """
    :return: The environment that a data set was collected in, such as ``"AdroitHandDoor-v1"``
    """
    return _env_spec(_open(dataset_id, download)).id


def _open(dataset_id: str, download: bool) -> MinariDataset:
    if not re.fullmatch(r".+-v\d+", dataset_id):
        raise ValueError(f"The data set is {dataset_id!r}; a name with a version is needed, such as D4RL/door/expert-v2.")
    is_there = (get_dataset_path(dataset_id) / "data").exists()
    if not is_there and not download:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about other, damaged data sets
            known = sorted(minari.list_local_datasets())
        raise ValueError(
            f"The data set {dataset_id!r} is not in {get_dataset_path()}; there are {known}. "
            f"Download it (minari download {dataset_id}, --download, in Python download=True), or set MINARI_DATASETS_PATH to "
            "where it is."
        )
    try:
        if not is_there:
            minari.download_dataset(dataset_id)
    except Exception as error:  # network libraries may raise anything
        raise ValueError(f"The data set {dataset_id!r} could not be downloaded: {error}") from error
    try:
        return minari.load_dataset(dataset_id)
    except DAMAGED as error:
        raise ValueError(_damaged(dataset_id, error)) from error


def _damaged(dataset_id: str, error: Exception) -> str:
    return (
        f"The data set {dataset_id!r} in {get_dataset_path(dataset_id)} is damaged or incomplete ({error!r}). "
        f"Delete it and get it again: minari download {dataset_id}"
    )


def _check_spaces(data: MinariDataset) -> None:
    if not isinstance(data.observation_space, spaces.Box):
        raise ValueError(
            f"The data set {data.id!r} has {type(data.observation_space).__name__} observations; d3rlpy supports arrays. "
            "Choose another data set, or write one with flattened observations."
        )
    if not isinstance(data.action_space, spaces.Box | spaces.Discrete):
        raise ValueError(
            f"The data set {data.id!r} has {type(data.action_space).__name__} actions; d3rlpy supports Box and Discrete. "
            "Choose another data set."
        )


def _align(data: MinariDataset) -> ArrayDataset:
    observations, actions, rewards, terminals, timeouts = [], [], [], [], []
    for episode in data.iterate_episodes():
        n_steps = len(episode.rewards)
        lengths = {
            "observations": len(episode.observations) - 1,
            "actions": len(episode.actions),
            "terminations": len(episode.terminations),
            "truncations": len(episode.truncations),
        }
        for name, length in lengths.items():
            if length != n_steps:
                raise ValueError(f"episode {episode.id} has {n_steps} rewards, and {name} for {length} steps")
        ends = episode.terminations.astype(bool)
        stops = episode.truncations.astype(bool) & ~ends
        stops[-1] = not ends[-1]  # also if the recording just stopped
        observations.append(episode.observations[:-1])
        actions.append(episode.actions)
        rewards.append(episode.rewards)
        terminals.append(ends)
        timeouts.append(stops)
    total = sum(map(len, rewards))
    if len(rewards) != data.total_episodes or total != data.total_steps:
        raise ValueError(
            f"{len(rewards)} episodes with {total} steps instead of {data.total_episodes} with {data.total_steps}"
        )
    is_discrete = isinstance(data.action_space, spaces.Discrete)
    stacked = np.concatenate(observations)
    return ArrayDataset(
        observations=stacked if stacked.dtype == np.uint8 else stacked.astype(np.float32),  # images are not converted
        actions=np.concatenate(actions).reshape(total, -1).astype(np.int64 if is_discrete else np.float32),
        rewards=np.concatenate(rewards).astype(np.float32),
        terminals=np.concatenate(terminals).astype(np.float32),
        timeouts=np.concatenate(timeouts).astype(np.float32),
        action_space=ActionSpace.DISCRETE if is_discrete else ActionSpace.CONTINUOUS,
        action_size=int(data.action_space.n) if isinstance(data.action_space, spaces.Discrete) else None,
    )


def _env_spec(data: MinariDataset) -> EnvSpec:
    if data.env_spec is None:
        raise ValueError(f"The data set {data.id!r} does not name its environment, so there is none to evaluate in.")
    return data.env_spec


def _make_env(data: MinariDataset) -> gym.Env:
    """
    With the options and wrappers of the recording, but the task's time limit. (Human demonstrations of the Adroit hand are
    longer than the task's episodes.)
    """
    spec = _env_spec(data)
    try:
        known = gym.spec(spec.id)
        steps = EPISODE_STEPS.get(spec.id) or known.max_episode_steps
        options, wrappers = {**known.kwargs, **spec.kwargs}, spec.additional_wrappers
        return gym.make(dataclasses.replace(known, kwargs=options, additional_wrappers=wrappers, max_episode_steps=steps))
    except (gym.error.Error, ImportError, ValueError) as error:
        raise ValueError(
            f"The data set {data.id!r} comes from {spec.id!r}, which cannot be made: {error}. Import the package that "
            "registers it first; the Adroit hand's is gymnasium_robotics."
        ) from error
