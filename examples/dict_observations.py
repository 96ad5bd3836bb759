"""Dict observations need no other policy class: the parts are combined and go through SPAN together. About half a minute."""

import gymnasium as gym
import numpy as np
import sb3_span  # noqa: F401  (makes "SPANPolicy" known to SB3)
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


class NamedCartPole(gym.ObservationWrapper):
    """CartPole whose observation is a Dict of positions and velocities."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        two = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict(positions=two, velocities=two)

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"positions": observation[[0, 2]], "velocities": observation[[1, 3]]}


env = make_vec_env("CartPole-v1", n_envs=8, seed=0, wrapper_class=NamedCartPole)
model = PPO("SPANPolicy", env, n_steps=128, seed=0, device="cpu")
model.learn(40_000)

mean, std = evaluate_policy(model, env, n_eval_episodes=20)
print(f"return {mean:.0f} +- {std:.0f} from {model.observation_space}")
