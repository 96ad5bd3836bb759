"""A pole-balancing policy, trained in half a minute and written as C for a microcontroller: cartpole/policy.h and policy.c."""

import sb3_span  # noqa: F401  (makes "SPANPolicy" known to SB3)
from sb3_span.deploy import export_c
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
model = PPO("SPANPolicy", env, n_steps=128, seed=0, device="cpu")
model.learn(40_000)

# The C code is compiled and compared with model.predict before it is written.
verification = export_c(model, "cartpole")
print(f"cartpole/policy.c: {verification}")
