"""The same agent twice: trained by SB3's own update and by the native one."""

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span
from sb3_span.algorithms.extension import extension
from sb3_span.nn.native import choice
from tests.policies.envs import make

SIZES = {
    "PPO": dict(n_steps=32, batch_size=16, n_epochs=2),
    "SAC": dict(buffer_size=500, learning_starts=20, batch_size=16),
}
NETWORKS = {
    "span": ("SPANPolicy", dict(span_arch=dict(nmodes=3, nelems=3))),
    "grouped span": ("SPANPolicy", dict(span_arch=dict(nmodes=2, nelems=4, latent_dim=5, group_size=2))),
    "mlp": ("MlpPolicy", dict(net_arch=[7, 5])),
    "clipped mlp": (sb3_span.ClippedMlpPolicy, dict(net_arch=[6])),
}
needs_native = pytest.mark.skipif(extension is None or not choice.IS_NATIVE, reason="the native kernel is not in use")


def make_agent(algorithm, network="span", env=None, n_envs=1, normalize=False, **options):
    """
    :param algorithm: A class of SB3's or of ours
    :param network: One of ``NETWORKS``
    :param env: A function that makes the environment
    :param normalize: Whether observations and rewards are normalised
    """
    policy, policy_kwargs = NETWORKS[network]
    policy_kwargs = {**policy_kwargs, **options.pop("policy_kwargs", {})}
    vec_env = make_vec_env(env or (lambda: make("vector")), n_envs=n_envs, seed=0)
    if normalize:
        vec_env = VecNormalize(vec_env)
    options = {**SIZES[algorithm.__name__], **options}
    return algorithm(policy, vec_env, seed=0, device="cpu", policy_kwargs=policy_kwargs, **options)


def train(agent, steps):
    th.manual_seed(0)
    np.random.seed(0)
    return agent.learn(steps, log_interval=None, reset_num_timesteps=False)


def make_twins(name, steps, **options):
    """SB3's agent and ours, trained alike; ours by the native update."""
    theirs = train(make_agent(getattr(stable_baselines3, name), **options), steps)
    ours = train(make_agent(getattr(sb3_span, name), **options), steps)
    return theirs, ours


def tensors_of(agent):
    """Everything that an update changes: parameters, targets, what Adam remembers, the entropy coefficient."""
    tensors = {name: tensor.float() for name, tensor in agent.policy.state_dict().items()}  # flags of SPAN's among them
    for name, optimizer in optimizers_of(agent).items():
        for index, state in optimizer.state_dict()["state"].items():
            tensors.update({f"{name} {index} {key}": value for key, value in state.items()})
    if getattr(agent, "log_ent_coef", None) is not None:
        tensors["log_ent_coef"] = agent.log_ent_coef.detach()
    return tensors


def optimizers_of(agent):
    if hasattr(agent, "actor"):
        optimizers = dict(actor=agent.actor.optimizer, critic=agent.critic.optimizer, entropy=agent.ent_coef_optimizer)
        return {name: optimizer for name, optimizer in optimizers.items() if optimizer is not None}
    return dict(policy=agent.policy.optimizer)


def assert_same(theirs, ours, tolerance=1e-5):
    mine = tensors_of(ours)
    for name, value in tensors_of(theirs).items():
        scale = float(value.abs().max())
        assert value.shape == mine[name].shape
        assert th.allclose(value, mine[name], atol=tolerance * max(scale, 1e-3), rtol=1e-3), name
    logged, own = theirs.logger.name_to_value, ours.logger.name_to_value
    names = {name for name in logged if name.startswith("train/")}
    assert names and names == {name for name in own if name.startswith("train/")}
    for name in names - {"train/learning_rate"}:  # SB3 logs what was asked for, ours what is used
        # The actor's loss is a difference, in which a saturated action's density weighs with few digits.
        assert own[name] == pytest.approx(logged[name], rel=2e-3, abs=max(2e-5, tolerance / 10)), name
