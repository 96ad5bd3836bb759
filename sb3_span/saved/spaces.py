"""Whether an agent and an environment fit together."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def mismatch(agent: Any, env: Any, env_id: str) -> str | None:
    """
    :param agent: Any object with the agent's ``observation_space`` and ``action_space``
    :param env: Any object with the environment's
    :param env_id: The environment's name
    :return: What does not fit; None if everything does. Bounds may differ
    """
    if not same_observations(agent.observation_space, env.observation_space):
        return f"The agent observes {agent.observation_space}, and {env_id} gives {env.observation_space}."
    if not same_actions(agent.action_space, env.action_space):
        return f"The agent's actions are {agent.action_space}, and {env_id} has {env.action_space}."
    return None


def same_observations(own: spaces.Space, other: spaces.Space) -> bool:
    """Whether an agent of one space accepts observations of the other; images may have their channels first."""
    if isinstance(own, gym.spaces.Dict) and isinstance(other, gym.spaces.Dict):
        return own.keys() == other.keys() and all(same_observations(own[key], other[key]) for key in own)
    return sorted(own.shape or ()) == sorted(other.shape or ()) and _same_kind(own, other)


def same_actions(own: spaces.Space, other: spaces.Space) -> bool:
    """Whether an environment of one space accepts actions of the other."""
    return own.shape == other.shape and _same_kind(own, other)


def _same_kind(own: spaces.Space, other: spaces.Space) -> bool:
    if type(own) is not type(other):
        return False
    return all(np.array_equal(getattr(own, name, 0), getattr(other, name, 0)) for name in ("n", "nvec"))
