"""A small model of every algorithm, and what is asked of all of them."""

import copy
import pickle

import numpy as np
import torch as th
from sb3_contrib import QRDQN, TQC, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

import sb3_span
from tests.policies.envs import ACTIONS

SMALL = dict(nmodes=3, nelems=3)

POLICIES = {
    PPO: sb3_span.SPANActorCriticPolicy,
    A2C: sb3_span.SPANActorCriticPolicy,
    TRPO: sb3_span.SPANTRPOPolicy,
    MaskablePPO: sb3_span.SPANMaskableActorCriticPolicy,
    RecurrentPPO: sb3_span.SPANRecurrentActorCriticPolicy,
    SAC: sb3_span.SPANPolicy,
    TD3: sb3_span.SPANTD3Policy,
    DDPG: sb3_span.SPANTD3Policy,
    TQC: sb3_span.SPANTQCPolicy,
    DQN: sb3_span.SPANDQNPolicy,
    QRDQN: sb3_span.SPANQRDQNPolicy,
}
ALGORITHMS = list(POLICIES)
OFF_POLICY = [SAC, TD3, DDPG, TQC]
VALUE_BASED = [DQN, QRDQN]

SIZES = {
    PPO: dict(n_steps=16, batch_size=8, n_epochs=2),
    A2C: dict(n_steps=8),
    TRPO: dict(n_steps=16, batch_size=8, n_critic_updates=2, cg_max_steps=3),
    MaskablePPO: dict(n_steps=16, batch_size=8, n_epochs=2),
    RecurrentPPO: dict(n_steps=16, batch_size=8, n_epochs=2),
    **{algo: dict(buffer_size=200, learning_starts=16, batch_size=8) for algo in OFF_POLICY + VALUE_BASED},
}


def name(value) -> str | None:
    """For the names of parametrised tests: those of classes, and pytest's own for everything else."""
    return getattr(value, "__name__", None)


def action_spaces(algo) -> list[str]:
    """The action spaces that the algorithm takes, by their names in ``ACTIONS``."""
    if algo in OFF_POLICY:
        return ["box"]
    if algo in VALUE_BASED:
        return ["discrete"]
    return [act for act in ACTIONS if act != "box" or algo is not MaskablePPO]


def make_model(algo, env, *, steps: int = 32, learn: bool = True, policy="SPANPolicy", span_arch=SMALL, **kwargs):
    policy_kwargs = {**kwargs.pop("policy_kwargs", {})}
    if span_arch is not None:
        policy_kwargs["span_arch"] = span_arch
    if algo is RecurrentPPO:
        policy_kwargs.setdefault("lstm_hidden_size", 8)
    model = algo(policy, env, seed=0, device="cpu", policy_kwargs=policy_kwargs, **{**SIZES[algo], **kwargs})
    return model.learn(steps) if learn else model


def observations(model, n: int = 6):
    space = model.observation_space
    space.seed(1)
    samples = [space.sample() for _ in range(n)]
    if isinstance(samples[0], dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in samples[0]}
    return np.stack(samples)


def actions(policy, obs) -> np.ndarray:
    return policy.predict(obs, deterministic=True)[0]


def acting_network(model):
    """The part of an off-policy model that acts, which can be saved alone; None for on-policy models."""
    return next((getattr(model, part) for part in ("actor", "q_net", "quantile_net") if hasattr(model, part)), None)


def assert_survives_saving(model, path) -> None:
    """Equal actions after each way of saving, and training goes on."""
    obs = observations(model)
    expected = actions(model, obs)

    model.save(path / "model")
    loaded = type(model).load(path / "model", env=model.get_env(), device="cpu")
    np.testing.assert_array_equal(actions(loaded, obs), expected)

    model.policy.save(path / "policy.pt")
    policy = type(model.policy).load(path / "policy.pt", device="cpu")
    np.testing.assert_array_equal(actions(policy, obs), expected)
    for parameter, value in model.policy.state_dict().items():
        th.testing.assert_close(policy.state_dict()[parameter], value, equal_nan=True, rtol=0, atol=0)

    np.testing.assert_array_equal(actions(pickle.loads(pickle.dumps(model.policy)), obs), expected)
    if not model.use_sde:  # SB3's own policies cannot be copied either while they hold gSDE's noise
        np.testing.assert_array_equal(actions(copy.deepcopy(model.policy), obs), expected)

    network = acting_network(model)
    if network is not None:
        network.save(path / "network.pt")
        network = type(network).load(path / "network.pt", device="cpu")
        np.testing.assert_array_equal(actions(network, obs), expected)

    before = loaded.policy.parameters_to_vector()
    loaded.learn(32, reset_num_timesteps=False)
    assert (loaded.policy.parameters_to_vector() != before).any()
