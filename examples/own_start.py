"""
A policy of one's own: SAC's with splines that start as noise around one, the simple choice, instead of the package's.

A study takes it by its name, `policy: examples.own_start.AroundOne`, as zoo_configs/ablation/hopper.yml does. About a quarter of
a minute.
"""

from typing import Any

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from torch import nn

from sb3_span import SAC, SPANPolicy
from sb3_span.nn import SPAN


class AroundOne(SPANPolicy):
    """SPANPolicy with every coefficient drawn from N(1, 0.1^2): all factors near one, so all modes near one."""

    def make_network(self, *args: Any, **kwargs: Any) -> Any:
        network = super().make_network(*args, **kwargs)
        for module in network.modules():
            if isinstance(module, SPAN):
                nn.init.normal_(module.coefficients, mean=1.0, std=0.1)
        return network


if __name__ == "__main__":
    env = make_vec_env("Pendulum-v1", seed=0)
    model = SAC(AroundOne, env, learning_rate=3e-3, seed=0, device="cpu")
    model.learn(5_000)
    mean, std = evaluate_policy(model, env, n_eval_episodes=20)
    print(f"return {mean:.0f} +- {std:.0f} (a random policy has about -1200)")
