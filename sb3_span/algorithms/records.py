"""What a plan for native code is made of: the shape of networks, their parameters, and what Adam remembers of these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch as th
from torch import nn


@dataclass(frozen=True)
class Shape:
    """
    Of a stack of networks, SPAN or MLP.

    :param stack: Number of networks C
    :param inputs: I
    :param outputs: O, of all heads together
    :param heads: Linear layers side by side at the end: two in an actor of SAC
    :param latent: SPAN's dimensions D, 0 for an MLP; then its basis functions N, modes M and degree, 0 for bumps
    :param layers: Inputs, hidden layers and outputs of an MLP; () for SPAN
    :param tanh: Whether an MLP has tanh instead of ReLU
    :param group: How many dimensions each of SPAN's modes multiplies
    """

    stack: int
    inputs: int
    outputs: int
    heads: int = 1
    latent: int = 0
    basis: int = 0
    modes: int = 0
    degree: int = 0
    layers: tuple[int, ...] = ()
    tanh: bool = False
    group: int = 1

    def packed(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """As ``read_networks`` in native/module.c takes it."""
        sizes = (self.stack, self.inputs, self.latent, self.basis, self.modes, self.outputs)
        return (*sizes, self.degree, self.heads, int(self.tanh), self.group), self.layers


@dataclass(frozen=True)
class Part:
    """
    A parameter, or what one network of a stack has of it.

    :param only: Which network; None for the whole parameter
    """

    parameter: nn.Parameter
    only: int | None = None

    def of(self, tensor: th.Tensor) -> th.Tensor:
        """This part of the parameter, or of another tensor of its shape."""
        return tensor if self.only is None else tensor[self.only]


@dataclass(frozen=True)
class Network:
    """A stack of networks: its shape, and its parameters in the kernel's order."""

    shape: Shape
    parts: Sequence[Part]

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [part.parameter for part in self.parts]

    def packed(self, trained: Sequence["Trained"]) -> tuple[Any, ...]:
        return *self.shape.packed(), tuple(one.packed() for one in trained)

    def values(self) -> list["Trained"]:
        """Its parameters alone."""
        return [Trained(part.of(part.parameter.detach())) for part in self.parts]

    def values_and_gradients(self) -> list["Trained"]:
        return [Trained(part.of(part.parameter.detach()), part.of(part.parameter.grad)) for part in self.parts]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Trained:
    """
    A parameter, its gradient, and what Adam remembers of it.

    :param mean: Of its gradients, running; then of their squares, and the number of steps
    :param rate: Its own factor of the learning rate
    """

    value: th.Tensor | None = None
    grad: th.Tensor | None = None
    mean: th.Tensor | None = None
    square: th.Tensor | None = None
    step: th.Tensor | None = None
    rate: float = 1.0

    @property
    def tensors(self) -> list[th.Tensor]:
        return [tensor for tensor in (self.value, self.grad, self.mean, self.square, self.step) if tensor is not None]

    def packed(self) -> tuple[Any, ...]:
        tensors = (self.value, self.grad, self.mean, self.square, self.step)
        addresses = (0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        return *addresses, 1 if self.value is None else self.value.numel(), self.rate


@dataclass(frozen=True)
class AdamOptions:
    """
    :param max_grad_norm: Of all gradients together; infinite for any
    """

    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    max_grad_norm: float

    def packed(self) -> tuple[float, ...]:
        return self.beta1, self.beta2, self.epsilon, self.weight_decay, self.max_grad_norm
