"""What all plans have in common: native code for a part of what an agent does, on the agent's own tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from sb3_span.algorithms.extension import extension
from sb3_span.algorithms.guard import Guard
from sb3_span.nn.checks import Unsupported, check_native

NOT_FINITE = (
    "A parameter of the networks is NaN or infinite: observations, actions or rewards were not finite, or the learning rate "
    "is too high. stable_baselines3.common.vec_env.VecCheckNan finds the former."
)


class Plan:
    """
    Native code works by addresses. A plan has them, keeps the tensors alive, and knows whether they are still the agent's.

    :param kernel: What the extension has made of it
    :param networks: The modules it is made of, with all that is in them
    :param optimizers: Their optimizers
    :param tensors: All tensors whose addresses the kernel has
    """

    def __init__(
        self,
        kernel: Any,
        networks: Sequence[nn.Module],
        optimizers: Sequence[th.optim.Optimizer],
        tensors: Sequence[th.Tensor],
    ) -> None:
        self.kernel = kernel
        self.optimizers = list(optimizers)
        self._guard = Guard(networks, optimizers, tensors)

    def holds(self, agent: Any) -> bool:
        """Whether nothing has changed that the plan was made of. To be asked whenever user code may have run."""
        raise NotImplementedError


def check_observations(space: spaces.Space) -> None:
    """Refuse where there is no native code, and observations that are no vectors."""
    check_native()
    if extension is None:
        raise Unsupported("the native updates were not built, they take gcc or clang when sb3_span is installed")
    if not isinstance(space, spaces.Box) or is_image_space(space):
        kind = "images" if isinstance(space, spaces.Box) else type(space).__name__
        raise Unsupported(f"observations are {kind}, and native code takes vectors")


def as_floats(obs: Any) -> np.ndarray | None:
    """
    Observations as native code takes them.

    :param obs: Shape (B, ...)
    :return: None for anything but an array of numbers that torch would take
    """
    if type(obs) is not np.ndarray or not obs.size or not obs.flags.aligned:
        return None
    dtype = obs.dtype
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or not dtype.isnative:
        return None
    return np.ascontiguousarray(obs, dtype=None if dtype.char in "fd" else np.float32)
