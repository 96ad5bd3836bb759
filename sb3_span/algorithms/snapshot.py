"""Whether networks and optimizers are still what they were: cheap enough to be asked before every step."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch as th
from torch import nn

_looks = operator.attrgetter("shape", "requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")
_grad = operator.attrgetter("grad")


class Snapshot:
    """
    Networks and their optimizers as they are now.

    Of every module and optimizer the attributes are remembered, and what is in the lists and dictionaries among them
    (children, parameters, hooks, states), by identity; of tensors also where they lie.

    :param networks: Modules, with all that is in them
    :param optimizers: Their optimizers
    :param tensors: All tensors whose addresses matter, contiguous
    :param same: The native code's comparison of containers with what was in them
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        optimizers: Sequence[th.optim.Optimizer],
        tensors: Sequence[th.Tensor],
        same: Callable[[list[Any], list[Any]], bool],
    ) -> None:
        self._roots = [*networks, *optimizers]
        self._modules = [module for network in networks for module in network.modules()]
        self._types = list(map(type, self._modules))
        self._tensors = list(tensors)
        self._addresses = list(map(th.Tensor.data_ptr, self._tensors))
        # SAC's entropy coefficient is trained and is no nn.Parameter.
        self._parameters = [tensor for tensor in tensors if isinstance(tensor, nn.Parameter) or tensor.requires_grad]
        self._looks = list(map(_looks, self._parameters))
        self._grads = list(map(_grad, self._parameters))
        attributes = [vars(one) for one in (*self._modules, *optimizers)]
        inside = [value for one in attributes for value in one.values() if isinstance(value, dict | list)]
        inside += [state for optimizer in optimizers for state in optimizer.state.values()]
        # Of a group the parameters only: its learning rate changes all the time.
        inside += [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
        inside += [hooks for look in self._looks for hooks in look[2:] if hooks is not None]
        self._containers = [*attributes, *inside]
        self._contents = [item for one in self._containers for item in (one.values() if isinstance(one, dict) else one)]
        self._same = same

    def has_moved(self) -> bool:
        """Whether a tensor lies elsewhere, or otherwise."""
        is_elsewhere = list(map(th.Tensor.data_ptr, self._tensors)) != self._addresses
        return is_elsewhere or not all(map(th.Tensor.is_contiguous, self._tensors))

    def holds(self, networks: Sequence[nn.Module], optimizers: Sequence[th.optim.Optimizer]) -> bool:
        """Whether these are the ones that the snapshot was taken of, and nothing about them has changed."""
        return (
            _are([*networks, *optimizers], self._roots)
            and _are(list(map(type, self._modules)), self._types)
            and self._same(self._containers, self._contents)
            and list(map(_looks, self._parameters)) == self._looks
            and _are(list(map(_grad, self._parameters)), self._grads)
            and not self.has_moved()
        )


def _are(now: Sequence[Any], then: Sequence[Any]) -> bool:
    return len(now) == len(then) and all(map(operator.is_, now, then))
