"""PPO with SPAN on CartPole-v1: an SB3 script in which one word has changed. About half a minute."""

import sb3_span  # noqa: F401  (makes "SPANPolicy" known to SB3)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
model = PPO("SPANPolicy", env, n_steps=128, seed=0, device="cpu")
model.learn(40_000)

mean, std = evaluate_policy(model, env, n_eval_episodes=20)
print(f"return {mean:.0f} +- {std:.0f} with {sum(param.numel() for param in model.policy.parameters())} parameters")
