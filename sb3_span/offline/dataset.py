"""A data set of d3rlpy whose batches are drawn from arrays, not transition by transition."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from d3rlpy.dataset import BasicTransitionPicker, MDPDataset, Transition, TransitionMiniBatch


class ArrayDataset(MDPDataset):
    """
    d3rlpy's ``MDPDataset`` with the same batches in a fraction of the time: d3rlpy picks a batch of 256 in 256 steps, half as
    long as IQL's update with it.

    :param observations: Shape (N, ...), N rows of all episodes
    :param actions: Shape (N, A)
    :param rewards: Shape (N,)
    :param terminals: Shape (N,): 1 where an episode ended
    :param timeouts: Shape (N,): 1 where an episode was cut off; the last row has no next observation and is no transition
    :param kwargs: As for ``MDPDataset``
    """

    def __init__(
        self,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminals: np.ndarray,
        timeouts: np.ndarray,
        **kwargs: Any,
    ) -> None:
        super().__init__(observations, actions, rewards, terminals, timeouts, **kwargs)
        self._observations, self._actions, self._rewards = observations, actions, rewards.reshape(-1, 1)
        self._ends = terminals.astype(bool)
        self._rows = np.flatnonzero(timeouts == 0)  # the first rows of transitions, in d3rlpy's order

    def sample_transition_batch(self, batch_size: int) -> TransitionMiniBatch:
        as_picked = type(self.transition_picker) is BasicTransitionPicker
        if not as_picked or self.transition_count != len(self._rows):  # a user's picker, or episodes were added
            return super().sample_transition_batch(batch_size)
        return self.make_batch(np.random.randint(len(self._rows), size=batch_size))

    def make_batch(self, indices: np.ndarray) -> TransitionMiniBatch:
        """
        :param indices: Numbers of transitions, shape (B,)
        """
        rows = self._rows[indices]
        ends = self._ends[rows]
        following = np.where(ends, rows, rows + 1)
        next_observations, next_actions = _floats(self._observations[following]), _floats(self._actions[following])
        next_observations[ends] = 0
        next_actions[ends] = 0
        return TransitionMiniBatch(
            observations=_floats(self._observations[rows]),
            actions=_floats(self._actions[rows]),
            rewards=_floats(self._rewards[rows]),
            next_observations=next_observations,
            next_actions=next_actions,
            terminals=_floats(ends.reshape(-1, 1)),
            intervals=np.ones((len(rows), 1), dtype=np.float32),
            transitions=_Picked(self, indices),
        )


class _Picked(Sequence[Transition]):
    """The transitions of a batch, one by one: few algorithms need them."""

    def __init__(self, dataset: ArrayDataset, indices: np.ndarray) -> None:
        self._dataset, self._indices = dataset, indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> Transition: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Transition]: ...

    def __getitem__(self, place: int | slice) -> Transition | Sequence[Transition]:
        if isinstance(place, slice):
            return _Picked(self._dataset, self._indices[place])
        episode, index = self._dataset.buffer[int(self._indices[place])]
        return self._dataset.transition_picker(episode, index)


def _floats(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32, copy=False)
