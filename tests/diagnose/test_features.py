import math

import numpy as np
import pytest
import torch as th
from torch import nn

from sb3_span.diagnose.features import dead_features, effective_rank, latent_ranges, saturation, see
from sb3_span.diagnose.parts import Network
from sb3_span.nn import SPAN


def independent(n, rows=64):
    """Features that have nothing to do with one another: columns of an orthogonal matrix, none of them constant."""
    angles = 2 * np.pi * np.arange(rows)[:, None] * np.arange(1, n + 1) / rows
    return th.tensor(np.cos(angles))


def test_effective_rank_of_known_features():
    four = independent(4)
    assert effective_rank(four) == pytest.approx(4)
    assert effective_rank(th.cat([four, 3 * four + 5], dim=1)) == pytest.approx(4)  # scale and offset are the head's
    assert effective_rank(four[:, :1].repeat(1, 8)) == pytest.approx(1)
    assert effective_rank(th.cat([four, th.ones(64, 3)], dim=1)) == pytest.approx(4)
    assert effective_rank(th.ones(64, 3)) == 0
    assert math.isnan(effective_rank(four / 0))
    # Two singular values in the ratio 1 to sqrt(2): two features alike, one apart.
    share = np.array([math.sqrt(2), 1]) / (1 + math.sqrt(2))
    assert effective_rank(four[:, [0, 0, 1]]) == pytest.approx(math.exp(-(share * np.log(share)).sum()))


def test_dead_features_are_constant_ones():
    features = th.cat([independent(3), th.full((64, 2), 4.0), 1e-5 * independent(1)], dim=1)
    assert dead_features(features) == 3


def test_latent_ranges_and_saturation_of_known_numbers():
    z = th.stack([th.linspace(0, 1, 1001), th.full((1001,), 0.5), th.full((1001,), 0.99)], dim=1)
    np.testing.assert_allclose(latent_ranges(z), [0.9, 0, 0], atol=1e-6)
    assert saturation(z) == pytest.approx((40 / 1001 + 1) / 3, abs=1e-3)


@pytest.mark.parametrize("n_stack", [None, 2])
def test_modes_that_are_alike_are_seen(n_stack):
    span = SPAN(3, dict(nmodes=6, nelems=4), n_stack=n_stack, output_dim=1)
    network = Network("critic", [span])
    x = th.randn(256, 3)
    assert effective_rank(see(network, lambda: span(x)).features[0]) > 1.5
    with th.no_grad():
        span.coefficients[..., 1:] = 2 * span.coefficients[..., :1]
    seen = see(network, lambda: span(x))
    assert len(seen.features) == len(seen.latents) == (n_stack or 1)
    for features, z in zip(seen.features, seen.latents, strict=True):
        assert features.shape == (256, 6)
        assert effective_rank(features) == pytest.approx(1, abs=1e-2)
        assert ((z > 0) & (z < 1)).all()
    assert not span.head._forward_pre_hooks
    assert not span.preprocess._forward_hooks


def test_an_mlp_has_its_last_hidden_layer():
    mlp = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(mlp[2].bias[:2], -1000.0)
    nn.init.constant_(mlp[2].bias[2:], 1000.0)
    x = th.randn(32, 2)
    (features,) = see(Network("critic", [mlp]), lambda: mlp(x)).features
    th.testing.assert_close(features, mlp[:4](x).detach())
    assert dead_features(features) == 2
    assert list(Network("critic", [mlp]).parts()) == ["layer1", "layer2", "head"]


def test_features_are_what_the_head_reads():
    span = SPAN(3, dict(nmodes=4, nelems=4), output_dim=1)
    x = th.randn(64, 3)
    (features,) = see(Network("critic", [span]), lambda: span(x)).features
    th.testing.assert_close(span.head(features)[0], span(x))
