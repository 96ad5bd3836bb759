"""
SPAN as features extractor: actor and critic read the modes of one network, with half the parameters.

It works with any SB3 algorithm. About half a minute.
"""

from sb3_span import SPANFeaturesExtractor
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

policy_kwargs = dict(
    features_extractor_class=SPANFeaturesExtractor,
    features_extractor_kwargs=dict(span_arch=dict(nmodes=10, nelems=8)),
    net_arch=[],  # the linear heads read the modes directly
)
env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
model = PPO("MlpPolicy", env, n_steps=128, learning_rate=1e-3, policy_kwargs=policy_kwargs, seed=0, device="cpu")
model.learn(40_000)

mean, std = evaluate_policy(model, env, n_eval_episodes=20)
print(f"return {mean:.0f} +- {std:.0f} with {sum(param.numel() for param in model.policy.parameters())} parameters")
