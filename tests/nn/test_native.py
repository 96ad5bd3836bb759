"""The native kernel against torch in double precision, and when it steps aside."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize, prune

from sb3_span.nn import SPAN, kernel_info
from sb3_span.nn.native import choice
from sb3_span.nn.native.function import KERNELS, supports

if choice.extension is None:
    pytest.skip("the native kernel was not built: no C compiler when sb3_span was installed", allow_module_level=True)

TOLERANCE = 1e-5
SHAPES = [
    dict(basis="kernel", nmodes=10, nelems=8),
    dict(basis="kernel", nmodes=3, nelems=2),
    dict(basis="kernel", nmodes=9, nelems=5),
    dict(basis="bspline", nmodes=1, nelems=2, degree=1),
    dict(basis="bspline", nmodes=7, nelems=1, degree=2),
    dict(basis="bspline", nmodes=17, nelems=3, degree=3),
    dict(basis="kernel", nmodes=2, nelems=4, group_size=1),
    dict(basis="kernel", nmodes=3, nelems=3, group_size=2),
    dict(basis="bspline", nmodes=4, nelems=2, degree=1, group_size=3),
]
EACH_SHAPE = pytest.mark.parametrize(
    "arch",
    SHAPES,
    ids=lambda arch: "-".join(
        [arch["basis"], str(arch.get("degree", 2))] + ([f"groups of {arch['group_size']}"] if "group_size" in arch else [])
    ),
)
EACH_KERNEL = pytest.mark.parametrize("kernel", range(len(KERNELS)), ids=[name for name, _ in KERNELS])


def run_native(net, x, kernel=0):
    return net.native(x, net._native_parameters(), kernel=kernel)


def gradients(net, x, grad_out, run):
    """Outputs, and the gradients of the input and of every parameter by name."""
    x = x.detach().clone().requires_grad_()
    net.zero_grad()
    out = run(net, x)
    out.backward(grad_out)
    return {"out": out.detach(), "x": x.grad, **{name: param.grad.clone() for name, param in net.named_parameters()}}


def assert_equals_double_precision(net, x, kernel, tolerance=None):
    """
    Outputs and gradients are those of torch in double precision, relative to a tensor's largest absolute value. Where the
    terms of its sums cancel, single precision cannot do as well as that, but it can do as well as torch in single precision.
    """
    net.coefficients.data *= 1 + 0.1 * th.randn_like(net.coefficients)  # no longer the straight lines of the start
    reference = copy.deepcopy(net).double()
    grad_out = th.randn(net.n_stack, len(x), net.output_dim or net.n_modes)
    ours = gradients(net, x, grad_out, lambda net, x: run_native(net, x, kernel))
    exact = gradients(reference, x.double(), grad_out.double(), SPAN.__call__)
    with mock.patch.object(choice, "IS_NATIVE", False):
        single = gradients(net, x, grad_out, SPAN.__call__)
    for name, value in exact.items():
        assert ours[name].shape == value.shape
        if value.numel():
            allowed = (tolerance or TOLERANCE) * value.abs().max().clamp(min=1e-30)
            error = (ours[name] - value).abs().max()
            assert error <= max(allowed, 4 * (single[name] - value).abs().max()), (name, error / allowed)


@given(data=st.data())
@settings(deadline=None, max_examples=80, derandomize=True)
@EACH_KERNEL
def test_equals_double_precision(kernel, data):
    arch = dict(data.draw(st.sampled_from(SHAPES)))
    arch |= dict(nmodes=data.draw(st.integers(1, 20)), nelems=data.draw(st.integers(2, 12)))
    arch |= dict(latent_dim=data.draw(st.integers(4, 20)), group_size=data.draw(st.none() | st.integers(1, 20)))
    # Not the very smallest: where a tensor holds only one sum, and that cancels, no single precision is enough.
    inputs, stack, batch = data.draw(st.integers(4, 20)), data.draw(st.integers(1, 3)), data.draw(st.integers(8, 20))
    th.manual_seed(data.draw(st.integers(0, 1000)))
    net = SPAN(inputs, arch, n_stack=stack, output_dim=data.draw(st.none() | st.integers(1, 3)))
    if net.scale is not None:  # learned scales, some of another sign
        net.scale.data *= data.draw(st.sampled_from([1.0, 0.9, 0.4, 0.05, 1.5, -1.0])) * (1 + 0.1 * th.randn_like(net.scale))
    # Some dimensions are saturated, all the way or almost. (Not by huge inputs: their sum has no such precision.)
    net.preprocess.bias.data += th.randint(-1, 2, net.preprocess.bias.shape) * data.draw(st.sampled_from([0, 10, 20, 100]))
    assert_equals_double_precision(net, 2 * th.randn(batch, inputs), kernel)


@EACH_KERNEL
@EACH_SHAPE
@pytest.mark.parametrize("batch", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dim", [1, 3, 8, 9, 33])
def test_smallest_and_odd_sizes(arch, dim, batch, kernel):
    """Looser: the point is that every element is where it belongs."""
    for net in (SPAN(dim, arch, n_stack=1), SPAN(1, {**arch, "latent_dim": dim}, n_stack=2, output_dim=1)):
        assert_equals_double_precision(net, th.randn(batch, net.input_dim), kernel, tolerance=1e-3)


@EACH_KERNEL
@EACH_SHAPE
def test_zero_factors(arch, kernel):
    net = SPAN(5, arch, n_stack=2, output_dim=2)
    net.coefficients.data[0, 1] = 0
    net.coefficients.data[1, 3, :, 0] = 0
    assert_equals_double_precision(net, th.randn(16, 5), kernel)


@EACH_KERNEL
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e4, -1e20])
def test_scales_out_of_all_proportion(scale, kernel):
    net = SPAN(3, dict(nmodes=4, nelems=5), n_stack=1, output_dim=1)
    net.scale.data.fill_(scale)
    assert_equals_double_precision(net, th.randn(8, 3), kernel)


def assert_equals_torch(net, x, kernel):
    """Where no precision is to be had: NaN and infinity in the same places."""
    grad_out = th.randn(2, len(x), 2)
    ours = gradients(net, x, grad_out, lambda net, x: run_native(net, x, kernel))
    with mock.patch.object(choice, "IS_NATIVE", False):
        theirs = gradients(net, x, grad_out, SPAN.__call__)
    for name, expected in theirs.items():
        th.testing.assert_close(ours[name], expected, equal_nan=True, rtol=1e-4, atol=1e-4)


@EACH_KERNEL
@EACH_SHAPE
@pytest.mark.parametrize("latent_dim", [None, 1])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
def test_nan_and_infinity_as_in_torch(arch, kernel, value, latent_dim):
    net = SPAN(4, {**arch, "latent_dim": latent_dim}, n_stack=2, output_dim=2)
    x = th.randn(6, 4)
    x[2, 1] = value
    assert_equals_torch(net, x, kernel)


@EACH_KERNEL
@EACH_SHAPE
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_among_the_parameters_as_in_torch(arch, kernel, value):
    for name, _ in SPAN(4, arch, output_dim=2).named_parameters():
        net = SPAN(4, arch, n_stack=2, output_dim=2)
        dict(net.named_parameters())[name].data.view(-1)[0] = value
        assert_equals_torch(net, th.randn(20, 4), kernel)
        with th.no_grad(), mock.patch.object(choice, "IS_NATIVE", False):
            expected = net(th.ones(1, 4), only=0)
        with th.no_grad():
            th.testing.assert_close(net(th.ones(1, 4), only=0), expected, equal_nan=True, rtol=1e-4, atol=1e-4)


@EACH_SHAPE
def test_one_network_of_a_stack(arch):
    net, x = SPAN(5, arch, n_stack=3, output_dim=2), th.randn(7, 5)
    outputs = net(x)
    for network in range(3):
        th.testing.assert_close(net(x, only=network), outputs[network])
        with th.no_grad():
            th.testing.assert_close(net(x, only=network), outputs[network])


@EACH_SHAPE
def test_gradients_of_what_is_wanted_only(arch):
    """A frozen network passes gradients to its input, a network at the bottom to its parameters."""
    net, x = SPAN(5, arch, n_stack=2, output_dim=1), th.randn(7, 5)
    full = gradients(net, x, th.ones(2, 7, 1), SPAN.__call__)
    net.zero_grad()
    net(x).sum().backward()
    for name, param in net.named_parameters():
        th.testing.assert_close(param.grad, full[name])
    net.requires_grad_(False)
    th.testing.assert_close(gradients_of_input(net, x), full["x"])
    assert not net(x).requires_grad


def gradients_of_input(net, x):
    x = x.clone().requires_grad_()
    net(x).sum().backward()
    return x.grad


@EACH_SHAPE
def test_another_default_type_changes_nothing(arch):
    net, x = SPAN(5, arch, n_stack=2, output_dim=2), th.randn(7, 5)
    expected = gradients(net, x, th.ones(2, 7, 2), run_native)
    th.set_default_dtype(th.float64)
    try:
        ours = gradients(net, x, th.ones(2, 7, 2, dtype=th.float32), run_native)
    finally:
        th.set_default_dtype(th.float32)
    for name, value in expected.items():
        assert ours[name].dtype is th.float32
        assert (ours[name] == value).all()


def test_threads_do_not_disturb_each_other():
    nets = [SPAN(9, arch, n_stack=2, output_dim=1) for arch in SHAPES]
    x = th.randn(200, 9)
    jobs = [net for net in nets for _ in range(20)]
    expected = [run_native(net, x).detach() for net in jobs]
    with ThreadPoolExecutor(8) as pool:
        for ours, alone in zip(pool.map(lambda net: run_native(net, x).detach(), jobs), expected, strict=True):
            assert (ours == alone).all()


# ------------------------------------------------------------------ which path is taken


@pytest.fixture
def calls(monkeypatch):
    """The sizes of the kernel's forward calls."""
    seen = []
    original = choice.extension.forward

    class Spy:
        backward = staticmethod(choice.extension.backward)

        @staticmethod
        def forward(*args):
            seen.append(args)
            return original(*args)

    monkeypatch.setattr("sb3_span.nn.native.function.extension", Spy)
    monkeypatch.setattr(choice, "IS_NATIVE", True)
    return seen


