"""What an agent does and expects in given states, whatever its algorithm."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

POINTS = 121  # a side of a slice
STRETCH = 1.5  # a slice extends this far beyond the states seen


def actions(model: BaseAlgorithm, observations: np.ndarray) -> np.ndarray:
    """
    :param model: The agent
    :param observations: Shape (B, ...)
    :return: For Discrete actions the probability of each, otherwise the deterministic action; shape (B, A)
    """
    policy: Any = model.policy  # of many possible classes
    if not isinstance(model.action_space, spaces.Discrete):
        return policy.predict(observations, deterministic=True)[0].reshape(len(observations), -1)
    if not hasattr(policy, "get_distribution"):  # DQN and similar algorithms: the greedy action
        return np.eye(int(model.action_space.n))[policy.predict(observations, deterministic=True)[0]]
    with th.no_grad():
        tensor = policy.obs_to_tensor(observations)[0]
        distribution = policy.get_distribution(tensor, *_no_memory(policy, len(observations)))
    if isinstance(distribution, tuple):  # with the memory's next state
        distribution = distribution[0]
    return distribution.distribution.probs.numpy()


@th.no_grad()
def values(model: BaseAlgorithm, observations: np.ndarray) -> np.ndarray:
    """
    :param model: The agent
    :param observations: Shape (B, ...)
    :return: The return that the agent expects, or that of its best action for an algorithm that learns Q-values; shape (B,)
    """
    policy: Any = model.policy
    tensor = policy.obs_to_tensor(observations)[0]
    if hasattr(policy, "predict_values"):
        value = policy.predict_values(tensor, *_no_memory(policy, len(observations)))[:, 0]
    else:
        value = q_values(policy, tensor, policy._predict(tensor, deterministic=True))
    return value.numpy()


def q_values(policy: Any, observations: Any, actions: th.Tensor) -> th.Tensor:
    """
    :param policy: The policy of an algorithm that learns Q-values
    :param observations: As the policy's networks take them, B of them
    :param actions: As the replay buffer has them, B of them
    :return: Shape (B,)
    """
    if isinstance(policy.action_space, spaces.Discrete):
        of_all = policy.q_net(observations) if hasattr(policy, "q_net") else policy.quantile_net(observations).mean(dim=1)
        return of_all.gather(1, actions.long().reshape(-1, 1))[:, 0]
    q = policy.critic(observations, actions)
    # Of twin critics the lower value, as in training; of quantiles the mean.
    return th.cat(q, dim=1).amin(dim=1) if isinstance(q, tuple) else q.mean(dim=(1, 2))


def _no_memory(policy: BasePolicy, n_states: int) -> tuple:
    """A recurrent policy's inputs besides observations, at the beginning of an episode."""
    lstm: Any = getattr(policy, "lstm_actor", None)
    if lstm is None:
        return ()
    zeros = th.zeros(lstm.num_layers, n_states, lstm.hidden_size)
    return (zeros, zeros), th.ones(n_states)


def influence(model: BaseAlgorithm, observations: np.ndarray) -> np.ndarray:
    """
    How much each number of an observation matters: the change in actions and values when it comes from another state.

    :param model: The agent
    :param observations: States that it has seen, shape (B, D)
    :return: Shape (D,)
    """
    shuffled = np.random.default_rng(0).permutation(observations)
    outputs = [(actions, actions(model, observations)), (values, values(model, observations)[:, None])]
    total = np.zeros(observations.shape[1])
    for dim in range(observations.shape[1]):
        other = observations.copy()
        other[:, dim] = shuffled[:, dim]
        for function, before in outputs:
            change = function(model, other).reshape(before.shape) - before
            total[dim] += np.sqrt(np.square(change).mean()) / (before.std(axis=0).mean() + 1e-8)
    return total


@dataclass(frozen=True)
class Slice:
    """
    Actions and values over two numbers of the observation, with the others fixed.

    :param dims: The two numbers' indices
    :param x: Values of the first, shape (POINTS,)
    :param y: Values of the second, shape (POINTS,)
    :param held: The observation that the others come from, shape (D,)
    :param actions: Shape (POINTS, POINTS, A), the second number first, as in pictures
    :param values: Shape (POINTS, POINTS)
    """

    dims: tuple[int, int]
    x: np.ndarray
    y: np.ndarray
    held: np.ndarray
    actions: np.ndarray
    values: np.ndarray


def cut(
    model: BaseAlgorithm, observations: np.ndarray, dims: tuple[int, int] | None = None, normalised: bool = False
) -> Slice:
    """
    :param model: The agent
    :param observations: States that it has seen, shape (B, D): they set the ranges, and their median fixes the others
    :param dims: Which two numbers; None for those of the largest influence
    :param normalised: Whether the observations are VecNormalize's, to which the space's bounds do not apply
    """
    if dims is None:
        first, second = sorted(np.argsort(influence(model, observations))[-2:].tolist())
        dims = first, second
    space = None if normalised else model.observation_space
    x, y = (_range(observations[:, dim], space, dim) for dim in dims)
    held = np.median(observations, axis=0)
    grid = np.tile(held, (POINTS, POINTS, 1)).astype(observations.dtype)
    grid[..., dims[0]], grid[..., dims[1]] = np.meshgrid(x, y)
    states = grid.reshape(-1, grid.shape[-1])
    return Slice(
        dims, x, y, held, actions(model, states).reshape(POINTS, POINTS, -1), values(model, states).reshape(POINTS, POINTS)
    )


def _range(numbers: np.ndarray, space: spaces.Space | None, dim: int) -> np.ndarray:
    low, high = np.percentile(numbers, [1, 99])
    middle, half = (low + high) / 2, max(STRETCH * (high - low) / 2, 1e-3)
    low, high = middle - half, middle + half
    if isinstance(space, spaces.Box):
        low, high = max(low, float(space.low[dim])), min(high, float(space.high[dim]))
    return np.linspace(low, high, POINTS)
