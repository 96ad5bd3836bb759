"""Small agents to diagnose."""

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

SIZES = {
    "SAC": dict(learning_starts=20, buffer_size=400, batch_size=16),
    "TD3": dict(learning_starts=20, buffer_size=400, batch_size=16),
    "TQC": dict(learning_starts=20, buffer_size=400, batch_size=16),
    "DQN": dict(learning_starts=20, buffer_size=400, batch_size=16),
    "PPO": dict(n_steps=32, batch_size=16, n_epochs=2),
    "A2C": dict(n_steps=16),
    "TRPO": dict(n_steps=32, batch_size=16),
}
NETWORKS = {
    "SPANPolicy": dict(span_arch=dict(nmodes=3, nelems=3)),
    "MlpPolicy": dict(net_arch=[7, 5]),
}


class Walk(gym.Env):
    """
    Ten states in a row, one step to the right each, whatever the action: a reward of 1, an end after the last one.

    :param action_space: Of any kind
    :param is_cut: Whether the last state is a time limit instead
    """

    def __init__(self, action_space, is_cut=False):
        self.observation_space = spaces.Discrete(10)
        self.action_space = action_space
        self.is_cut = is_cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action):
        is_last = self.state == 9
        self.state = min(self.state + 1, 9)
        return self.state, 1.0, is_last and not self.is_cut, is_last and self.is_cut, {}


def make_agent(algorithm, env, policy="SPANPolicy", n_envs=1, normalize=False, **options):
    """
    :param env: An id, or a function that makes the environment
    :param normalize: Whether observations and rewards are normalised
    """
    envs = make_vec_env(env, n_envs, seed=0)
    if normalize:
        envs = VecNormalize(envs)
    options = {"policy_kwargs": {**NETWORKS[policy]}, **SIZES[algorithm.__name__], **options}  # SB3 writes into policy_kwargs
    return algorithm(policy, envs, seed=0, device="cpu", **options)


def fill(model, n=200):
    """Let an agent collect transitions without learning."""
    model.learning_rate = 0.0
    model.lr_schedule = lambda _: 0.0
    model.learn(n)
    return model


def walking_dqn(**policy_kwargs):
    """DQN with a linear network on one-hot states, a table but for its biases."""
    options = dict(policy_kwargs={"net_arch": [], **policy_kwargs}, exploration_initial_eps=1.0, exploration_final_eps=1.0)
    make = lambda: Walk(spaces.Discrete(2))  # noqa: E731
    return make_agent(stable_baselines3.DQN, make, "MlpPolicy", learning_rate=0.1, gamma=0.9, **options)


def state_of(model):
    """Everything that training changes, and the random numbers that come next."""
    tensors = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    for name in ("log_ent_coef",):
        if getattr(model, name, None) is not None:
            tensors[name] = getattr(model, name).detach().clone()
    tensors["torch"] = th.get_rng_state()
    tensors["numpy"] = th.tensor(np.random.get_state()[1].astype(np.int64))
    tensors["actions"] = th.as_tensor(np.asarray(model.action_space.sample()))
    return tensors
