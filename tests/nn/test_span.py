"""The network's mathematics: what it computes, its gradients, its behaviour at the extremes."""

import copy

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_span.nn import SPAN, SPANArch
from sb3_span.nn.arch import PREPROCESSES
from sb3_span.nn.basis import basis_values
from sb3_span.nn.splines import product

KERNEL = dict(basis="kernel", nmodes=3, nelems=4)
BSPLINE = dict(basis="bspline", nmodes=3, nelems=2, degree=2)
BOTH = pytest.mark.parametrize("arch", [KERNEL, BSPLINE], ids=["kernel", "bspline"])


def by_hand(net: SPAN, x: th.Tensor, network: int) -> th.Tensor:
    """One network of a stack, one sample and one mode at a time, straight from the definition."""
    w_pre, b_pre = net.preprocess.weight[network], net.preprocess.bias[network]
    rows = []
    for sample in x:
        z = (w_pre @ sample + b_pre).sigmoid()
        values = basis_values(z.expand(net.coefficients.shape[0], 1, -1), net.scale, net.arch.nelems, net.arch.degree)[
            network, 0
        ]  # (D, N)
        modes = []
        size = net.arch.group_size or len(z)
        for group in [range(len(z))[first : first + size] for first in range(0, len(z), size)]:
            for j in range(net.arch.nmodes):
                mode = th.ones((), dtype=x.dtype)
                for p in group:
                    mode = mode * (values[p] @ net.coefficients[network, p, :, j])
                modes.append(mode)
        rows.append(th.stack(modes))
    return th.stack(rows)


@BOTH
def test_equals_the_definition(arch):
    net = SPAN(5, {**arch, "latent_dim": 7}, n_stack=3).double()
    x = th.randn(6, 5, dtype=th.float64)
    modes = net(x)
    assert modes.shape == (3, 6, 3)
    for network in range(3):
        th.testing.assert_close(modes[network], by_hand(net, x, network))
        th.testing.assert_close(net(x, only=network), modes[network])


# Of seven or five dimensions: groups of one; the last of them smaller; the last of one dimension alone.
GROUPS = pytest.mark.parametrize("group_size", [1, 2, 3, 4])


