"""Whatever the options: the native updates end where SB3's own end."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.utils import LinearSchedule
from torch import nn

from sb3_span.algorithms.extension import extension
from sb3_span.nn.native.function import KERNELS
from tests.algorithms.twins import assert_same, make_twins, needs_native
from tests.policies.envs import OBSERVATIONS, RandomEnv, TrackEnv, make

pytestmark = needs_native

ARCHS = {
    "degree 1": dict(basis="bspline", degree=1, nmodes=2, nelems=2),
    "degree 2": dict(basis="bspline", degree=2, nmodes=9, nelems=1),
    "degree 3": dict(basis="bspline", degree=3, nmodes=4, nelems=2),
    "latent": dict(nmodes=11, nelems=5, latent_dim=2),
    "wide": dict(nmodes=21, nelems=2, latent_dim=19),
    "groups of 1": dict(nmodes=2, nelems=4, latent_dim=9, group_size=1),
    "groups of 2": dict(nmodes=4, nelems=3, latent_dim=6, group_size=2),
    "groups of B-splines": dict(basis="bspline", degree=2, nmodes=3, nelems=1, latent_dim=7, group_size=3),
}
MLPS = {
    "relu": dict(net_arch=[9, 17], activation_fn=nn.ReLU),
    "tanh": dict(net_arch=[4], activation_fn=nn.Tanh),
    "deep": dict(net_arch=[3, 4, 5, 6], activation_fn=nn.Tanh),
    "linear": dict(net_arch=[]),
    "wide": dict(net_arch=[37, 70]),
    "SB3's default for SAC": dict(net_arch=[256, 256]),
}
SAC_OPTIONS = {
    "plain": {},
    "fixed entropy": dict(ent_coef=0.2),
    "started entropy": dict(ent_coef="auto_0.1", target_entropy=-3.0),
    "falling rate": dict(learning_rate=LinearSchedule(1e-2, 1e-3, 1.0)),
    "several steps": dict(gradient_steps=3, target_update_interval=2, tau=0.1, gamma=0.9),
    "many steps between": dict(train_freq=7, gradient_steps=-1),
    "three critics": dict(policy_kwargs=dict(n_critics=3)),
    "one critic": dict(policy_kwargs=dict(n_critics=1)),
    "weight decay": dict(policy_kwargs=dict(optimizer_kwargs=dict(weight_decay=0.1, betas=(0.8, 0.95), eps=1e-5))),
    "several environments": dict(n_envs=3),
    "timeouts": dict(env=TrackEnv),
    "a full buffer": dict(n_envs=3, buffer_size=33),
    "normalised": dict(normalize=True),
    "normalised, a full buffer": dict(normalize=True, n_envs=3, buffer_size=33),
    "a smaller buffer": dict(optimize_memory_usage=True, replay_buffer_kwargs=dict(handle_timeout_termination=False)),
    "n-step returns": dict(n_steps=3),
    "n-step returns, numpy's discount": dict(n_steps=3, gamma=np.float64(0.9)),
    "a matrix of actions": dict(env=lambda: make_with_actions(spaces.Box(-2, 1, (2, 2)))),
    "a row of actions": dict(env=lambda: make_with_actions(spaces.Box(-2, 1, (1, 2)))),
    "half precision": dict(env=lambda: make_with_actions(spaces.Box(-2, 1, (2,), np.float16))),
    "matrix": dict(env=lambda: make("matrix")),
    "double precision": dict(env=lambda: make("float64")),
    "unshared": dict(policy_kwargs=dict(share_features_extractor=False)),
}
PPO_OPTIONS = {
    "plain": {},
    "discrete": dict(env=lambda: make("vector", "discrete")),
    "entropy": dict(ent_coef=0.1),
    "discrete entropy": dict(ent_coef=0.1, env=lambda: make("vector", "discrete")),
    "clipped values": dict(clip_range_vf=0.01, clip_range=0.01, learning_rate=1e-2),
    "stops early": dict(target_kl=1e-4, learning_rate=3e-3, n_epochs=10),
    "a rest": dict(batch_size=24),
    "all in one batch": dict(batch_size=10**9),
    "advantages as they are": dict(normalize_advantage=False, max_grad_norm=100.0),
    "falling rate": dict(learning_rate=LinearSchedule(1e-2, 1e-3, 1.0), clip_range=LinearSchedule(0.3, 0.1, 1.0)),
    "several environments": dict(n_envs=3),
    "timeouts": dict(env=TrackEnv),
    "a matrix of actions": dict(env=lambda: make_with_actions(spaces.Box(-2, 1, (2, 2)))),
    "matrix": dict(env=lambda: make("matrix")),
    "unshared": dict(policy_kwargs=dict(share_features_extractor=False)),
    "log_std": dict(policy_kwargs=dict(log_std_init=-1.0)),
}


def make_with_actions(space):
    return RandomEnv(OBSERVATIONS["vector"], space)


def check(name, **options):
    theirs, ours = make_twins(name, {"SAC": 45, "PPO": 192}[name], **options)
    assert ours._plan is not None, "the native update was not used"
    assert_same(theirs, ours)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize("network", ["span", "grouped span", "mlp"])
@pytest.mark.parametrize(("name", "option"), [("SAC", key) for key in SAC_OPTIONS] + [("PPO", key) for key in PPO_OPTIONS])
def test_options(name, option, network):
    check(name, network=network, **{"SAC": SAC_OPTIONS, "PPO": PPO_OPTIONS}[name][option])


@pytest.mark.parametrize("network", ["span", "mlp"])
@pytest.mark.parametrize("option", ["clip_range", "clip_range_vf"])
def test_a_clip_range_that_falls_below_zero(option, network):
    """The last rollout goes beyond the last step, and a schedule with it."""
    theirs, ours = make_twins("PPO", 100, network=network, **{option: lambda progress: 0.2 * progress})
    assert getattr(ours, option)(ours._current_progress_remaining) < 0
    assert_same(theirs, ours)


@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("arch", ARCHS)
def test_shapes_of_span(name, arch):
    check(name, policy_kwargs=dict(span_arch=ARCHS[arch]))


@pytest.mark.parametrize(("name", "role"), [("SAC", "qf"), ("PPO", "vf")])
def test_a_shape_for_each_role(name, role):
    check(name, policy_kwargs=dict(span_arch={"pi": ARCHS["degree 1"], role: ARCHS["latent"]}))
    check(name, policy_kwargs=dict(span_arch={"pi": ARCHS["groups of 1"], role: ARCHS["groups of 2"]}))


@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("mlp", MLPS)
def test_shapes_of_mlps(name, mlp):
    check(name, network="mlp", policy_kwargs=MLPS[mlp])


@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("lr_scale", [5.0, dict(coefficients=10.0, head=0.5, other=0.0)])
def test_learning_rates_by_part(name, lr_scale):
    check(name, policy_kwargs=dict(lr_scale=lr_scale))


@pytest.mark.parametrize("network", ["span", "clipped mlp"])
def test_clipped_gradients_of_sac(network):
    check("SAC", network=network, policy_kwargs=dict(max_grad_norm=0.01))


@pytest.mark.parametrize("name", ["SAC", "PPO"])
@pytest.mark.parametrize("network", ["span", "grouped span", "mlp"])
@pytest.mark.parametrize("lanes", [lanes for _, lanes in KERNELS])
def test_every_width_of_vectors(name, network, lanes):
    extension.choose(lanes)
    try:
        check(name, network=network)
    finally:
        extension.choose(0)
