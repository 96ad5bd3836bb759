"""A compact Kolmogorov-Arnold network, as a contender in the benchmark."""

import torch as th
from torch import nn

from sb3_span.nn.basis import bspline_basis


class KANLayer(nn.Module):
    """
    Every input has its own spline for every output: ``y_o = sum_i (w_oi silu(x_i) + sum_n c_oin B_n(x_i))``.

    :param input_dim: Number of inputs
    :param output_dim: Number of outputs
    :param n_spans: Knot spans on [-1, 1]; inputs outside are clamped
    :param degree: Degree of the splines
    """

    def __init__(self, input_dim: int, output_dim: int, n_spans: int = 5, degree: int = 3) -> None:
        super().__init__()
        self.n_spans, self.degree = n_spans, degree
        self.base = nn.Parameter(th.randn(output_dim, input_dim) / input_dim**0.5)
        self.splines = nn.Parameter(0.1 * th.randn(output_dim, input_dim * (n_spans + degree)))

    def forward(self, x: th.Tensor) -> th.Tensor:
        values = bspline_basis(((x + 1) / 2).clamp(0, 1), self.n_spans, self.degree)  # (B, I, N)
        return nn.functional.linear(nn.functional.silu(x), self.base) + nn.functional.linear(values.flatten(1), self.splines)


def make_kan(input_dim: int, hidden: int, output_dim: int) -> nn.Module:
    return nn.Sequential(KANLayer(input_dim, hidden), KANLayer(hidden, output_dim))
