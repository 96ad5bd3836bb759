"""
Ways to bring an observation into [0, 1], where the splines live.

``dense`` is the one to use. The others are those that the paper argues against, kept for comparison.
"""

from typing import Final

import torch as th
from torch import nn

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.stacked import StackedLinear, pick, stacked_linear


def make_preprocess(arch: SPANArch, input_dim: int, n_stack: int) -> nn.Module:
    """
    :param arch: ``preprocess`` chooses the module, ``latent_dim`` sizes the dense layer
    :param input_dim: Number of features that enter
    :param n_stack: Number of stacked networks C
    :return: A module that maps (B, input_dim) to (C, B, D) in [0, 1]; C is 1 when called with ``only``
    """
    if arch.preprocess == "dense":
        return DenseSigmoid(input_dim, arch.resolve_latent_dim(input_dim), n_stack)
    if arch.preprocess == "layernorm":
        return NormSigmoid(nn.LayerNorm(input_dim, elementwise_affine=False), input_dim, n_stack)
    if arch.preprocess == "batchnorm":
        return NormSigmoid(BatchNorm(input_dim, affine=False), input_dim, n_stack)
    if arch.preprocess == "minmax":
        return MinMax(input_dim)
    return Clamp()


class DenseSigmoid(StackedLinear):
    """``z = sigmoid(W_pre x + b_pre)``."""

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        return stacked_linear(x, pick(self.weight, only), pick(self.bias, only)).sigmoid()


class NormSigmoid(nn.Module):
    """
    A normalisation that all networks of the stack share, then each one's own gain and offset, and a sigmoid.

    :param norm: Maps (B, input_dim) to the same shape
    """

    LARGEST: Final = 1e15  # beyond it the variance of an input overflows

    def __init__(self, norm: nn.Module, input_dim: int, n_stack: int) -> None:
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(th.ones(n_stack, input_dim))
        self.bias = nn.Parameter(th.zeros(n_stack, input_dim))

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        weight, bias = pick(self.weight, only), pick(self.bias, only)
        x = x.clamp(-self.LARGEST, self.LARGEST)
        return (self.norm(x) * weight.unsqueeze(1) + bias.unsqueeze(1)).sigmoid()


class BatchNorm(nn.BatchNorm1d):
    """Uses the running statistics also in training where a batch gives none: with one sample, or with a NaN."""

    def forward(self, x: th.Tensor) -> th.Tensor:
        learns = self.training and x.shape[0] > 1 and bool(x.isfinite().all())
        assert self.momentum is not None
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, None, None, learns, self.momentum, self.eps)


class MinMax(nn.Module):
    """
    Divide by the range seen in training so far. An input whose range is not known yet is put in the middle.

    SB3 copies buffers to target networks when their name contains ``running_``. It does so in place and by
    multiplying with zero, hence bounds that are updated in place and start finite.
    """

    running_min: th.Tensor
    running_max: th.Tensor

    def __init__(self, input_dim: int) -> None:
        super().__init__()
        limit = th.finfo(th.get_default_dtype()).max
        self.register_buffer("running_min", th.full((input_dim,), limit))
        self.register_buffer("running_max", th.full((input_dim,), -limit))

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        if self.training and x.shape[0] > 0:
            self._update(x.detach())
        width = self.running_max - self.running_min
        known = width > 0
        z = (x - self.running_min.where(known, 0.0)) / width.where(known, 1.0)
        # 0 * x keeps a NaN a NaN.
        return z.clamp(0, 1).where(known, 0.5 + 0 * x).unsqueeze(0)

    def _update(self, x: th.Tensor) -> None:
        # A NaN or infinite input must not ruin the bounds forever.
        finite = x.isfinite()
        self.running_min.copy_(th.minimum(self.running_min, x.where(finite, float("inf")).amin(0)))
        self.running_max.copy_(th.maximum(self.running_max, x.where(finite, -float("inf")).amax(0)))


class Clamp(nn.Module):
    """For observations that are already within [0, 1]."""

    def forward(self, x: th.Tensor, only: int | None = None) -> th.Tensor:
        return x.clamp(0, 1).unsqueeze(0)
