"""What the native updates of all algorithms have in common."""

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from sb3_span.algorithms.described import is_plain
from sb3_span.algorithms.snapshot import Snapshot
from sb3_span.nn.native import choice
from sb3_span.policies.options import SPANOptions

try:
    extension: Any = importlib.import_module("sb3_span.algorithms.native._updates")
except ImportError:
    extension = None

NOT_FINITE = (
    "A parameter of the networks is NaN or infinite: observations, actions or rewards were not finite, or the learning rate "
    "is too high. stable_baselines3.common.vec_env.VecCheckNan finds the former."
)


class NativeUpdate(ABC):
    """
    The update of an agent in C, on the agent's own parameters, gradients and optimizer states.

    The kernel works by a plan, which has their addresses. Parameters can be moved, converted and replaced at any time, so
    before every update it is made sure that nothing has changed; otherwise the plan is made anew.

    :param agent: The agent
    """

    plan: Any = None

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.policy: Any = agent.policy
        space = agent.observation_space
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

        :return: Whether the update can be done here
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


class WithNativeUpdate(BaseAlgorithm):
    """Mixed into an algorithm of SB3, in front of it. The native update is made anew for a new policy, and never saved."""

    native_class: type[NativeUpdate]
    _native: NativeUpdate | None = None

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[safe-super]
        if self.device.type != "cpu" and extension is not None and isinstance(self.policy, SPANOptions):
            name = type(self).__name__
            warnings.warn(
                f"The networks are on {self.device}, and sb3_span.{name} updates them in C on the CPU only: there it is SB3's "
                f"own {name}, which takes several times as long for networks this small. Give device='cpu'.",
                stacklevel=2,
            )

    def _prepare_native(self) -> Any:
        """
        :return: The native update, ready; None where SB3's own has to do it
        """
        if self._native is None or self._native.policy is not self.policy:
            self._native = self.native_class(self)
        return self._native if self._native.prepare() else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_native"}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_native"]
