"""The SPAN network: from an observation to its modes."""

from collections.abc import Mapping
from typing import Any

import torch as th
from torch import nn

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.basis import BSplineBasis, KernelBasis
from sb3_span.nn.preprocess import make_preprocess
from sb3_span.nn.stacked import pick

COEFFICIENT_STD = 0.1


class SPAN(nn.Module):
    """
    The body of a SPAN network. A linear layer on its modes makes it a complete one.

    ``z = preprocess(x)``, then ``mode_j = prod_p sum_i coefficients[p, i, j] basis_i(z_p)``.

    With ``n_stack`` it is C such networks of one shape that read the same input, evaluated at once.
    Parameters have the leading axis C even when there is one network.

    :param input_dim: Number of features that enter
    :param span_arch: The network's shape: a dict with the fields of ``SPANArch``
    :param n_stack: Number of stacked networks C; None for a single network, whose output has no leading axis
    """

    def __init__(
        self,
        input_dim: int,
        span_arch: SPANArch | Mapping[str, Any] | None = None,
        n_stack: int | None = None,
    ) -> None:
        super().__init__()
        self.arch = SPANArch.make(span_arch)
        self.input_dim = input_dim
        self.latent_dim = self.arch.resolve_latent_dim(input_dim)
        self.n_stack = n_stack
        stack = 1 if n_stack is None else n_stack

        self.preprocess = make_preprocess(self.arch, input_dim, stack)
        self.basis = KernelBasis(self.arch, self.latent_dim, stack) if self.arch.basis == "kernel" else BSplineBasis(self.arch)
        # Every factor starts near 1, so that a product over many dimensions neither dies nor explodes.
        shape = (stack, self.latent_dim, self.arch.n_basis, self.arch.nmodes)
        self.coefficients = nn.Parameter(th.empty(shape).normal_(1.0, COEFFICIENT_STD))  # (C, D, N, M)

    @property
    def output_dim(self) -> int:
        """Number of modes M."""
        return self.arch.nmodes

    def extra_repr(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.arch.to_dict().items() if name != "latent_dim")
        return f"input_dim={self.input_dim}, latent_dim={self.latent_dim}, n_stack={self.n_stack}, {options}"

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        """
        :param x: Features, shape (B, input_dim)
        :param only: Evaluate this network of the stack alone
        :return: Modes, shape (C, B, M) for a stack, (B, M) for a single network or with ``only``
        """
        z = self.preprocess(x, only)  # (C, B, D)
        values = self.basis(z, only)  # (C, B, D, N)
        coefficients = pick(self.coefficients, only)  # (C, D, N, M)
        factors = th.einsum("cbdn,cdnm->cdbm", values.expand(coefficients.shape[0], -1, -1, -1), coefficients)
        modes = product(factors)  # (C, B, M)
        return modes[0] if self.n_stack is None or only is not None else modes


def product(factors: th.Tensor) -> th.Tensor:
    """
    Multiply over the latent dimensions, in a tree.

    The gradient of a factor is then a product of the other factors, without the division of ``torch.prod``'s:
    it stays right when a factor is zero or the product underflows.

    :param factors: Shape (C, D, B, M)
    :return: Shape (C, B, M)
    """
    while factors.shape[1] > 1:
        half, odd = divmod(factors.shape[1], 2)
        first, second, rest = factors.split([half, half, odd], dim=1)
        factors = first * second
        if odd:
            factors = th.cat([factors, rest], dim=1)
    return factors.squeeze(1)
