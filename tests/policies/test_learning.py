"""SPAN learns: small tasks to a reward threshold, with default options but for the learning rates of replayed experience."""

import numpy as np
import pytest
from sb3_contrib import QRDQN, TQC, TRPO, MaskablePPO, RecurrentPPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked_policy
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv, IdentityEnv, IdentityEnvMultiBinary, IdentityEnvMultiDiscrete
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.policies.envs import RecallEnv, TrackEnv
from tests.policies.models import actions, name

Q_LEARNING = dict(learning_rate=3e-3, learning_starts=100, train_freq=1, target_update_interval=100, exploration_fraction=0.5)


def noise(algo, n_actions: int) -> dict:
    """TD3 and DDPG explore by noise that is added to their actions."""
    scale = 0.5 * np.ones(n_actions)
    return dict(action_noise=NormalActionNoise(np.zeros(n_actions), scale)) if issubclass(algo, TD3) else {}


@pytest.mark.parametrize(
    "algo, env_class, steps, kwargs",
    [
        (PPO, IdentityEnv, 4096, dict(n_steps=256)),
        (PPO, IdentityEnvMultiDiscrete, 4096, dict(n_steps=256)),
        (PPO, IdentityEnvMultiBinary, 4096, dict(n_steps=256)),
        (A2C, IdentityEnv, 4096, dict(n_steps=16)),
        (A2C, IdentityEnvMultiDiscrete, 4096, dict(n_steps=16)),
        (A2C, IdentityEnvMultiBinary, 4096, dict(n_steps=16)),
        (TRPO, IdentityEnv, 2048, dict(n_steps=256)),
        (DQN, IdentityEnv, 1000, Q_LEARNING),
        (QRDQN, IdentityEnv, 1000, {**Q_LEARNING, "policy_kwargs": dict(n_quantiles=20)}),
    ],
    ids=name,
)
def test_copies_the_observation(algo, env_class, steps, kwargs):
    env = DummyVecEnv([lambda: env_class(ep_length=10)])
    model = algo("SPANPolicy", env, gamma=0.0, seed=0, **kwargs).learn(steps)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
    assert mean >= 9  # of 10; a random policy has 5 at best


@pytest.mark.parametrize("algo", [SAC, TD3, DDPG, TQC], ids=name)
def test_copies_a_continuous_observation(algo):
    env = make_vec_env(TrackEnv, seed=0)
    kwargs = dict(learning_starts=100, batch_size=64, policy_kwargs=dict(max_grad_norm=10.0), **noise(algo, 1))
    model = algo("SPANPolicy", env, gamma=0.0, seed=0, learning_rate=3e-3, **kwargs).learn(600)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20)
    assert mean >= -1  # a random policy has -6.7


def test_takes_the_best_of_the_actions_that_are_allowed():
    env = DummyVecEnv([lambda: InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10)])
    model = MaskablePPO("SPANPolicy", env, gamma=0.0, seed=0, n_steps=256).learn(4096)
    mean, _ = evaluate_masked_policy(model, env, n_eval_episodes=5, warn=False)
    assert mean >= 50  # of 100; a random choice out of the allowed has 10


def test_remembers_what_it_has_seen():
    env = make_vec_env(RecallEnv, n_envs=8, seed=0)
    sizes = dict(n_steps=32, batch_size=64, n_epochs=5, policy_kwargs=dict(lstm_hidden_size=16))
    model = RecurrentPPO("SPANPolicy", env, seed=0, gamma=0.9, **sizes).learn(8192)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=40)
    assert mean >= 0.9  # of 1; without a memory it is 0.5


@pytest.mark.parametrize("algo", [SAC, TD3, DDPG, TQC, DQN, QRDQN], ids=name)
def test_reaches_goals_with_hindsight(algo, tmp_path):
    """HER: Dict observations with goals. All bits have to be set, in as many steps at most, and only that is rewarded."""
    is_discrete = algo in (DQN, QRDQN)
    env = BitFlippingEnv(n_bits=3, continuous=not is_discrete)
    kwargs = Q_LEARNING if is_discrete else dict(learning_rate=3e-3, learning_starts=100, **noise(algo, 3))
    policy_kwargs = dict(n_quantiles=10) if algo in (QRDQN, TQC) else {}
    replay = dict(replay_buffer_class=HerReplayBuffer, buffer_size=2000, batch_size=64)
    steps = 1600 if issubclass(algo, TD3) else 800
    model = algo("SPANPolicy", env, seed=0, gamma=0.9, policy_kwargs=policy_kwargs, **replay, **kwargs).learn(steps)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
    assert mean >= -1.2  # one bit a time has -0.75 at best, all at once 0; a random policy has -2.3

    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = algo.load(tmp_path / "model", env=env)
    loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
    obs = env.reset()[0]
    np.testing.assert_array_equal(actions(loaded, obs), actions(model, obs))
    loaded.learn(8, reset_num_timesteps=False)


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
