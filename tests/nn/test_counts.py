"""The paper's parameter counts of its offline networks; those of the online ones are in tests/test_hyperparams.py."""

import pytest

from sb3_span.nn import SPAN, StackedLinear


def count(input_dim: int, output_dim: int) -> int:
    modules = [SPAN(input_dim, dict(nmodes=15, nelems=4)), StackedLinear(15, output_dim, 1)]
    return sum(param.numel() for module in modules for param in module.parameters())


@pytest.mark.parametrize(
    "obs_dim, act_dim, params",
    [
        pytest.param(39, 28, 17449, id="door"),
        pytest.param(46, 26, 20448, id="hammer"),
        pytest.param(45, 24, 19469, id="pen"),
        pytest.param(39, 30, 17909, id="relocate"),
    ],
)
def test_adroit_iql(obs_dim, act_dim, params):
    actor = count(obs_dim, 2 * act_dim)  # mean and log-std
    critic = count(obs_dim + act_dim, 1)
    value = count(obs_dim, 1)
    assert actor + critic + value == params
