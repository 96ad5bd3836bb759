"""Transitions that an agent has collected, drawn from its buffer of whatever kind."""

import copy
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm


@dataclass(frozen=True)
class Transitions:
    """
    :param samples: What SB3's buffers return: a tuple of tensors, or dicts of tensors, of B rows
    """

    samples: Any

    def __len__(self) -> int:
        return len(self.samples.actions)

    @property
    def observations(self) -> Any:
        return self.samples.observations

    @property
    def actions(self) -> th.Tensor:
        return self.samples.actions

    def take(self, rows: list[int] | slice) -> "Transitions":
        def pick(item: Any) -> Any:
            if isinstance(item, dict):
                return {key: value[rows] for key, value in item.items()}
            return None if item is None else item[rows]

        return Transitions(type(self.samples)(*map(pick, self.samples)))

    def keys(self) -> list[bytes]:
        """For each row its state and action, to compare."""
        states = self.observations.values() if isinstance(self.observations, dict) else [self.observations]
        columns = [tensor.flatten(start_dim=1).cpu().numpy() for tensor in (*states, self.actions.reshape(len(self), -1))]
        return [b"".join(column[row].tobytes() for column in columns) for row in range(len(self))]

    def split(self, batch_size: int) -> tuple["Transitions", "Transitions"]:
        """
        :param batch_size: Number of rows of the first part
        :return: A batch, and the other rows, without states and actions that are in the batch
        """
        keys = self.keys()
        known = set(keys[:batch_size])
        return self.take(slice(batch_size)), self.take([row for row, key in enumerate(keys) if key not in known])


def n_collected(model: BaseAlgorithm) -> int:
    """How many transitions there are to draw from."""
    own: Any = model
    if isinstance(model, OnPolicyAlgorithm):
        buffer = own.rollout_buffer
        return buffer.buffer_size * buffer.n_envs if buffer.full else 0
    return 0 if own.replay_buffer is None else own.replay_buffer.size() * own.n_envs


def draw(model: BaseAlgorithm, n: int) -> Transitions:
    """
    :param model: The agent, whose buffer does not change
    :param n: How many; a rollout may have fewer
    """
    own: Any = model
    if isinstance(model, OnPolicyAlgorithm):
        # A rollout changes its shape when it is read.
        return Transitions(next(copy.deepcopy(own.rollout_buffer).get(None))).take(slice(n))
    return Transitions(own.replay_buffer.sample(n, env=own._vec_normalize_env))


def batch_size_of(model: BaseAlgorithm, n: int) -> int:
    """
    :param n: Number of transitions to be split into a batch and others
    :return: The agent's own batch size, or half of them if it would leave no others (A2C learns from whole rollouts)
    """
    own = getattr(model, "batch_size", None)
    return max(1, min(own or n, n // 2))
