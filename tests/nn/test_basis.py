"""Basis values against SciPy's, and their gradients."""

import numpy as np
import pytest
import torch as th
from scipy.interpolate import BSpline

from sb3_span.nn.basis import bspline_basis, kernel_basis

GRID = np.linspace(0, 1, 1001)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_spans", [3, 4, 10])
def test_bspline_equals_scipy(n_spans, degree):
    knots = np.arange(-degree, n_spans + degree + 1) / n_spans
    expected = BSpline(knots, np.eye(n_spans + degree), degree)(GRID)
    values = bspline_basis(th.as_tensor(GRID), n_spans, degree)
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [th.float32, th.float64])
@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_bspline_is_a_partition_of_unity(degree, dtype):
    one_below = th.nextafter(th.tensor(1.0, dtype=dtype), th.tensor(0.0, dtype=dtype))
    z = th.cat([th.as_tensor(GRID, dtype=dtype), one_below[None]])
    values = bspline_basis(z, 4, degree)
    assert values.min() >= 0
    assert (values > 0).sum(-1).max() == degree + 1
    np.testing.assert_allclose(values.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("scale", [7.0, 6.3, 2.0, 40.0, -7.0, -3.5])
def test_kernel_equals_scipy(scale):
    centres = np.linspace(0, 1, 8)
    width = 1 / abs(scale)
    expected = np.stack(
        [BSpline.basis_element(c + width * np.array([-1.5, -0.5, 0.5, 1.5]), extrapolate=False)(GRID) for c in centres],
        axis=-1,
    )
    values = kernel_basis(th.as_tensor(GRID)[None, :, None], 8, th.full((1, 1), scale, dtype=th.float64))
    np.testing.assert_allclose(values[0, :, 0], np.nan_to_num(expected), atol=1e-12)


def test_kernel_starts_with_three_bumps_at_most():
    values = kernel_basis(th.as_tensor(GRID)[None, :, None], 8, th.full((1, 1), 7.0))
    assert (values > 0).sum(-1).max() == 3


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_bspline_gradient(degree):
    z = th.rand(3, 4, dtype=th.float64, requires_grad=True)
    assert th.autograd.gradcheck(lambda z: bspline_basis(z, 5, degree), z)


@pytest.mark.parametrize("scale", [7.0, -7.0, 0.5, -0.01, 60.0, -1e3])
def test_kernel_gradient(scale):
    # Inputs close to the centres as well, so that narrow bumps are not all zero.
    centres = th.linspace(0, 1, 5, dtype=th.float64)
    z = th.cat([th.rand(20, dtype=th.float64), centres + 0.3 / abs(scale)])[None, :, None].requires_grad_()
    scales = th.full((1, 1), scale, dtype=th.float64, requires_grad=True)
    assert th.autograd.gradcheck(lambda z, s: kernel_basis(z, 5, s), (z, scales), eps=1e-8, atol=1e-4)


@pytest.mark.parametrize("scale", [1e8, -1e20, 3e38])
def test_kernel_with_a_scale_out_of_all_proportion(scale):
    z = th.tensor([0.0, 0.3, 0.5, 1.0])[None, :, None].requires_grad_()
    scales = th.full((1, 1), scale, requires_grad=True)
    values = kernel_basis(z, 3, scales)
    # On a centre the bump's height, elsewhere nothing; and nothing to learn.
    assert values[0, :, 0].tolist() == [[0.75, 0, 0], [0, 0, 0], [0, 0.75, 0], [0, 0, 0.75]]
    values.sum().backward()
    assert (z.grad == 0).all() and (scales.grad == 0).all()


def test_nan_stays_nan():
    z = th.tensor([[0.2, float("nan")]])
    assert bspline_basis(z, 4, 1)[0, 1].isnan().all()
    assert bspline_basis(z, 4, 1)[0, 0].isfinite().all()
    assert kernel_basis(z[None], 4, th.full((1, 2), 3.0))[0, 0, 1].isnan().all()