@EACH_SHAPE
def test_native_is_used_and_with_strides_too(arch, calls):
    net, wide = SPAN(4, arch), th.randn(6, 8)
    expected = copy.deepcopy(net).double()(wide[:, ::2].double())
    th.testing.assert_close(net(wide[:, ::2]), expected.float(), rtol=1e-5, atol=1e-5)
    assert len(calls) == 1


@EACH_SHAPE
def test_torch_for_everything_else(arch, calls):
    net, x = SPAN(4, arch), th.randn(6, 4)
    copy.deepcopy(net).double()(x.double())
    copy.deepcopy(net).to("meta")(x.to("meta"))
    th.vmap(lambda row: net(row[None]))(x)
    th.func.jacrev(net)(x)
    with th.autocast("cpu", dtype=th.bfloat16):
        net(x)
    th.compiler.reset()  # it keeps count of how often it has compiled this
    th.compile(net, backend="eager", fullgraph=True)(x)
    th.export.export(net, (x,))
    assert not calls


def test_shapes_that_the_kernel_does_not_have(calls):
    for options in (dict(basis="bspline", degree=4), dict(preprocess="minmax"), dict(preprocess="layernorm")):
        net = SPAN(4, options)
        assert not supports(net.arch)
        net(th.randn(3, 4))
    assert not calls


