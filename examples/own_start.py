"""
Your own policies, with another initialisation than the package's: all coefficients near one, the simple choice.

A study names such a policy, as `policy: examples.own_start.PPOPolicy` in zoo_configs/ablation/start.yml. About half a minute.
"""

from typing import Any

from sb3_span import SAC, SPANActorCriticPolicy, SPANPolicy
from sb3_span.nn import SPAN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from torch import nn


def start_around_one(network: nn.Module) -> nn.Module:
    """Draw all coefficients from N(1, 0.1^2): every factor is near one, and so is every mode."""
    for module in network.modules():
        if isinstance(module, SPAN):
            nn.init.normal_(module.coefficients, mean=1.0, std=0.1)
    return network


class PPOPolicy(SPANActorCriticPolicy):
    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        start_around_one(self.mlp_extractor)


class SACPolicy(SPANPolicy):
    def make_network(self, *args: Any, **kwargs: Any) -> Any:
        return start_around_one(super().make_network(*args, **kwargs))


if __name__ == "__main__":
    env = make_vec_env("Pendulum-v1", seed=0)
    model = SAC(SACPolicy, env, seed=0, device="cpu")
    model.learn(5_000)
    mean, std = evaluate_policy(model, env, n_eval_episodes=20)
    print(f"return {mean:.0f} +- {std:.0f} (a random policy has about -1200)")
