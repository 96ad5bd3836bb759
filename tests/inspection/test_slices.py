"""Actions and values of agents of any algorithm."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

from sb3_span.inspection.slices import actions, cut, influence, values

ALGORITHMS = {
    "CartPole-v1": [PPO, A2C, DQN, QRDQN, MaskablePPO, RecurrentPPO],
    "Pendulum-v1": [PPO, SAC, TD3, TQC, RecurrentPPO],
}


def make_model(algorithm, env_id):
    policy = next(name for name in ("SPANPolicy", "MlpPolicy", "MlpLstmPolicy") if name in algorithm.policy_aliases)
    return algorithm(policy, env_id, seed=0, device="cpu")


@pytest.mark.parametrize("algorithm, env_id", [(each, env_id) for env_id, all_ in ALGORITHMS.items() for each in all_])
def test_every_algorithm(algorithm, env_id):
    model = make_model(algorithm, env_id)
    observations = np.array([model.observation_space.sample() for _ in range(30)])
    if env_id == "CartPole-v1":
        observations = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    done = actions(model, observations)
    expected = model.predict(observations, deterministic=True)[0]
    if isinstance(model.action_space, spaces.Discrete):
        assert done.shape == (30, 2) and np.allclose(done.sum(axis=1), 1)
        assert np.array_equal(done.argmax(axis=1), expected)
    else:
        assert np.array_equal(done, expected)
    value = values(model, observations)
    assert value.shape == (30,) and np.isfinite(value).all() and value.std() > 0


def test_values_are_those_of_the_algorithm():
    observations = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    tensor = th.as_tensor(observations)
    ppo, sac = make_model(PPO, "Pendulum-v1"), make_model(SAC, "Pendulum-v1")
    assert np.array_equal(values(ppo, observations), ppo.policy.predict_values(tensor)[:, 0].detach().numpy())
    first, second = sac.critic(tensor, sac.actor(tensor, deterministic=True))
    assert np.allclose(values(sac, observations), th.minimum(first, second)[:, 0].detach().numpy())


class Wide(gym.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (5,))
    action_space = spaces.Discrete(3)


def test_default_slice_is_along_what_matters():
    model = PPO("SPANPolicy", Wide(), device="cpu")
    weight = model.policy.mlp_extractor.pi_vf.preprocess.weight.data  # (C, D, inputs)
    weight[:, :, [0, 2, 3]] = 0  # only 1 and 4 reach the networks
    observations = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    matters = influence(model, observations)
    assert (matters[[0, 2, 3]] == 0).all() and (matters[[1, 4]] > 0).all()
    assert cut(model, observations).dims == (1, 4)


def test_a_slice_holds_all_others_at_their_median():
    model = make_model(PPO, "CartPole-v1")
    observations = np.random.default_rng(0).normal([3, 0, 0, -1], size=(201, 4)).astype(np.float32)
    slice_ = cut(model, observations, (1, 2))
    state = np.median(observations, axis=0)
    state[1], state[2] = slice_.x[7], slice_.y[100]
    assert np.allclose(slice_.actions[100, 7], actions(model, state[None])[0], atol=1e-6)
    assert np.allclose(slice_.values[100, 7], values(model, state[None])[0], atol=1e-6)
    # The range holds nearly all states, but ends where the observation space does.
    assert slice_.x[0] < np.percentile(observations[:, 1], 1) and slice_.x[-1] > np.percentile(observations[:, 1], 99)
    assert slice_.y[0] >= model.observation_space.low[2] and slice_.y[-1] <= model.observation_space.high[2]
    # The bounds are not those of normalised observations.
    normalised = cut(model, observations, (1, 2), normalised=True)
    assert normalised.y[0] < np.percentile(observations[:, 2], 1) < model.observation_space.low[2]