@BOTH
@GROUPS
def test_groups_equal_the_definition(arch, group_size):
    net = SPAN(5, {**arch, "latent_dim": 7, "group_size": group_size}, n_stack=2).double()
    x = th.randn(6, 5, dtype=th.float64)
    width = -(-7 // group_size) * 3
    assert net.n_modes == net.arch.count_modes(5) == width
    for network, modes in enumerate(net(x)):
        expected = by_hand(net, x, network)
        assert expected.shape == (6, width)
        th.testing.assert_close(modes, expected)


def test_two_groups_by_hand():
    """z = 1/2 lies in the middle of three straight pieces; the third dimension is a group of its own."""
    net = SPAN(1, dict(basis="bspline", degree=1, nelems=2, nmodes=1, latent_dim=3, group_size=2, preprocess="dense"))
    with th.no_grad():
        net.preprocess.weight.zero_(), net.preprocess.bias.zero_()
        net.coefficients[0, :, :, 0] = th.tensor([2.0, 3.0, 5.0])[:, None]
    assert net(th.randn(1, 1)).tolist() == [[6.0, 5.0]]


@BOTH
@pytest.mark.parametrize("size", [4, 5, 100])
def test_a_group_of_all_dimensions_is_none(arch, size):
    """... to the last bit, the start among it."""
    nets = []
    for group_size in (None, size):
        th.manual_seed(0)
        nets.append(SPAN(4, {**arch, "group_size": group_size}, n_stack=2, output_dim=2))
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert th.equal(one, other)
    x = th.randn(9, 4)
    assert th.equal(nets[0](x), nets[1](x))
    assert th.equal(nets[0].double()(x.double()), nets[1].double()(x.double()))


@BOTH
def test_head_is_linear_in_the_modes(arch):
    net, x = SPAN(4, arch, n_stack=2, output_dim=5), th.randn(8, 4)
    body = SPAN(4, arch, n_stack=2)
    body.load_state_dict({name: value for name, value in net.state_dict().items() if not name.startswith("head")})
    outputs = net(x)
    assert outputs.shape == (2, 8, 5)
    for network, modes in enumerate(body(x)):
        expected = th.nn.functional.linear(modes, net.head.weight[network], net.head.bias[network])
        th.testing.assert_close(outputs[network], expected)
        th.testing.assert_close(net(x, only=network), expected)


@BOTH
def test_single_network_is_a_stack_of_one(arch):
    net, x = SPAN(4, arch), th.randn(8, 4)
    assert net(x).shape == (8, 3)
    stack = SPAN(4, arch, n_stack=1)
    stack.load_state_dict(net.state_dict())
    th.testing.assert_close(stack(x)[0], net(x))


@BOTH
@pytest.mark.parametrize("group_size", [None, 1, 2])
@pytest.mark.parametrize("scale", [None, -3.0, 1e6])
def test_gradients(arch, scale, group_size):
    net = SPAN(3, {**arch, "group_size": group_size}, n_stack=2, output_dim=2).double()
    if scale is not None and arch is KERNEL:
        net.scale.data.fill_(scale)
    # A factor that is exactly zero everywhere, and one that is zero in one mode.
    net.coefficients.data[0, 1] = 0
    net.coefficients.data[1, 0, :, 1] = 0
    x = th.randn(4, 3, dtype=th.float64, requires_grad=True)
    names, params = zip(*net.named_parameters(), strict=True)

    def run(x, *params):
        return th.func.functional_call(net, dict(zip(names, params, strict=True)), (x,))

    assert th.autograd.gradcheck(run, (x, *params), atol=1e-4)
    if scale is None:
        assert th.autograd.gradgradcheck(run, (x, *params), atol=1e-4)


def test_product_gradient_survives_zeros_and_underflow():
    factors = th.tensor([1e-30, 1e-30, 0.5, 2.0, 1.0])[None, :, None, None].requires_grad_()
    product(factors, 5).sum().backward()
    th.testing.assert_close(factors.grad.flatten()[:2], th.tensor([1e-30, 1e-30]), rtol=1e-5, atol=0)
    factors = th.tensor([3.0, 0.0, 5.0])[None, :, None, None].requires_grad_()
    product(factors, 3).sum().backward()
    assert factors.grad.flatten().tolist() == [0.0, 15.0, 0.0]


@BOTH
def test_update_is_local_in_the_coefficients(arch):
    net = SPAN(3, {**arch, "nelems": 8})
    before = net.coefficients.detach().clone()
    x = th.randn(1, 3)
    active = basis_values(net.preprocess(x), net.scale, net.arch.nelems, net.arch.degree)[0, 0] > 0  # (D, N)
    assert 0 < active.sum() < active.numel()
    net(x).sum().backward()
    th.optim.Adam(net.parameters(), lr=0.1).step()
    moved = (net.coefficients != before)[0]  # (D, N, M)
    assert (moved.all(-1) == active).all()
    assert (moved.any(-1) == active).all()


@BOTH
@pytest.mark.parametrize("preprocess", PREPROCESSES)
@pytest.mark.parametrize("huge", [1e30, -1e30])
def test_finite_for_huge_inputs(arch, preprocess, huge):
    net = SPAN(3, {**arch, "preprocess": preprocess})
    x = th.tensor([[huge, 0.3, -huge], [0.0, huge, 1.0]], requires_grad=True)
    modes = net(x)
    modes.sum().backward()
    assert modes.isfinite().all()
    assert x.grad.isfinite().all()
    assert all(param.grad.isfinite().all() for param in net.parameters())


@BOTH
@pytest.mark.parametrize("preprocess", PREPROCESSES)
def test_nan_input_gives_nan(arch, preprocess):
    net = SPAN(3, {**arch, "preprocess": preprocess}).train()
    net(th.randn(16, 3))
    net(th.full((2, 3), float("nan")))  # leaves no trace in running statistics
    net.eval()
    x = th.randn(2, 3)
    x[1, 2] = float("nan")
    modes = net(x)
    assert modes[0].isfinite().all()
    assert modes[1].isnan().all()


@pytest.mark.parametrize("preprocess", PREPROCESSES)
def test_preprocess_stays_in_the_unit_interval(preprocess):
    net = SPAN(3, {**KERNEL, "preprocess": preprocess}, n_stack=2).train()
    for scale in (1.0, 100.0):
        z = net.preprocess(scale * th.randn(64, 3))
        assert z.min() >= 0 and z.max() <= 1
    assert net(th.randn(1, 3)).isfinite().all()  # a batch of one, in training too
    assert net(th.randn(0, 3)).shape == (2, 0, 3)


def test_minmax_learns_the_range_and_ignores_what_is_not_finite():
    net = SPAN(2, {**KERNEL, "preprocess": "minmax"}).train()
    th.testing.assert_close(net.eval().preprocess(th.randn(4, 2)), th.full((1, 4, 2), 0.5))
    net.train().preprocess(th.tensor([[-1.0, 10.0], [3.0, 30.0], [float("nan"), float("inf")]]))
    net.eval()
    th.testing.assert_close(net.preprocess(th.tensor([[1.0, 15.0], [9.0, 0.0]])), th.tensor([[[0.5, 0.25], [1.0, 0.0]]]))


@BOTH
@pytest.mark.parametrize("group_size", [None, 1, 3])
def test_every_parameter_learns(arch, group_size):
    net = SPAN(4, {**arch, "group_size": group_size}, n_stack=2, output_dim=2)
    before = copy.deepcopy(net.state_dict())
    (net(5 * th.randn(512, 4)) ** 2).sum().backward()  # wide enough to reach the outermost splines
    th.optim.SGD(net.parameters(), lr=1e-3).step()
    for name, param in net.named_parameters():
        assert (param != before[name]).all(), name


def test_state_is_made_of_parameters_with_readable_names():
    names = {"preprocess.weight", "preprocess.bias", "scale", "coefficients", "head.weight", "head.bias"}
    assert set(SPAN(4, KERNEL, output_dim=1).state_dict()) == names
    assert set(SPAN(4, BSPLINE, output_dim=1).state_dict()) == names - {"scale"}


@pytest.mark.parametrize("input_dim, latent_dim", [(128, 128), (129, 64), (512, 64)])
def test_wide_inputs_are_projected_down(input_dim, latent_dim):
    assert SPAN(input_dim, KERNEL).latent_dim == latent_dim
    assert SPAN(input_dim, {**KERNEL, "latent_dim": 5}).latent_dim == 5


@BOTH
@pytest.mark.parametrize("group_size", [None, 1, 3])
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")
def test_can_be_traced(arch, group_size):
    net = SPAN(5, {**arch, "group_size": group_size}, n_stack=2, output_dim=1)
    traced = th.jit.trace(net, (th.randn(3, 5),))
    x = th.randn(9, 5)
    th.testing.assert_close(traced(x), net(x))


@pytest.mark.parametrize("preprocess", ["dense", "layernorm", "batchnorm", "minmax", "none"])
@pytest.mark.parametrize("n_stack, only", [(None, None), (2, None), (2, 1)])
@pytest.mark.parametrize("group_size", [None, 2])
@BOTH
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")
def test_can_be_scripted(arch, group_size, n_stack, only, preprocess):
    net = SPAN(5, {**arch, "preprocess": preprocess, "group_size": group_size}, n_stack=n_stack, output_dim=1)
    net(th.randn(20, 5))
    scripted = th.jit.script(net)
    scripted(th.randn(20, 5)).sum().backward()
    assert net.coefficients.grad is not None  # the parameters are the same
    x = th.randn(9, 5)
    th.testing.assert_close(scripted.eval()(x, only), net.eval()(x, only), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arch", [dict(basis="kernel"), dict(basis="bspline", degree=2)])
@pytest.mark.parametrize("dim", [2, 16, 128])
def test_modes_at_the_start(arch, dim):
    """Modes lie around zero. A product over many dimensions neither dies nor explodes; modes differ as much as over few."""
    modes = SPAN(dim, dict(arch, nmodes=200))(th.randn(64, dim)).detach()
    assert -0.3 < modes.median() < 0.3 and 0.2 < modes.std(dim=0).median() < 1.0
    if arch["basis"] == "bspline":  # bumps sum to 0.875 at the ends of the interval
        saturated = SPAN(dim, dict(arch, nmodes=200))(100 * th.randn(64, dim)).detach()
        assert 0.3 < saturated.abs().median() < 3.0 and saturated.abs().max() < 400


@pytest.mark.parametrize("n_stack, dim, nmodes", [(1, 5, 3), (2, 5, 5), (2, 3, 8)])
def test_one_factor_of_each_mode_crosses_zero(n_stack, dim, nmodes):
    """... another one for each mode, while there are others."""
    net = SPAN(dim, dict(basis="bspline", degree=1, nmodes=nmodes, nelems=2), n_stack=n_stack)
    middle = net.coefficients.detach()[:, :, 2, :]  # (C, D, M): of five functions the third is at z = 1/2
    th.testing.assert_close(middle.sum(dim=1), th.full((n_stack, nmodes), dim - 1.0))
    assert ((middle == 0).sum(dim=1) == 1).all()
    by_dimension = (middle == 0).sum(dim=2)
    assert by_dimension.max() - by_dimension.min() <= 1


@pytest.mark.parametrize("group_size", [1, 2, 3])
def test_one_factor_of_each_mode_of_a_group_crosses_zero(group_size):
    net = SPAN(5, dict(basis="bspline", degree=1, nmodes=4, nelems=2, group_size=group_size), n_stack=3)
    crosses = net.coefficients.detach()[:, :, 2, :] == 0
    for group in crosses.split(group_size, dim=1):
        assert (group.sum(dim=1) == 1).all()
        by_dimension = group.sum(dim=2)
        assert group.shape[1] < group_size or (by_dimension.max() - by_dimension.min() <= 1)


@pytest.mark.parametrize("slope", [0.4, 2.5, 8])
def test_slopes_at_the_start(slope):
    dim = 25
    net = SPAN(dim, dict(nmodes=160, nelems=5, slope=slope))
    slopes = net.coefficients.detach()[0].diff(dim=1) * 4  # the grid's spacing is a quarter
    crosses = net.coefficients.detach()[0, :, 2, :] == 0
    steep = slopes[:, 0][crosses] / slope
    assert len(steep) == 160 and 0.999 < steep.min() < 1.1 and 1.9 < steep.max() < 2.001
    assert slopes[:, 0][~crosses].std() == pytest.approx(slope / dim**0.5, rel=0.05)


@pytest.mark.parametrize("arch", [dict(basis="kernel"), *(dict(basis="bspline", degree=degree) for degree in (1, 2, 3))])
def test_factors_start_as_straight_lines(arch):
    net = SPAN(2, dict(arch, nmodes=2, nelems=6, preprocess="none"))
    z = th.linspace(0.1, 0.9, 9)  # at its ends the kernel basis is not whole
    for fixed in (0, 1):
        # Along one dimension, with the other one held where neither factor is zero.
        lines = net(th.stack([z, th.full_like(z, 0.7)], dim=1).roll(fixed, dims=1)).detach()
        th.testing.assert_close(lines.diff(dim=0), lines.diff(dim=0)[:1].expand(8, 2), rtol=0, atol=1e-5)
        assert (lines.diff(dim=0).abs() > 1e-4).all()


@given(
    st.builds(
        dict,
        nmodes=st.integers(1, 7),
        nelems=st.integers(2, 9),
        latent_dim=st.none() | st.integers(1, 9),
        group_size=st.none() | st.integers(1, 9),
        shape=st.sampled_from([dict(basis="kernel")] + [dict(basis="bspline", degree=degree) for degree in (1, 2, 3, 4)]),
    ),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(0, 5),
)
@settings(deadline=None, max_examples=60)
def test_any_shape(options, input_dim, n_stack, batch):
    shape = options.pop("shape")
    arch = SPANArch.make({**options, **shape})
    net = SPAN(input_dim, arch, n_stack=n_stack)
    modes = net(th.randn(batch, input_dim))
    latent = arch.latent_dim or input_dim
    assert modes.shape == (n_stack, batch, -(-latent // (arch.group_size or latent)) * arch.nmodes)
    assert modes.isfinite().all()
    per_network = latent * input_dim + latent + latent * arch.n_basis * arch.nmodes + latent * (arch.basis == "kernel")
    assert sum(param.numel() for param in net.parameters()) == n_stack * per_network
    assert SPANArch.make(arch.to_dict()) == arch


@pytest.mark.parametrize(
    "sizes", [dict(input_dim=0), dict(input_dim=3.0), dict(n_stack=0), dict(output_dim=0), dict(output_dim=True)]
)
def test_wrong_sizes(sizes):
    ((name, value),) = sizes.items()
    with pytest.raises(ValueError, match=rf"{name} is {value}; it must be an integer of at least 1"):
        SPAN(**{"input_dim": 3, **sizes})


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")
def test_sizes_may_be_numpys():
    net = SPAN(np.int64(3), dict(nelems=np.int64(4), slope=np.float32(2), group_size=np.int64(2)), output_dim=np.int64(2))
    assert {type(value) for value in net.arch.to_dict().values()} == {int, float, str, type(None)}
    x = th.randn(5, 3)
    th.testing.assert_close(th.jit.script(net)(x), net(x))
