"""The native kernel as a differentiable function."""

from typing import Any, NamedTuple

import torch as th

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.basis import basis_values
from sb3_span.nn.native import choice
from sb3_span.nn.native.choice import extension
from sb3_span.nn.splines import combine
from sb3_span.nn.stacked import pick, stacked_linear

MAX_DEGREE = 3
KERNELS: list[tuple[str, int]] = [] if extension is None else extension.kernels()
WIDEST = 0
PLAIN = (th.Tensor, th.nn.Parameter)

# A stack's parameters: W_pre (C, D, I), b_pre (C, D), scale (C, D), coefficients (C, D, N, M), and the head's weight (C, O, W)
# and bias (C, O). There is no scale with B-splines, and not always a head.
Parameters = tuple[th.Tensor | None, ...]


def supports(arch: SPANArch) -> bool:
    """Whether the kernel has this kind of network; if not, torch has."""
    return arch.preprocess == "dense" and (arch.basis == "kernel" or arch.degree <= MAX_DEGREE)


class Sizes(NamedTuple):
    """What the kernel takes of a network after C and B: I, D, N, M, O, the degree (0 for bumps), dimensions of a group."""

    inputs: int
    latent: int
    basis: int
    modes: int
    outputs: int
    degree: int
    group: int


class NativeSPAN:
    """
    Evaluates stacks of one shape in the native kernel.

    :param arch: The networks' shape, which the kernel ``supports``
    :param input_dim: Number of inputs I
    :param stack: Number of networks C
    :param output_dim: Number of outputs O of the head; None for no head
    """

    def __init__(self, arch: SPANArch, input_dim: int, stack: int, output_dim: int | None) -> None:
        self.arch = arch
        self.input_dim = input_dim
        self.latent_dim = latent = arch.resolve_latent_dim(input_dim)
        self.n_modes = n_modes = arch.count_modes(input_dim)
        self.width = n_modes if output_dim is None else output_dim
        self.sizes = Sizes(
            inputs=input_dim,
            latent=latent,
            basis=arch.n_basis,
            modes=arch.nmodes,
            outputs=output_dim or 0,
            degree=0 if arch.basis == "kernel" else arch.degree,
            group=arch.resolve_group_size(input_dim),
        )
        self.shapes = (
            (stack, latent, input_dim),
            (stack, latent),
            (stack, latent) if arch.basis == "kernel" else None,
            (stack, latent, arch.n_basis, arch.nmodes),
            None if output_dim is None else (stack, output_dim, n_modes),
            None if output_dim is None else (stack, output_dim),
        )

    def can_run(self, x: th.Tensor, parameters: Parameters) -> bool:
        """
        Whether the kernel can take this call: dense float32 tensors on the CPU, of the right shapes. All of it is asked every
        time, since the kernel works on addresses and parameters can be moved, converted and replaced at any time.
        """
        if not (choice.IS_NATIVE and choice.nobody_watches()):
            return False
        if not (x.dim() == 2 and x.shape[1] == self.input_dim and _is_plain(x) and not x.is_neg() and not x._is_zerotensor()):
            return False
        for parameter, shape in zip(parameters, self.shapes, strict=True):
            if parameter is None or shape is None:
                if parameter is not None or shape is not None:
                    return False
            elif not (_is_plain(parameter) and parameter.shape == shape and parameter.is_contiguous()):
                return False
        return True

    def __call__(self, x: th.Tensor, parameters: Parameters, only: int | None = None, kernel: int = WIDEST) -> th.Tensor:
        """
        :param x: Shape (B, I)
        :param parameters: The stack's parameters
        :param only: Evaluate this network of the stack alone
        :param kernel: Which of ``KERNELS``, those that the machine can run
        :return: Shape (C, B, O), or (C, B, W) without a head; C is 1 with ``only``
        """
        x = x.contiguous()
        if not th.is_grad_enabled() or not (x.requires_grad or any(p is not None and p.requires_grad for p in parameters)):
            return self.forward(kernel, x, parameters, only=only)
        if only is not None:
            parameters = tuple(None if p is None else pick(p, only) for p in parameters)
        return _Differentiable.apply(self, kernel, x, *parameters)

    def forward(
        self, kernel: int, x: th.Tensor, parameters: Parameters, only: int | None = None, z: th.Tensor | None = None
    ) -> th.Tensor:
        """The kernel's forward pass; ``z`` is kept for the backward pass where there will be one."""
        assert extension is not None
        addresses = _addresses(*parameters)
        stack = len(parameters[0])  # type: ignore[arg-type]
        if only is not None:  # a stack of one, that begins where this network's parameters do
            for i, parameter in enumerate(parameters):
                if parameter is not None:
                    addresses[i] += only * parameter.stride(0) * parameter.itemsize
            stack = 1
        out = x.new_empty(stack, len(x), self.width)
        if extension.forward(kernel, stack, len(x), *self.sizes, x.data_ptr(), *addresses, *_addresses(out, z)):
            return out
        return _torch_forward(self.arch, (x, *(None if p is None else pick(p, only) for p in parameters)))

    def forward_and_keep(self, kernel: int, x: th.Tensor, parameters: Parameters) -> tuple[th.Tensor, th.Tensor]:
        """The kernel's forward pass, and what its backward pass needs of it: z and its slope."""
        lanes = KERNELS[kernel][1]
        stack = len(parameters[0])  # type: ignore[arg-type]
        padded = -(-len(x) // lanes) * lanes
        z = x.new_empty(stack * 2 * self.latent_dim * padded)
        return self.forward(kernel, x, parameters, z=z), z

    def backward(
        self, kernel: int, x: th.Tensor, parameters: Parameters, z: th.Tensor, grad_out: th.Tensor, wanted: tuple[bool, ...]
    ) -> list[th.Tensor | None]:
        """
        The kernel's backward pass.

        :param wanted: For ``x`` and each of the parameters whether its gradient is wanted
        :return: The gradients of ``x`` and of the parameters; those that are not wanted may be None
        """
        grads: list[th.Tensor | None] = [None] * (1 + len(parameters))
        if wanted[0]:
            grads[0] = th.empty_like(x)
        if any(wanted[1:]):  # the kernel sums up the gradients of all parameters, or of none
            grads[1:] = [None if parameter is None else th.empty_like(parameter) for parameter in parameters]
        grad_out = grad_out.contiguous()  # has to live until the kernel is done, as everything whose address it gets
        assert extension is not None
        addresses = _addresses(x, *parameters, z, grad_out, *grads)
        if extension.backward(kernel, len(parameters[0]), len(x), *self.sizes, *addresses):  # type: ignore[arg-type]
            return grads
        return _torch_backward(self.arch, (x, *parameters), wanted, grad_out)


def _is_plain(tensor: th.Tensor) -> bool:
    return tensor.dtype is th.float32 and tensor.is_cpu and type(tensor) in PLAIN


def _addresses(*tensors: th.Tensor | None) -> list[int]:
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


class _Differentiable(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, native: NativeSPAN, kernel: int, x: th.Tensor, *parameters: th.Tensor | None) -> th.Tensor:
        out, z = native.forward_and_keep(kernel, x, parameters)
        ctx.save_for_backward(x, *parameters, z)
        ctx.native, ctx.kernel = native, kernel
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: th.Tensor) -> Any:
        x, *parameters, z = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        if th.is_grad_enabled() or type(grad_out) not in PLAIN or _is_batched(grad_out):
            return None, None, *_torch_backward(ctx.native.arch, (x, *parameters), wanted, grad_out)
        return None, None, *ctx.native.backward(ctx.kernel, x, parameters, z, grad_out, wanted)


