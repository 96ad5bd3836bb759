"""The network in C, for float32 tensors on the CPU. README.md beside this file explains it."""

from sb3_span.nn.native.choice import kernel_info
from sb3_span.nn.native.function import NativeSPAN, supports

__all__ = ["NativeSPAN", "kernel_info", "supports"]