@EACH_SHAPE
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")  # forward-mode derivatives use it inside torch
def test_torch_when_something_is_out_of_the_ordinary(arch, calls):
    """What the kernel would read wrongly from memory: other layouts, types and shapes, parameters that were replaced."""
    x = th.randn(6, 4)

    def fresh():
        return SPAN(4, arch, output_dim=2)

    net = fresh().to(memory_format=th.channels_last)
    if not net.coefficients.is_contiguous():
        net(x)
    net = fresh()
    prune.l1_unstructured(net.head, "weight", amount=0.5)
    net(x)
    net = fresh()
    parametrize.register_parametrization(net, "coefficients", nn.Tanh())
    net(x)
    net = fresh()
    seen = []
    net.head.register_forward_hook(lambda *_: seen.append(1))
    net(x)
    assert seen
    net = fresh()
    net.preprocess = nn.Sigmoid()
    with pytest.raises(TypeError):
        net(x)
    net = fresh()
    net.head.double()
    with pytest.raises(RuntimeError):
        net(x)
    for wrong in (th.randn(6, 5), th.randn(6, 3), th.randn(4), th.randn(1, 6, 4)):
        with pytest.raises(ValueError, match=r"The input has the shape \(.*\); it must be \(batch, 4\)"):
            fresh()(wrong)
    fresh()(th._efficientzerotensor((6, 4)))
    graph = make_fx(net := fresh())(x)
    th.testing.assert_close(graph(y := th.randn(6, 4)), net(y))
    assert len(calls) == 1  # that of net(y)
    calls.clear()
    for only in (-1, 2):
        with pytest.raises(IndexError, match=rf"only is {only}; the stack has the networks 0 to 1"), th.no_grad():
            SPAN(4, arch, n_stack=2)(x, only=only)
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(fresh()(forward_ad.make_dual(x, th.ones_like(x)))).tangent is not None
    assert not calls


