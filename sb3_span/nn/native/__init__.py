"""The network in C, for float32 tensors on the CPU. README.md beside this file explains it."""

from sb3_span.nn.native.choice import can_run, kernel_info
from sb3_span.nn.native.function import native_span, supports

__all__ = ["can_run", "kernel_info", "native_span", "supports"]
