"""The SPAN network: tensors in, tensors out. Nothing here is about reinforcement learning."""

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.native import kernel_info
from sb3_span.nn.span import SPAN
from sb3_span.nn.stacked import StackedLinear

__all__ = ["SPAN", "SPANArch", "StackedLinear", "kernel_info"]
