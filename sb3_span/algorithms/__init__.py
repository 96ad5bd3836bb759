"""SB3's algorithms with whole updates in C, for small networks."""

from sb3_span.algorithms.ppo import PPO
from sb3_span.algorithms.sac import SAC

__all__ = ["PPO", "SAC"]
