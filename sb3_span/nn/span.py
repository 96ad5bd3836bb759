"""
The SPAN network.

Shape letters, here and everywhere in the package: C stacked networks, B batch, D latent dimensions, N basis functions,
M modes of a group of dimensions, W modes of all groups (M if there is one group), A actions.
"""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch as th
from torch import nn

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.basis import basis_places, basis_values
from sb3_span.nn.native import NativeSPAN, supports
from sb3_span.nn.preprocess import DenseSigmoid, make_preprocess
from sb3_span.nn.splines import combine
from sb3_span.nn.stacked import StackedLinear, pick

# How much steeper than ``slope`` the factors are that cross zero: at least, at most.
CROSSING_SLOPES = (1.0, 2.0)


class SPAN(nn.Module):
    """
    A SPAN network: from an input to its modes or, with ``output_dim``, to a linear map of them.

    ``z = preprocess(x)``, then ``mode_j = prod_p sum_i coefficients[p, i, j] basis_i(z_p)`` over all dimensions p, or over
    those of each group with ``group_size``.

    With ``n_stack`` it is C such networks of one shape that read the same input, evaluated at once.
    Parameters have the leading axis C even when there is one network.

    :param input_dim: Number of features that enter
    :param span_arch: The network's shape: a dict with the fields of ``SPANArch``
    :param n_stack: Number of stacked networks C; None for a single network, whose output has no leading axis
    :param output_dim: Number of outputs of a linear head; None for no head, the modes are the output
    """

    def __init__(
        self,
        input_dim: int,
        span_arch: SPANArch | Mapping[str, Any] | None = None,
        n_stack: int | None = None,
        output_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.arch = arch = SPANArch.make(span_arch)
        self._nelems, self._degree = arch.nelems, arch.degree  # numbers, which can be scripted
        self.input_dim = input_dim = _read_size("input_dim", input_dim)
        self.latent_dim = arch.resolve_latent_dim(input_dim)
        self.group_size = arch.resolve_group_size(input_dim)
        self.n_modes = arch.count_modes(input_dim)
        self.n_stack = n_stack = None if n_stack is None else _read_size("n_stack", n_stack)
        self.output_dim = output_dim = None if output_dim is None else _read_size("output_dim", output_dim)
        stack = 1 if n_stack is None else n_stack

        self.native = NativeSPAN(arch, input_dim, stack, output_dim) if supports(arch) else None
        self.preprocess = make_preprocess(arch, input_dim, stack)
        # At this scale the bumps overlap as B-splines do and at most 3 are non-zero. A learned scale above three times that
        # leaves gaps between the bumps, where whole modes are zero.
        scale = nn.Parameter(th.full((stack, self.latent_dim), float(arch.nelems - 1))) if arch.basis == "kernel" else None
        self.scale: nn.Parameter | None
        self.register_parameter("scale", scale)  # (C, D)
        self.coefficients = nn.Parameter(self._first_coefficients(stack))  # (C, D, N, M)
        self.head: StackedLinear | None
        self.register_module("head", None if output_dim is None else StackedLinear(self.n_modes, output_dim, stack))

    def _first_coefficients(self, stack: int) -> th.Tensor:
        """
        Every factor starts as a straight line, which in the middle is 0 for one factor of each mode and 1 for the others.

        So modes start around zero and differ between states, as the hidden units of an MLP do; modes around 1 would all look
        alike to the head. The lines around 1 have random slopes, gentler the more there are, so that a product over many
        dimensions neither vanishes nor explodes.

        :return: Shape (C, D, N, M)
        """
        arch, dim, size = self.arch, self.latent_dim, self.group_size
        slopes = th.empty(stack, dim, 1, arch.nmodes).normal_(0.0, arch.slope / size**0.5)
        # Each network goes through a group's dimensions in its own order, from the first again when it has more modes.
        crossing = th.stack([th.randperm(size) for _ in range(stack)])[:, th.arange(arch.nmodes) % size]  # (C, M)
        place = th.arange(dim) % size  # of a dimension in its group; the last group may be smaller
        sizes = (dim - th.arange(dim) + place).clamp(max=size)
        crosses = crossing[:, None, None, :] % sizes[None, :, None, None] == place[None, :, None, None]  # (C, D, 1, M)
        slopes = th.where(crosses, arch.slope * th.empty_like(slopes).uniform_(*CROSSING_SLOPES), slopes)
        places = basis_places(arch.nelems, None if arch.basis == "kernel" else arch.degree).unsqueeze(-1)  # (N, 1)
        return (~crosses).to(slopes.dtype) + slopes * (places - 0.5)

    def extra_repr(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.arch.to_dict().items() if name != "latent_dim")
        sizes = (
            f"input_dim={self.input_dim}, latent_dim={self.latent_dim}, output_dim={self.output_dim}, n_stack={self.n_stack}"
        )
        return f"{sizes}, {options}"

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        """
        :param x: Features, shape (B, input_dim)
        :param only: Evaluate this network of the stack alone
        :return: Modes or outputs: shape (C, B, W) or (C, B, output_dim) for a stack, without the leading axis for a
            single network or with ``only``
        """
        if only is not None and not 0 <= only < len(self.coefficients):
            raise IndexError(f"only is {only}; the stack has the networks 0 to {len(self.coefficients) - 1}")
        is_single = self.n_stack is None or only is not None
        if not th.jit.is_scripting():
            parameters = self._native_parameters()
            if self.native is not None and parameters is not None and self.native.can_run(x, parameters):
                out = self.native(x, parameters, only)
                return out[0] if is_single else out
            if x.dim() != 2 or (not th.jit.is_tracing() and x.shape[1] != self.input_dim):
                raise ValueError(
                    f"The input has the shape {tuple(x.shape)}; it must be (batch, {self.input_dim}). "
                    "A single sample needs a batch axis, x[None]."
                )
        scale = None if self.scale is None else pick(self.scale, only)
        z = self.preprocess(x, only)  # (C, B, D)
        values = basis_values(z, scale, self._nelems, self._degree)  # (C, B, D, N)
        out = combine(values, pick(self.coefficients, only), self.latent_dim, self.group_size)  # (C, B, W)
        if self.head is not None:
            out = self.head(out, only)
        return out[0] if is_single else out

    def _native_parameters(self) -> tuple[th.Tensor | None, ...] | None:
        """The parameters in the native kernel's order; None if a part of the network was replaced."""
        # Straight from the dictionaries: a module's attributes take longer to look up than the kernel takes for one sample.
        own, modules = self._parameters, self._modules
        preprocess, head = modules["preprocess"], modules["head"]
        if type(preprocess) is not DenseSigmoid or has_hooks(preprocess):
            return None
        if head is None:
            head_parameters: dict[str, nn.Parameter | None] = {}
        elif type(head) is not StackedLinear or has_hooks(head):
            return None
        else:
            head_parameters = head._parameters
        return (
            preprocess._parameters.get("weight"),
            preprocess._parameters.get("bias"),
            own.get("scale"),
            own.get("coefficients"),
            head_parameters.get("weight"),
            head_parameters.get("bias"),
        )


def _read_size(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1.")
    return int(value)  # numpy's, as from a MultiDiscrete space, cannot be scripted


def has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)
