"""Parameters of whole policies: counted exactly for any algorithm and any spaces, and the paper's pairs are found."""

import numpy as np
import pytest
import torch as th
from stable_baselines3 import SAC

from sb3_span.policies.budget import PolicySizes, count_parameters, policy_sizes
from sb3_span.policies.registry import supported_algorithms
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv
from tests.test_hyperparams import PAPER, Still, read

SHAPES = [
    dict(nmodes=3, nelems=5),
    dict(nmodes=2, nelems=4, latent_dim=7, group_size=2),
    dict(nmodes=2, nelems=1, basis="bspline", degree=3),
    dict(nmodes=4, nelems=2, latent_dim=2),
]


def build(algorithm, policy, env, **policy_kwargs):
    try:
        return algorithm(policy, env, policy_kwargs=policy_kwargs, device="cpu").policy
    except AssertionError as error:
        pytest.skip(str(error))  # an action space that the algorithm does not take


@pytest.mark.parametrize("actions", ["box", "discrete"])
@pytest.mark.parametrize("observations", ["vector", "dict", "multidiscrete"])
@pytest.mark.parametrize("algo", supported_algorithms())
def test_counts_are_those_of_built_policies(algo, observations, actions):
    algorithm = supported_algorithms()[algo]
    env = RandomEnv(OBSERVATIONS[observations], ACTIONS[actions])
    built = [count_parameters(build(algorithm, "SPANPolicy", env, span_arch=arch)) for arch in SHAPES]
    sizes = policy_sizes(algorithm, env.observation_space, env.action_space)
    assert [sizes.count_span(arch) for arch in SHAPES] == built
    prefix = "MultiInput" if observations == "dict" else "Mlp"
    policy = next(name for name in algorithm.policy_aliases if name.startswith(prefix))
    for net_arch in () if (algo, observations) == ("recurrentppo", "multidiscrete") else ([5, 3], [4]):  # has no MLP for it
        assert sizes.count_mlp(net_arch) == count_parameters(build(algorithm, policy, env, net_arch=net_arch))
    if len(sizes.roles) > 1:
        by_role = dict(zip(sizes.roles, SHAPES, strict=False))
        assert sizes.count_span(by_role) == count_parameters(build(algorithm, "SPANPolicy", env, span_arch=by_role))


def test_options_of_the_policy_are_counted():
    env = RandomEnv(OBSERVATIONS["vector"], ACTIONS["box"])
    policy = build(SAC, "SPANPolicy", env, n_critics=3)
    assert policy_sizes(SAC, env.observation_space, env.action_space, dict(n_critics=3)).count_span(None) == count_parameters(
        policy
    )


def test_options_that_only_span_has():
    env = RandomEnv(OBSERVATIONS["vector"], ACTIONS["box"])
    options = dict(max_grad_norm=10.0, lr_scale=2.0, span_arch=dict(nmodes=3))
    sizes = policy_sizes(SAC, env.observation_space, env.action_space, options)
    assert sizes == policy_sizes(SAC, env.observation_space, env.action_space)
    assert sizes.span_candidates(np.int64(500)) == sizes.span_candidates(500)


def test_targets_are_not_counted():
    policy = build(SAC, "SPANPolicy", RandomEnv(OBSERVATIONS["vector"], ACTIONS["box"]))
    assert count_parameters(policy) == sum(
        param.numel() for network in (policy.actor, policy.critic) for param in network.parameters()
    )


def test_random_numbers_are_left_alone():
    th.manual_seed(3)
    expected = th.rand(2)
    th.manual_seed(3)
    policy_sizes(SAC, OBSERVATIONS["vector"], ACTIONS["box"])
    assert th.equal(th.rand(2), expected)


@pytest.fixture(scope="module", params=PAPER)
def paper(request) -> tuple[str, PolicySizes, dict, dict]:
    """Environment, sizes, the paper's ``span_arch`` and the paper's ``net_arch``."""
    algorithm, obs_dim, action_space, *_ = PAPER[request.param]
    env = Still(obs_dim, action_space)
    span, mlp = (read(method)[request.param]["policy_kwargs"] for method in ("span", "mlp"))
    sizes = policy_sizes(algorithm, env.observation_space, env.action_space)
    return request.param, sizes, span["span_arch"], mlp["net_arch"]


# The paper's networks are not of one size here: its SPAN has 22 % and 6 % fewer parameters than its MLP.
UNEQUAL = ("Acrobot-v1", "LunarLander-v3")


def test_the_papers_span_is_found(paper):
    env_id, sizes, span_arch, net_arch = paper
    _, _, _, span_params, mlp_params = PAPER[env_id]
    found = {tuple(sorted(arch.items())): params for arch, params in sizes.span_candidates(span_params)}
    degree = {} if span_arch["basis"] == "kernel" else dict(degree=span_arch["degree"])
    key = tuple(sorted({**span_arch, **degree}.items()))
    assert found[key] == span_params
    # And for the MLP's number, or for its layers.
    candidates = sizes.span_candidates(net_arch)
    assert candidates == sizes.span_candidates(mlp_params)
    kind = {name: value for name, value in span_arch.items() if name != "nmodes"}
    (match,) = [each for each in candidates if kind.items() <= each.span_arch.items()]
    if env_id in UNEQUAL:
        assert abs(match.params - mlp_params) < abs(span_params - mlp_params)
    else:
        assert match == ({**span_arch}, span_params)


def test_the_papers_mlp_or_a_closer_one_is_found(paper):
    env_id, sizes, span_arch, net_arch = paper
    _, _, _, span_params, mlp_params = PAPER[env_id]
    match = sizes.match_mlp(span_arch)
    assert match.keys() == net_arch.keys()
    assert abs(sizes.count_mlp(match) - span_params) <= abs(mlp_params - span_params)
    if env_id in ("CartPole-v1", "Walker2d-v5"):
        assert match == net_arch


def test_errors():
    with pytest.raises(ValueError, match=r"There is no SPAN policy for BaseAlgorithm; the algorithms with one are \['ppo'"):
        policy_sizes(SAC.__mro__[2], OBSERVATIONS["vector"], ACTIONS["box"])
    sizes = policy_sizes(SAC, OBSERVATIONS["vector"], ACTIONS["box"])
    with pytest.raises(ValueError, match="The budget is -5 parameters; it must be at least 1"):
        sizes.span_candidates(-5)
    with pytest.raises(ValueError, match=r"net_arch has the keys \['pi', 'vf'\]; the networks here are \['pi', 'qf'\]"):
        sizes.count_mlp(dict(pi=[4, 4], vf=[4, 4]))
