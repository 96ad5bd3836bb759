"""
SAC with a SPAN network for one part and an MLP for the other, to find out which part a difference comes from.

A study names such a policy, as `policy: examples.mixed.SPANActor` in zoo_configs/ablation/mixes.yml. About half a minute.
"""

from typing import Any

from sb3_span import SAC, SPANPolicy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.sac.policies import Actor
from torch import nn


class SPANActor(SPANPolicy):
    """The actor is a SPAN network, the critics are MLPs of this size."""

    hidden = (30, 30)

    def make_critic(self, features_extractor: Any = None) -> ContinuousCritic:
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return ContinuousCritic(**{**kwargs, "net_arch": [*self.hidden], "activation_fn": nn.ReLU}).to(self.device)


class SPANCritics(SPANPolicy):
    """The actor is an MLP of this size, the critics are SPAN networks."""

    hidden = (23, 23)

    def make_actor(self, features_extractor: Any = None) -> Actor:
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return Actor(**{**kwargs, "net_arch": [*self.hidden], "activation_fn": nn.ReLU}).to(self.device)


if __name__ == "__main__":
    for policy in (SPANActor, SPANCritics):
        env = make_vec_env("Pendulum-v1", seed=0)
        model = SAC(policy, env, learning_rate=1e-3, policy_kwargs=dict(lr_scale=1.0), seed=0, device="cpu")
        model.learn(5_000)
        mean, std = evaluate_policy(model, env, n_eval_episodes=20)
        print(f"{policy.__name__}: return {mean:.0f} +- {std:.0f} (a random policy has about -1200)")
