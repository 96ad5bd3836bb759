"""
Random agents of SB3's and ours, trained alike, end alike.

A few dozen in every run; thousands with SB3_SPAN_EXAMPLES=2000.
"""

import itertools
import os
import warnings

import numpy as np
import stable_baselines3
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stable_baselines3.common.utils import LinearSchedule
from torch import nn

from tests.algorithms.twins import assert_same, make_agent, make_twins, needs_native, train
from tests.policies.envs import RandomEnv

pytestmark = needs_native

EXAMPLES = int(os.environ.get("SB3_SPAN_EXAMPLES", 30))
TOLERANCE = 2e-3
few = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100, suppress_health_check=list(HealthCheck), database=None
)
chance = st.booleans()


def some(**options):
    """Each of the options or not: what is left out is SB3's default."""
    return st.fixed_dictionaries({}, optional=options)


def schedules(*first, end=0.5):
    """Numbers, or falling from there. A clip range of 0 is in test_edges.py: there, at the edge, SB3's MLPs are not exact."""
    return st.sampled_from([*first, *(LinearSchedule(value, end * value, 1.0) for value in first)])


rates = schedules(1e-4, 1e-3, 1e-2, end=0.0)
observations = st.builds(
    lambda shape, high, dtype: spaces.Box(-high, high, shape, dtype),
    st.sampled_from([(1,), (3,), (2, 3), (18,)]),
    st.sampled_from([0.1, 1.0, 3.0]),
    st.sampled_from([np.float32, np.float64]),
)
boxes = st.sampled_from([(1,), (3,), (2, 2)]).map(lambda shape: spaces.Box(-2.0, 1.0, shape, np.float32))
archs = st.one_of(
    st.fixed_dictionaries(
        dict(basis=st.just("kernel"), nmodes=st.integers(1, 20), nelems=st.integers(2, 9)),
        optional=dict(latent_dim=st.integers(1, 9), group_size=st.integers(1, 9)),
    ),
    st.fixed_dictionaries(
        dict(basis=st.just("bspline"), degree=st.integers(1, 3), nmodes=st.integers(1, 20), nelems=st.integers(1, 5)),
        optional=dict(latent_dim=st.integers(1, 9), group_size=st.integers(1, 9)),
    ),
)
adams = some(weight_decay=st.just(0.01), betas=st.just((0.8, 0.95)), eps=st.just(1e-4))
networks = st.one_of(
    st.fixed_dictionaries(
        dict(span_arch=archs),
        optional=dict(lr_scale=st.sampled_from([1.0, 0.5, dict(coefficients=2.0, scale=0.0)]), optimizer_kwargs=adams),
    ).map(lambda kwargs: ("span", kwargs)),
    st.fixed_dictionaries(
        dict(net_arch=st.lists(st.integers(1, 20), max_size=3), activation_fn=st.sampled_from([nn.ReLU, nn.Tanh])),
        optional=dict(optimizer_kwargs=adams),
    ).map(lambda kwargs: ("mlp", kwargs)),
)
shared = dict(normalize=chance, n_envs=st.integers(1, 3), learning_rate=rates, gamma=st.sampled_from([0.9, 1.0]))


def check(name, steps, obs_space, action_space, network, policy_kwargs, options):
    options = dict(options, policy_kwargs=policy_kwargs, network=network, env=lambda: RandomEnv(obs_space, action_space))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You have specified a mini-batch size")
        theirs, ours = make_twins(name, steps, **options)
        assert ours.native_status() == f"{name} runs in C."
        # A step of Adam's is of the learning rate's size, however small a gradient: rounding shows at its scale.
        try:
            assert_same(theirs, ours, tolerance=TOLERANCE)
        except AssertionError:
            if name != "PPO" or not is_at_an_edge(ours, steps, options):
                raise


def is_at_an_edge(ours, steps, options):
    """
    Whether PPO came to a sample so near to the end of a clip range, or to a divergence so near to its bound, that rounding
    decides on which side it is: then SB3's own agent with a bound that is moved by as much as rounding ends like ours.
    """
    for amount, name in itertools.product((-3e-6, 3e-6), ("clip_range", "clip_range_vf", "target_kl")):
        bound = options.get(name, 0.2 if name == "clip_range" else None)
        if bound is not None:
            theirs = train(make_agent(stable_baselines3.PPO, **{**options, name: moved(bound, amount)}), steps)
            try:
                assert_same(theirs, ours, tolerance=TOLERANCE)
                return True
            except AssertionError:
                pass
    return False


def moved(bound, amount):
    return (lambda progress: bound(progress) + amount) if callable(bound) else bound + amount


@few
@given(
    observations,
    boxes,
    networks,
    some(
        **shared,
        tau=st.sampled_from([0.0, 0.1, 1.0]),
        ent_coef=st.sampled_from([0.0, 0.2, "auto_0.1"]),
        gradient_steps=st.sampled_from([1, 2, -1]),
        train_freq=st.integers(1, 5),
        batch_size=st.integers(1, 40),
        buffer_size=st.sampled_from([12, 500]),
        target_update_interval=st.integers(1, 3),
        n_steps=st.integers(1, 3),
        n_critics=st.integers(1, 3),
    ),
)
def test_sac(obs_space, action_space, network, options):
    kind, policy_kwargs = network
    n_critics = options.pop("n_critics", 2)
    if kind == "span":
        policy_kwargs = {**policy_kwargs, "max_grad_norm": 0.5}
    check("SAC", 36, obs_space, action_space, kind, {**policy_kwargs, "n_critics": n_critics}, options)


@few
@given(
    observations,
    boxes | st.integers(2, 5).map(spaces.Discrete),
    networks,
    some(
        **shared,
        n_steps=st.integers(4, 20),
        batch_size=st.integers(2, 40),
        n_epochs=st.integers(1, 3),
        gae_lambda=st.sampled_from([0.0, 0.9, 1.0]),
        clip_range=schedules(0.01, 0.2),
        clip_range_vf=schedules(0.01, 0.2),
        ent_coef=st.sampled_from([0.0, 0.1]),
        vf_coef=st.sampled_from([0.1, 1.0]),
        max_grad_norm=st.sampled_from([0.01, 0.5, 100.0]),
        target_kl=st.sampled_from([1e-3, 0.1]),
        normalize_advantage=chance,
    ),
)
def test_ppo(obs_space, action_space, network, options):
    kind, policy_kwargs = network
    check("PPO", 60, obs_space, action_space, kind, policy_kwargs, options)
