"""
The two families of local basis functions.

Shape letters, here and everywhere in the package: C stacked networks, B batch, D latent dimensions,
N basis functions, M modes, A actions.
"""

import torch as th
from torch import nn

from sb3_span.nn.arch import SPANArch
from sb3_span.nn.stacked import pick


def bspline_basis(z: th.Tensor, n_spans: int, degree: int) -> th.Tensor:
    """
    Evaluate every B-spline on uniform knots at every input.

    The knots split [0, 1] into ``n_spans`` equal spans and go on past both ends, so that the values at
    one point are non-negative and sum to 1 everywhere on [0, 1], both ends included.

    :param z: Inputs in [0, 1], shape (..., D)
    :param n_spans: Number of knot spans inside [0, 1]
    :param degree: Polynomial degree; 1 is piecewise linear
    :return: Basis values, shape (..., D, n_spans + degree)
    """
    # In units of a span, the knots are the integers -degree ... n_spans + degree.
    knots = th.arange(-degree, n_spans + degree, device=z.device, dtype=z.dtype)
    u = (z * n_spans).unsqueeze(-1)
    # Degree 0: 1 in the input's own span. The last span is closed, it holds z = 1.
    values = (knots == u.floor().clamp(max=n_spans - 1)).to(z.dtype)
    # Cox - de Boor. A NaN input is in no span, but it reaches every value through u.
    for k in range(1, degree + 1):
        rising = (u - knots[:-k]) * values[..., :-1]
        falling = (knots[:-k] + (k + 1) - u) * values[..., 1:]
        values = (rising + falling) / k
    return values


def kernel_basis(z: th.Tensor, centres: th.Tensor, scale: th.Tensor) -> th.Tensor:
    """
    Evaluate quadratic B-spline bumps of a learned width at every input.

    With ``t = |z - centre| * |scale|`` a bump is ``0.75 - t^2`` up to 0.5, ``0.5 (1.5 - t)^2`` up to 1.5,
    and 0 beyond; written as a difference of two truncated squares, which is the same function without a branch.

    :param z: Inputs in [0, 1], shape (C, B, D)
    :param centres: Centres of the bumps, shape (N,)
    :param scale: Inverse widths; only the magnitude matters, shape (C, D)
    :return: Basis values, shape (C, B, D, N)
    """
    t = ((z.unsqueeze(-1) - centres) * scale[:, None, :, None]).abs()
    return 0.5 * (1.5 - t).clamp(min=0).square() - 1.5 * (0.5 - t).clamp(min=0).square()


class BSplineBasis(nn.Module):
    """
    B-splines of any degree on fixed uniform knots: ``nelems`` inner spans and one more at either end.

    :param arch: Its ``nelems`` and ``degree`` are used
    """

    def __init__(self, arch: SPANArch) -> None:
        super().__init__()
        self.n_spans = arch.nelems + 2
        self.degree = arch.degree

    def forward(self, z: th.Tensor, only: int | None = None) -> th.Tensor:
        return bspline_basis(z, self.n_spans, self.degree)


class KernelBasis(nn.Module):
    """
    Quadratic bumps on a uniform grid, with one learned inverse width for each latent dimension.

    At the initial scale, ``nelems - 1``, the bumps overlap as B-splines do and at most 3 are non-zero.
    A scale above three times that leaves gaps between the bumps, where whole modes are zero.

    :param arch: Its ``nelems`` is used
    :param latent_dim: Number of latent dimensions D
    :param n_stack: Number of stacked networks C
    """

    centres: th.Tensor

    def __init__(self, arch: SPANArch, latent_dim: int, n_stack: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(th.full((n_stack, latent_dim), float(arch.nelems - 1)))
        # Not persistent: it follows from nelems, and SB3 does not sync it to target networks.
        self.register_buffer("centres", th.linspace(0, 1, arch.nelems), persistent=False)

    def forward(self, z: th.Tensor, only: int | None = None) -> th.Tensor:
        return kernel_basis(z, self.centres, pick(self.scale, only))
