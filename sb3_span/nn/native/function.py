"""The native kernel as a differentiable function."""

from typing import Any

import torch as th

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.basis import basis_values
from sb3_span.nn.native.choice import extension
from sb3_span.nn.splines import combine
from sb3_span.nn.stacked import pick, stacked_linear

MAX_DEGREE = 3
KERNELS: list[tuple[str, int]] = [] if extension is None else extension.kernels()
WIDEST = 0

# A stack's parameters: W_pre (C, D, I), b_pre (C, D), scale (C, D), coefficients (C, D, N, M), and the head's weight (C, O, M)
# and bias (C, O). There is no scale with B-splines, and not always a head.
Parameters = tuple[th.Tensor | None, ...]


def supports(arch: SPANArch) -> bool:
    """Whether the kernel has this kind of network; if not, torch has."""
    return arch.preprocess == "dense" and (arch.basis == "kernel" or arch.degree <= MAX_DEGREE)


def native_span(
    arch: SPANArch, x: th.Tensor, parameters: Parameters, only: int | None = None, kernel: int = WIDEST
) -> th.Tensor:
    """
    Evaluate a stack of networks in the native kernel.

    :param arch: The networks' shape, which the kernel ``supports``
    :param x: Shape (B, I)
    :param parameters: The stack's parameters
    :param only: Evaluate this network of the stack alone
    :param kernel: Which of ``KERNELS``, those that the machine can run
    :return: Shape (C, B, O), or (C, B, M) without a head; C is 1 with ``only``
    """
    x = x.contiguous()
    if not th.is_grad_enabled() or not (x.requires_grad or any(p is not None and p.requires_grad for p in parameters)):
        return _forward(arch, kernel, x, parameters, only, None)
    if only is not None:
        parameters = tuple(None if p is None else pick(p, only) for p in parameters)
    return _NativeSPAN.apply(arch, kernel, x, *parameters)


def _sizes(arch: SPANArch, x: th.Tensor, parameters: Parameters) -> tuple[int, ...]:
    """C, B, I, D, N, M, O and the degree, as the kernel takes them."""
    _, _, _, coefficients, head_weight, _ = parameters
    assert coefficients is not None
    stack, latent, n_basis, modes = coefficients.shape
    outputs = 0 if head_weight is None else head_weight.shape[1]
    return (stack, *x.shape, latent, n_basis, modes, outputs, 0 if arch.basis == "kernel" else arch.degree)


def _addresses(*tensors: th.Tensor | None) -> list[int]:
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def _forward(
    arch: SPANArch, kernel: int, x: th.Tensor, parameters: Parameters, only: int | None, z: th.Tensor | None
) -> th.Tensor:
    assert extension is not None
    stack, batch, inputs, latent, n_basis, modes, outputs, degree = _sizes(arch, x, parameters)
    addresses = _addresses(*parameters)
    if only is not None:  # a stack of one, that begins where this network's parameters do
        for i, parameter in enumerate(parameters):
            if parameter is not None:
                addresses[i] += only * parameter.stride(0) * parameter.itemsize
        stack = 1
    out = x.new_empty(stack, batch, outputs or modes)
    sizes = (stack, batch, inputs, latent, n_basis, modes, outputs, degree)
    extension.forward(kernel, *sizes, x.data_ptr(), *addresses, out.data_ptr(), 0 if z is None else z.data_ptr())
    return out


class _NativeSPAN(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arch: SPANArch, kernel: int, x: th.Tensor, *parameters: th.Tensor | None) -> th.Tensor:
        w_pre = parameters[0]
        assert w_pre is not None
        stack, latent, _ = w_pre.shape
        lanes = KERNELS[kernel][1]
        z = x.new_empty(stack * len(x) * 2 * (-(-latent // lanes) * lanes))  # z and its slope, padded to whole vectors
        out = _forward(arch, kernel, x, parameters, None, z)
        ctx.save_for_backward(x, *parameters, z)
        ctx.arch, ctx.kernel = arch, kernel
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: th.Tensor) -> Any:
        x, *parameters, z = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        if th.is_grad_enabled():  # someone will differentiate the gradients
            return None, None, *_torch_backward(ctx.arch, (x, *parameters), wanted, grad_out)
        grads: list[th.Tensor | None] = [None] * (1 + len(parameters))
        if wanted[0]:
            grads[0] = th.empty_like(x)
        if any(wanted[1:]):  # the kernel sums up the gradients of all parameters, or of none
            grads[1:] = [None if parameter is None else th.empty_like(parameter) for parameter in parameters]
        grad_out = grad_out.contiguous()  # has to live until the kernel is done, as everything whose address it gets
        assert extension is not None
        sizes = _sizes(ctx.arch, x, parameters)
        extension.backward(ctx.kernel, *sizes, *_addresses(x, *parameters, z, grad_out, *grads))
        return None, None, *grads


def _torch_backward(arch: SPANArch, tensors: Any, wanted: tuple[bool, ...], grad_out: th.Tensor) -> list[th.Tensor | None]:
    """The same gradients by torch's operations, which can be differentiated again."""
    x, w_pre, b_pre, scale, coefficients, head_weight, head_bias = tensors
    out = combine(basis_values(stacked_linear(x, w_pre, b_pre).sigmoid(), scale, arch), coefficients, w_pre.shape[1])
    if head_weight is not None:
        out = stacked_linear(out, head_weight, head_bias)
    inputs = [tensor for tensor, is_wanted in zip(tensors, wanted, strict=True) if is_wanted]
    grads = iter(th.autograd.grad(out, inputs, grad_out, create_graph=True))
    return [next(grads) if is_wanted else None for is_wanted in wanted]
