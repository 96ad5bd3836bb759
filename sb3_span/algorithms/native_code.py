"""What all that is done in C has in common: the updates of the algorithms, and acting."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from sb3_span.algorithms.described import is_plain
from sb3_span.algorithms.snapshot import Snapshot
from sb3_span.nn.native import choice

try:
    extension: Any = importlib.import_module("sb3_span.algorithms.native._updates")
except ImportError:
    extension = None

NOT_FINITE = (
    "A parameter of the networks is NaN or infinite: observations, actions or rewards were not finite, or the learning rate "
    "is too high. stable_baselines3.common.vec_env.VecCheckNan finds the former."
)


class NativeCode(ABC):
    """
    A part of what an agent does, in C, on the agent's own parameters, gradients and optimizer states.

    The kernel works by a plan, which has their addresses. Parameters can be moved, converted and replaced at any time, so
    before every call it is made sure that nothing has changed; otherwise the plan is made anew.

    :param policy: The agent's policy
    """

    plan: Any = None

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        space = policy.observation_space
        self._is_vector = isinstance(space, spaces.Box) and not is_image_space(space)
        self._snapshot: Snapshot | None = None  # of what the plan was made of
        self._options: Any = None

    @abstractmethod
    def _parts(self) -> tuple[Sequence[nn.Module], Sequence[th.optim.Optimizer]]:
        """
        :return: The agent's networks and their optimizers, as they are now
        """

    @abstractmethod
    def _read_options(self) -> Any:
        """
        :return: The settings that the plan depends on; None where the kernel does not know them
        """

    @abstractmethod
    def _describe(self) -> tuple[list[th.Tensor], Callable[[], Any]] | None:
        """
        :return: All tensors that the plan has addresses of, and a function that makes it of these, or gives None; None where
            the kernel does not know the agent's networks
        """

    def prepare(self) -> bool:
        """
        Take everything as it is now.

        :return: Whether it can be done here
        """
        if self.is_ready():
            return True
        self.plan = self._snapshot = None
        can_run = extension is not None and self._is_vector and choice.IS_NATIVE and choice.nobody_watches()
        self._options = self._read_options() if can_run else None
        described = None if self._options is None else self._describe()
        if described is not None:
            tensors, make_plan = described
            self.plan = make_plan() if all(map(is_plain, tensors)) else None
            if self.plan is not None:
                self._snapshot = Snapshot(*self._parts(), tensors, extension.same)
        return self.plan is not None

    def is_ready(self) -> bool:
        """Whether there is a plan, and everything is still as it was when it was made."""
        if self.plan is None or self._snapshot is None or not choice.IS_NATIVE or not choice.nobody_watches():
            return False
        return self._snapshot.holds(*self._parts()) and self._read_options() == self._options

    def has_moved(self) -> bool:
        """Whether a tensor is no longer where the plan has it, since ``prepare``: its old memory may be somebody else's."""
        return self._snapshot is None or self._snapshot.has_moved()
