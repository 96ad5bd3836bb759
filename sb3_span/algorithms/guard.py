"""Whether networks and optimizers are still what a plan was made of: asked whenever user code may have run, so it is cheap."""

import operator
from collections.abc import Sequence
from typing import Any

import torch as th
from torch import nn

from sb3_span.algorithms.extension import extension
from sb3_span.nn.native import choice

_looks = operator.attrgetter("requires_grad", "grad", "_backward_hooks", "_post_accumulate_grad_hooks")
_settings = operator.itemgetter("betas", "eps", "weight_decay", "amsgrad", "maximize", "capturable", "differentiable")
_of_modules = operator.attrgetter(
    "_parameters", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
)
_of_optimizers = operator.attrgetter("param_groups", "state", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


class Guard:
    """
    Remembers which parameters, children and hooks modules have, which parameters and states optimizers have, and where the
    tensors lie. What else somebody may do to a policy at run time, such as replacing one of its methods, goes unnoticed.

    :param networks: Modules, with all that is in them
    :param optimizers: Their optimizers
    :param tensors: All tensors whose addresses matter
    """

    def __init__(
        self, networks: Sequence[nn.Module], optimizers: Sequence[th.optim.Optimizer], tensors: Sequence[th.Tensor]
    ) -> None:
        self._tensors = list(tensors)
        self._leaves = [tensor for tensor in tensors if tensor.requires_grad]
        self._groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self._containers: list[Any] = []
        modules = [module for network in networks for module in network.modules()]
        for module in modules:
            # Lists too: SB3's critics are in one.
            self._containers += [*_of_modules(module), *(value for value in vars(module).values() if type(value) is list)]
        for optimizer in optimizers:
            self._containers += [vars(optimizer), *_of_optimizers(optimizer), *optimizer.state.values()]
        self._containers += [group["params"] for group in self._groups]
        self._containers += [item for tensor in self._leaves for item in _looks(tensor) if isinstance(item, dict)]
        self._contents = [item for one in self._containers for item in (one.values() if isinstance(one, dict) else one)]
        self._addresses, self._order = self._places()
        self._seen = [item for tensor in self._leaves for item in _looks(tensor)]
        self._options = [_settings(group) for group in self._groups]

    def _places(self) -> tuple[list[int], list[bool]]:
        return list(map(th.Tensor.data_ptr, self._tensors)), list(map(th.Tensor.is_contiguous, self._leaves))

    def holds(self) -> bool:
        """Whether nothing has changed."""
        return (
            (self._addresses, self._order) == self._places()
            and extension.same(self._containers, self._contents)
            and extension.same([[item for tensor in self._leaves for item in _looks(tensor)]], self._seen)
            and [_settings(group) for group in self._groups] == self._options
            and choice.nobody_watches()
        )
