"""Which kernel runs, and why."""

import importlib
import logging
import os
from types import ModuleType

import torch as th

VARIABLE = "SB3_SPAN_KERNEL"
CHOICES = ("auto", "native", "torch")

extension: ModuleType | None
_missing = ""
try:
    extension = importlib.import_module("sb3_span.nn.native._native")
except ImportError as error:
    extension = None
    _missing = str(error)


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
    reason = f"the native kernel was not built, it takes gcc or clang when sb3_span is installed ({_missing})"
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


def nobody_watches() -> bool:
    """Whether torch runs plainly: no tracer, compiler, vmap, autocast, forward-mode derivative, mode or hook sees it."""
    return not (
        th.compiler.is_compiling()
        or th.jit.is_tracing()
        or th.is_autocast_enabled("cpu")
        or th._C._are_functorch_transforms_active()
        or th.autograd.forward_ad._current_level >= 0
        or th._C._len_torch_dispatch_stack() > 0
        or th.nn.modules.module._has_any_global_hook()
    )
