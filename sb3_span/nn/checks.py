"""Whether native code can work on modules and tensors, and if not, why not."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch as th
from torch import nn

from sb3_span.nn.native import choice
from sb3_span.nn.native.function import NativeSPAN
from sb3_span.nn.span import SPAN, has_hooks


class Unsupported(Exception):
    """Native code cannot do it. The message is the reason, worded to follow a colon."""


def check_native() -> None:
    """Refuse without native code, if the user has chosen torch, or if torch is being traced or watched."""
    if not choice.IS_NATIVE:
        raise Unsupported(str(choice.kernel_info()["reason"]))
    if not choice.nobody_watches():
        raise Unsupported("torch is being traced, compiled or watched")


def check_type(module: Any, *known: type) -> None:
    """Refuse a module of any other class, also a subclass, and one with hooks."""
    if type(module) not in known:
        names = " or ".join(cls.__name__ for cls in known)
        raise Unsupported(f"{type(module).__name__} is in the place of {names}")
    if has_hooks(module):
        raise Unsupported(f"{type(module).__name__} has a hook")


def check_linear(layer: Any) -> None:
    check_type(layer, nn.Linear)
    if layer.bias is None:
        raise Unsupported("a Linear layer has no bias")
    if layer.weight.shape != (layer.out_features, layer.in_features) or layer.bias.shape != (layer.out_features,):
        raise Unsupported("the parameters of a Linear layer have other shapes than it says")


def check_tensors(tensors: Iterable[th.Tensor]) -> None:
    """Refuse tensors that are not arrays of floats in this machine's memory."""
    for tensor in tensors:
        if type(tensor) not in (th.Tensor, nn.Parameter):
            raise Unsupported(f"a tensor is a {type(tensor).__name__}")
        if not tensor.is_cpu:
            raise Unsupported(f"the networks are on {tensor.device}, and native code runs on the CPU")
        if tensor.dtype is not th.float32:
            raise Unsupported(f"a tensor is of {tensor.dtype}, and native code has float32")
        if not tensor.is_contiguous():
            raise Unsupported("a tensor is not contiguous")
        if tensor.is_neg() or tensor._is_zerotensor():
            raise Unsupported("a tensor is a view that does not hold its numbers")


def check_trained(parameters: Iterable[th.Tensor | None]) -> None:
    """Refuse parameters that are frozen or have hooks."""
    for parameter in parameters:
        if parameter is None:
            continue
        if not parameter.requires_grad:
            raise Unsupported("a parameter is frozen (requires_grad is False)")
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise Unsupported("a parameter's gradient has a hook")


def span_parameters(span: Any, heads: Sequence[Any]) -> tuple[NativeSPAN, list[nn.Parameter | None]]:
    """
    :param span: A network or a stack
    :param heads: The linear layers that read its modes; none where it has its own head
    :return: Its shape as the kernel knows it, and its parameters in the kernel's order
    """
    check_type(span, SPAN)
    for head in heads:
        check_linear(head)
    if span.native is None:
        raise Unsupported(
            f"the kernel has no SPAN with preprocess={span.arch.preprocess!r}, basis={span.arch.basis!r} and "
            f"degree={span.arch.degree}"
        )
    own = span._native_parameters()
    if own is None or [None if param is None else param.shape for param in own] != list(span.native.shapes):
        raise Unsupported("a part of a SPAN network was replaced")
    return span.native, list(own)