@EACH_SHAPE
def test_gradients_by_vmap(arch):
    net, x = SPAN(4, arch, output_dim=2), th.randn(3, 4)
    plain = th.autograd.functional.jacobian(net, x)
    th.testing.assert_close(th.autograd.functional.jacobian(net, x, vectorize=True), plain)


@EACH_SHAPE
def test_a_network_inside_itself(arch):
    """Gradients that can be differentiated again are the plain ones, also when the input depends on the parameters."""
    net, x = SPAN(2, arch, output_dim=2), th.randn(5, 2)
    plain = th.autograd.grad(net(net(x)).sum(), list(net.parameters()))
    again = th.autograd.grad(net(net(x)).sum(), list(net.parameters()), create_graph=True)
    for one, other in zip(plain, again, strict=True):
        th.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@EACH_SHAPE
def test_double_backward(arch):
    net, x = SPAN(3, arch, n_stack=2, output_dim=1), th.randn(5, 3, requires_grad=True)
    double, y = copy.deepcopy(net).double(), x.detach().double().requires_grad_()
    for network, point in ((net, x), (double, y)):
        (gradient,) = th.autograd.grad(network(point).sum(), point, create_graph=True)
        gradient.square().sum().backward()
    th.testing.assert_close(x.grad, y.grad.float(), rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(net.parameters(), double.parameters(), strict=True):
        if ours.grad is not None:
            th.testing.assert_close(ours.grad, theirs.grad.float(), rtol=1e-3, atol=1e-4)


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True)


HIDE = "import sys; sys.modules['sb3_span.nn.native._native'] = None; "
TELL = "import sb3_span.nn; print(sb3_span.nn.kernel_info())"


def test_choice_by_environment_variable():
    assert "'kernel': 'torch'" in python(TELL, SB3_SPAN_KERNEL="torch").stdout
    assert "'kernel': 'native'" in python(TELL, SB3_SPAN_KERNEL="native").stdout
    assert "'kernel': 'native'" in python(TELL, SB3_SPAN_KERNEL="auto").stdout
    error = python(TELL, SB3_SPAN_KERNEL="cuda").stderr
    assert "SB3_SPAN_KERNEL is 'cuda'; choose one of ['auto', 'native', 'torch']" in error


def test_without_the_extension():
    done = python(HIDE + TELL, SB3_SPAN_KERNEL="auto")
    assert "'kernel': 'torch'" in done.stdout
    assert done.stderr.count("SPAN networks run on torch, which is slower") == 1
    assert "Install it again where a C compiler" in python(HIDE + TELL, SB3_SPAN_KERNEL="native").stderr


def test_kernel_info():
    info = kernel_info()
    if info["kernel"] == "native":
        assert (info["instructions"], info["lanes"]) == KERNELS[0]
    assert info["reason"]
