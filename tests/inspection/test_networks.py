"""The networks inside a policy, and what is wrong with them."""

import pytest
import torch as th
from stable_baselines3 import PPO, SAC

from sb3_span import SPANFeaturesExtractor
from sb3_span.inspection.networks import find_networks
from tests.policies.envs import make

ARCH = dict(nmodes=4, nelems=5)


def networks_of(algorithm, policy="SPANPolicy", **policy_kwargs):
    actions = "box" if algorithm is SAC else "discrete"
    model = algorithm(policy, make("vector", actions), policy_kwargs=policy_kwargs, device="cpu")
    return model.policy, find_networks(model.policy)


@pytest.mark.parametrize(
    "algorithm, span_arch, roles",
    [
        pytest.param(PPO, ARCH, ["pi", "vf"], id="PPO stacked"),
        pytest.param(PPO, dict(pi=ARCH, vf=dict(nmodes=3)), ["pi", "vf"], id="PPO"),
        pytest.param(SAC, ARCH, ["pi", "qf", "qf"], id="SAC, without the targets"),
        pytest.param(SAC, dict(basis="bspline", degree=1), ["pi", "qf", "qf"], id="SAC bspline"),
        pytest.param(SAC, dict(ARCH, latent_dim=7, group_size=1), ["pi", "qf", "qf"], id="SAC groups of 1"),
        pytest.param(PPO, dict(ARCH, latent_dim=7, group_size=3), ["pi", "vf"], id="PPO groups of 3"),
        pytest.param(PPO, dict(ARCH, latent_dim=7, group_size=2), ["pi", "vf"], id="PPO groups of 2"),
    ],
)
def test_splines_multiply_to_what_the_network_computes(algorithm, span_arch, roles):
    _, networks = networks_of(algorithm, span_arch=span_arch)
    assert [network.role for network in networks] == roles
    for network in networks:
        x = th.randn(7, network.span.input_dim)
        z, n_modes = network.latent(x), network.span.arch.nmodes
        splines = network.splines(z)  # (7, D, M)
        out = th.stack(
            [splines[:, network.dimensions(mode), mode % n_modes].prod(dim=1) for mode in range(network.span.n_modes)], dim=1
        )
        assert th.allclose(out, network.modes(z), atol=1e-6)
        if network.span.head is not None:
            out = out @ network.head.T + network.span.head.bias[network.index]
        else:
            assert network.head is not None and network.head.shape[1] == out.shape[1]
        assert th.allclose(out, network.span(x, only=network.index), atol=1e-6)


def test_heads_are_those_that_read_the_modes():
    policy, (pi, vf) = networks_of(PPO, span_arch=ARCH)
    assert th.equal(pi.head, policy.action_net.weight) and th.equal(vf.head, policy.value_net.weight)
    policy, (pi, _, second) = networks_of(SAC, span_arch=ARCH)
    assert th.equal(pi.head, policy.actor.mu.weight) and th.equal(second.head, policy.critic.qf.head.weight[1])


def test_features_extractor():
    _, (features,) = networks_of(
        PPO, "MlpPolicy", features_extractor_class=SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=ARCH)
    )
    assert features.role == "features" and features.head is None
    assert (features.strengths(th.randn(20, 3)) > 0).all()


def test_dead_modes():
    policy, (pi, vf) = networks_of(PPO, span_arch=ARCH)
    x = th.randn(100, 3)
    assert pi.dead_modes(x) == vf.dead_modes(x) == [] == pi.problems(x)
    with th.no_grad():
        policy.action_net.weight[:, 1] = 0  # not read
        pi.span.coefficients[0, 2, :, 3] = 0  # one factor is zero: so is the product
    assert pi.dead_modes(x) == [1, 3]
    assert vf.dead_modes(x) == []
    (problem,) = pi.problems(x)
    assert problem.startswith("2 of 4 modes of 'pi' are dead (2, 4)")
    assert pi.dead_modes(x[:1]) == [0, 1, 2, 3]  # in a single state nothing changes


def test_dead_modes_of_groups():
    policy, (pi, _) = networks_of(PPO, span_arch=dict(nmodes=2, nelems=4, latent_dim=5, group_size=2))
    x = th.randn(100, 3)
    assert pi.dead_modes(x) == []
    assert [list(pi.dimensions(mode)) for mode in (0, 1, 2, 5)] == [[0, 1], [0, 1], [2, 3], [4]]
    with th.no_grad():
        policy.action_net.weight[:, 5] = 0
        pi.span.coefficients[0, 3, :, 0] = 0  # a factor of the second group's first mode
    assert pi.dead_modes(x) == [2, 5]
    assert pi.problems(x)[0].startswith("2 of 6 modes of 'pi' are dead (3, 6)")


def test_gaps():
    _, (pi, *_) = networks_of(SAC, span_arch=ARCH)
    z = th.linspace(0, 1, 2001)[:, None].expand(-1, 3)
    limit = 3 * (ARCH["nelems"] - 1)
    for scale, has_gaps in ((0.99 * limit, False), (1.05 * limit, True), (-1.05 * limit, True)):
        with th.no_grad():
            pi.span.scale[0, 1] = scale
        # What is said, and what is so.
        assert pi.gaps() == ([1] if has_gaps else [])
        assert (pi.splines(z)[:, 1] == 0).all(dim=1).any() == has_gaps
    assert "'pi' has gaps in the latent dimensions 2: a scale beyond 3 (nelems - 1) = 12" in pi.problems(th.randn(50, 3))[0]
