"""Which kernel runs, and why."""

import importlib
import logging
import os
from types import ModuleType

import torch as th

VARIABLE = "SB3_SPAN_KERNEL"
CHOICES = ("auto", "native", "torch")

extension: ModuleType | None
try:
    extension = importlib.import_module("sb3_span.nn.native._native")
except ImportError:
    extension = None


def _choose() -> tuple[bool, str]:
    choice = os.environ.get(VARIABLE, "auto")
    if choice not in CHOICES:
        raise ValueError(
            f"The environment variable {VARIABLE} is {choice!r}; choose one of {list(CHOICES)}, or leave it unset."
        )
    if choice == "torch":
        return False, f"{VARIABLE} is 'torch'"
    if extension is not None:
        return True, f"{VARIABLE} is 'native'" if choice == "native" else "it was built with the package"
    if choice == "native":
        raise ImportError(
            f"The environment variable {VARIABLE} is 'native', but the native kernel was not built when sb3_span was "
            f"installed. Install it again where a C compiler (gcc or clang) is, or set {VARIABLE}=auto."
        )
    reason = "the native kernel was not built: no C compiler (gcc or clang) when sb3_span was installed"
    logging.getLogger("sb3_span").warning("SPAN networks run on torch, which is slower: %s.", reason)
    return False, reason


IS_NATIVE, _reason = _choose()


def kernel_info() -> dict[str, str | int]:
    """
    What evaluates SPAN networks on this machine, and why.

    :return: ``kernel`` ("native" or "torch"), ``reason``, and for the native one ``instructions`` and ``lanes``, the floats
        that it works on at a time
    """
    if not IS_NATIVE or extension is None:
        return {"kernel": "torch", "reason": _reason}
    instructions, lanes = extension.kernels()[0]
    return {"kernel": "native", "reason": _reason, "instructions": instructions, "lanes": lanes}


def can_run(x: th.Tensor, parameter: th.Tensor) -> bool:
    """
    Whether the native kernel can take this call: plain float32 tensors on the CPU, and nobody who wants to see the operations
    (a tracer, a compiler, vmap).

    :param x: The network's input
    :param parameter: One of its parameters, which all have one type and device
    """
    return (
        IS_NATIVE
        and x.dtype is th.float32
        and parameter.dtype is th.float32
        and x.is_cpu
        and parameter.is_cpu
        and type(x) in (th.Tensor, th.nn.Parameter)
        and not th.compiler.is_compiling()
        and not th.jit.is_tracing()
        and not th.is_autocast_enabled("cpu")
        and not th._C._are_functorch_transforms_active()
    )