def _is_batched(tensor: th.Tensor) -> bool:
    """Whether vmap is at work on the gradients (``is_grads_batched``, ``jacobian(vectorize=True)``)."""
    functorch = th._C._functorch
    return functorch.is_batchedtensor(tensor) or functorch.is_legacy_batchedtensor(tensor)


def _torch_forward(arch: SPANArch, tensors: Any) -> th.Tensor:
    """The same outputs by torch's operations."""
    x, w_pre, b_pre, scale, coefficients, head_weight, head_bias = tensors
    values = basis_values(stacked_linear(x, w_pre, b_pre).sigmoid(), scale, arch.nelems, arch.degree)
    out = combine(values, coefficients, w_pre.shape[1], arch.resolve_group_size(x.shape[1]))
    return out if head_weight is None else stacked_linear(out, head_weight, head_bias)


def _torch_backward(arch: SPANArch, tensors: Any, wanted: tuple[bool, ...], grad_out: th.Tensor) -> list[th.Tensor | None]:
    """The same gradients by torch's operations, which can be differentiated again."""
    again = th.is_grad_enabled()
    with th.enable_grad():
        # Views, so that only this function's own dependence on them is seen: x may itself be made of the parameters.
        tensors = [None if tensor is None else _own(tensor) for tensor in tensors]
        out = _torch_forward(arch, tensors)
    inputs = [tensor for tensor, is_wanted in zip(tensors, wanted, strict=True) if is_wanted]
    grads = iter(th.autograd.grad(out, inputs, grad_out, create_graph=again))
    return [next(grads) if is_wanted else None for is_wanted in wanted]


def _own(tensor: th.Tensor) -> th.Tensor:
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
