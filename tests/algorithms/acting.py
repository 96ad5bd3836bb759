"""Agents of all kinds that the C code acts for, and what SB3 would do in their place."""

import numpy as np

import sb3_span
from tests.algorithms.twins import make_agent
from tests.policies.envs import make

AGENTS = {
    "SAC, SPAN": ("SAC", {}),
    "SAC, MLP": ("SAC", dict(network="mlp")),
    "SAC, clipped MLP": ("SAC", dict(network="clipped mlp")),
    "SAC, B-splines": ("SAC", dict(policy_kwargs=dict(span_arch=dict(basis="bspline", degree=3, nmodes=4, nelems=2)))),
    "PPO, SPAN": ("PPO", {}),
    "PPO, MLP": ("PPO", dict(network="mlp")),
    "PPO, apart": ("PPO", dict(policy_kwargs=dict(span_arch=dict(pi=dict(nmodes=5), vf=dict(nmodes=3))))),
    "PPO, choices": ("PPO", dict(env=lambda: make("vector", "discrete"))),
    "PPO, choices, MLP": ("PPO", dict(network="mlp", env=lambda: make("vector", "discrete"))),
}


def make_one(which):
    name, options = AGENTS[which]
    return make_agent(getattr(sb3_span, name), **options)


def observations(agent, count=7):
    return np.random.default_rng(0).normal(size=(count, *agent.observation_space.shape)).astype(np.float32)


def is_native(agent):
    return agent._native_actor is not None and agent._native_actor.plan is not None


def assert_sb3s(agent, obs):
    """The same action as the policy's own ``predict`` has, which is SB3's. It is asked first: it leaves nothing to clear."""
    theirs, _ = agent.policy.predict(obs, deterministic=True)
    mine, _ = agent.predict(obs, deterministic=True)
    assert isinstance(mine, np.ndarray) and mine.shape == theirs.shape and mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    return mine
