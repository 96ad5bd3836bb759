"""The paper's parameter counts of its offline networks; those of the online ones are in tests/test_hyperparams.py."""

import pytest
from stable_baselines3.common.torch_layers import create_mlp

from sb3_span.nn import SPAN


def count(input_dim: int, output_dim: int) -> int:
    net = SPAN(input_dim, dict(nmodes=15, nelems=4), output_dim=output_dim)
    return sum(param.numel() for param in net.parameters())


def count_mlp(input_dim: int, width: int, output_dim: int) -> int:
    return sum(param.numel() for layer in create_mlp(input_dim, output_dim, [width, width]) for param in layer.parameters())


@pytest.mark.parametrize(
    "obs_dim, act_dim, mlp_widths, span_params, mlp_params",
    [
        pytest.param(39, 28, (36, 64, 45), 17449, 17337, id="door"),
        pytest.param(46, 26, (41, 68, 50), 20448, 20509, id="hammer"),
        pytest.param(45, 24, (41, 66, 50), 19469, 19634, id="pen"),
        pytest.param(39, 30, (35, 66, 45), 17909, 17845, id="relocate"),
    ],
)
def test_adroit_iql(obs_dim, act_dim, mlp_widths, span_params, mlp_params):
    # Actor (mean and log-std), one critic, value.
    sizes = [(obs_dim, 2 * act_dim), (obs_dim + act_dim, 1), (obs_dim, 1)]
    assert sum(count(inputs, outputs) for inputs, outputs in sizes) == span_params
    mlps = zip(sizes, mlp_widths, strict=True)
    assert sum(count_mlp(inputs, width, outputs) for (inputs, outputs), width in mlps) == mlp_params
