"""Counting without building, and the shape that comes closest to a number."""

import pytest
from stable_baselines3.common.torch_layers import create_mlp

from sb3_span.nn import SPAN
from sb3_span.nn.budget import Role, count_mlp, count_span, count_trainable, match_mlps, span_candidates


@pytest.mark.parametrize(
    "span_arch",
    [
        None,
        dict(nmodes=1, nelems=2),
        dict(basis="bspline", nelems=1, degree=1),
        dict(basis="bspline", degree=3, latent_dim=3),
        *(dict(preprocess=name) for name in ("layernorm", "batchnorm", "minmax", "none")),
        *(dict(nmodes=2, group_size=size) for size in (1, 2, 9)),
        dict(basis="bspline", latent_dim=7, group_size=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("input_dim", [1, 5, 129])
def test_formula_is_the_built_network(span_arch, input_dim):
    assert count_span(input_dim, span_arch, 3) == count_trainable([SPAN(input_dim, span_arch, output_dim=3)])
    assert count_span(input_dim, span_arch, 0) == count_trainable([SPAN(input_dim, span_arch)])


@pytest.mark.parametrize("widths", [[], [7], [4, 3], [5, 6, 7]], ids=str)
def test_formula_is_the_built_mlp(widths):
    assert count_mlp(4, widths, 2) == count_trainable(create_mlp(4, 2, widths))


def test_shared_and_frozen_parameters():
    net = SPAN(3, None)
    once = count_trainable([net])
    assert count_trainable([net, net]) == once
    net.coefficients.requires_grad_(False)
    assert count_trainable([net]) == once - net.coefficients.numel()


# A policy of two networks: an actor with 6 outputs and twin critics, about the size of Hopper's.
ROLES = [Role(11, 6), Role(14, 1, n_networks=2)]


def count(span_arch):
    return sum(role.count_span(span_arch) for role in ROLES)


@pytest.mark.parametrize("budget", [900, 1500, 3744, 20_000, 300_000])
def test_candidates(budget):
    candidates = span_candidates(count, budget)
    assert all(count(arch) == params <= 1.02 * budget for arch, params in candidates)
    assert {arch["basis"] for arch, _ in candidates} == {"kernel", "bspline"}
    # One more or one fewer mode is never closer, unless it is too much over.
    for arch, params in candidates:
        for nmodes in (arch["nmodes"] - 1, arch["nmodes"] + 1):
            if nmodes and (other := count({**arch, "nmodes": nmodes})) <= 1.02 * budget:
                assert abs(params - budget) <= abs(other - budget)
    # The first: within 2 % wherever anything is.
    off = [abs(params - budget) / budget for _, params in candidates]
    assert off[0] <= max(0.02, min(off))


def test_the_first_candidate_is_balanced():
    for budget in (2000, 3744, 10_000, 50_000, 200_000):
        arch = span_candidates(count, budget)[0].span_arch
        assert arch["basis"] == "kernel" and 0.6 < arch["nmodes"] / arch["nelems"] < 2.5


@pytest.mark.parametrize("budget", [3744, 20_000, 300_000])
def test_the_first_candidate_is_like_the_default(budget):
    default = dict(group_size=3, latent_dim=48, nmodes=8, nelems=4)
    candidates = span_candidates(count, budget, default)
    (arch, params), *_ = candidates
    assert (arch["group_size"], arch["nelems"]) == (3, 4) and arch["latent_dim"] % 3 == 0
    assert count(arch) == params and abs(params - budget) <= 0.02 * budget
    assert 0.5 <= arch["nmodes"] / (arch["latent_dim"] / 3) / (8 / 16) <= 2
    assert [each for each in candidates if "group_size" not in each.span_arch] == span_candidates(count, budget)
    # The default itself is what comes first for its own number.
    assert span_candidates(count, count(default), default)[0] == (default, count(default))


def test_wide_inputs_get_fewer_latent_dimensions():
    role = Role(400, 2)
    (arch, params), *_ = span_candidates(role.count_span, 5000)
    assert arch["latent_dim"] < 64 and 4900 <= params <= 5100
    with pytest.raises(ValueError, match=r"The budget is 300 parameters; the smallest SPAN networks here have 408\. Raise it"):
        span_candidates(role.count_span, 300)


def test_mlps_are_matched_role_by_role():
    arch = dict(nmodes=10, nelems=8)
    targets = [(role, role.count_span(arch)) for role in ROLES]
    for (role, target), widths in zip(targets, match_mlps(targets), strict=True):
        off = abs(role.count_mlp(widths) - target)
        # No pair of layers that are at most one apart is closer.
        others = [role.count_mlp([first, first + apart]) for first in range(2, 80) for apart in (-1, 0, 1)]
        assert off == min(abs(other - target) for other in others)


def test_of_two_equally_close_mlps_the_one_that_evens_out():
    # CartPole's networks: 44 and 42 parameters; [4, 3] and [4, 4] are both three off for the second one.
    assert match_mlps([(Role(4, 2), 44), (Role(4, 1), 42)]) == [[4, 3], [4, 4]]
