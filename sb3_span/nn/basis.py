"""The two families of local basis functions."""

import torch as th


def bspline_basis(z: th.Tensor, n_spans: int, degree: int) -> th.Tensor:
    """
    Evaluate every B-spline on uniform knots at every input.

    The knots split [0, 1] into ``n_spans`` equal spans and extend past both ends, so that the values at
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


def kernel_basis(z: th.Tensor, nelems: int, scale: th.Tensor) -> th.Tensor:
    """
    Evaluate quadratic B-spline bumps of a learned width, centred on a uniform grid, at every input.

    With ``t = |z - centre| * |scale|`` a bump is ``0.75 - t^2`` up to 0.5, ``0.5 (1.5 - t)^2`` up to 1.5,
    and 0 beyond; written as a difference of two truncated squares, which is the same function without a branch.

    :param z: Inputs in [0, 1], shape (C, B, D)
    :param nelems: Number of bumps N
    :param scale: Inverse widths; only the magnitude matters, shape (C, D)
    :return: Basis values, shape (C, B, D, N)
    """
    centres = th.linspace(0, 1, nelems, device=z.device, dtype=z.dtype)
    t = ((z.unsqueeze(-1) - centres) * scale[:, None, :, None]).abs()
    return 0.5 * (1.5 - t).clamp(min=0).square() - 1.5 * (0.5 - t).clamp(min=0).square()


def basis_values(z: th.Tensor, scale: th.Tensor | None, nelems: int, degree: int) -> th.Tensor:
    """
    Evaluate the basis of a network.

    :param z: Inputs in [0, 1], shape (C, B, D)
    :param scale: The kernel basis' scales, shape (C, D); None for B-splines
    :param nelems: Number of elements
    :param degree: Degree of the B-splines
    :return: Basis values, shape (C, B, D, N)
    """
    if scale is not None:
        return kernel_basis(z, nelems, scale)
    # nelems inner spans, and one more at either end.
    return bspline_basis(z, nelems + 2, degree)


def basis_places(nelems: int, degree: int | None) -> th.Tensor:
    """
    Where on [0, 1] each basis function is. Coefficients on a straight line over these places give a spline that is this line,
    wherever the basis sums to one.

    :param nelems: Number of elements
    :param degree: Degree of the B-splines; None for the kernel basis
    :return: Places, shape (N,); for a B-spline the mean of its inner knots, which may be outside [0, 1] at the ends
    """
    if degree is None:
        return th.linspace(0, 1, nelems)
    n_spans = nelems + 2
    return (th.arange(n_spans + degree) - (degree - 1) / 2) / n_spans
