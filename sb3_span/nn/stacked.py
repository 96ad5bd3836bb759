"""Several networks evaluated at once: every parameter has a leading axis of size C, one slice for each network."""

import math

import torch as th
from torch import nn


def pick(parameter: th.Tensor, only: int | None) -> th.Tensor:
    """
    The whole stack's parameter, or that of one of its networks (the leading axis stays).

    :param parameter: Shape (C, ...)
    :param only: Index of the network to keep, None for all
    :return: Shape (C, ...) or (1, ...)
    """
    return parameter if only is None else parameter[only : only + 1]


def stacked_linear(x: th.Tensor, weight: th.Tensor, bias: th.Tensor) -> th.Tensor:
    """
    :param x: One input for all layers, shape (B, I), or one each, shape (C, B, I)
    :param weight: Shape (C, O, I)
    :param bias: Shape (C, O)
    :return: Shape (C, B, O)
    """
    return th.baddbmm(bias.unsqueeze(1), x.expand(weight.shape[0], -1, -1), weight.transpose(1, 2))


class StackedLinear(nn.Module):
    """
    C parallel linear layers, each initialised like ``nn.Linear``.

    :param input_dim: Number of inputs of each layer
    :param output_dim: Number of outputs of each layer
    :param n_stack: Number of layers C
    """

    def __init__(self, input_dim: int, output_dim: int, n_stack: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.empty(n_stack, output_dim, input_dim))
        self.bias = nn.Parameter(th.empty(n_stack, output_dim))
        bound = 1 / math.sqrt(input_dim)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def init_orthogonal(self, gain: float) -> None:
        """What SB3's ``ortho_init`` does to an ``nn.Linear``, for each layer of the stack."""
        for weight in self.weight.data:
            nn.init.orthogonal_(weight, gain=gain)
        nn.init.zeros_(self.bias)

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        """
        :param x: One input for all layers, shape (B, input_dim), or one each, shape (C, B, input_dim)
        :param only: Evaluate this layer alone
        :return: Shape (C, B, output_dim); C is 1 with ``only``
        """
        return stacked_linear(x, pick(self.weight, only), pick(self.bias, only))
