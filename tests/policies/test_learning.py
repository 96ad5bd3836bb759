"""SPAN learns: small tasks to a reward threshold, with default options."""

import numpy as np
import pytest
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import IdentityEnv, IdentityEnvBox, IdentityEnvMultiBinary, IdentityEnvMultiDiscrete
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv


@pytest.mark.parametrize("env_class", [IdentityEnv, IdentityEnvMultiDiscrete, IdentityEnvMultiBinary])
@pytest.mark.parametrize("algo", [PPO, A2C])
def test_copies_the_observation(algo, env_class):
    env = DummyVecEnv([lambda: env_class(ep_length=10)])
    kwargs = dict(gamma=0.0, seed=0, learning_rate=3e-3, n_steps=256 if algo is PPO else 16)
    model = algo("SPANPolicy", env, **kwargs).learn(4096)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
    assert mean >= 9  # of 10; a random policy has 5 at best


def test_sac_copies_a_continuous_observation():
    env = DummyVecEnv([lambda: IdentityEnvBox(eps=0.5, ep_length=10)])
    model = SAC(
        "SPANPolicy", env, gamma=0.0, seed=0, learning_rate=1e-3, learning_starts=100, policy_kwargs=dict(max_grad_norm=10.0)
    )
    model.learn(1500)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
    assert mean >= 9


def test_ppo_balances_the_pole_with_no_option_given():
    env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    model = PPO("SPANPolicy", env, n_steps=512, seed=0).learn(40_000)
    mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", n_envs=10, seed=1), n_eval_episodes=10)
    assert mean >= 300  # a random policy has about 22


def test_the_same_seed_gives_the_same_agent():
    runs = [
        PPO("SPANPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=3), n_steps=64, seed=3)
        .learn(512)
        .policy.parameters_to_vector()
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*runs)
