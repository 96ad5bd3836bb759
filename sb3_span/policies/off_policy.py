"""What the SPAN policies of off-policy actor-critic methods (SAC, TD3, DDPG, TQC) have in common."""

from typing import Any, ClassVar

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sb3_span.policies.networks import SPANCritic, SPANNetwork
from sb3_span.policies.optimizers import GradientClipping
from sb3_span.policies.options import SPANOptions


class SPANOffPolicy(SPANOptions, GradientClipping):
    """Mixed into a policy of SB3, in front of it: one SPAN network for the actor, one stack for all critics."""

    span_roles = ("pi", "qf")
    actor_class: ClassVar[type[SPANNetwork]]
    critic_class: ClassVar[type[SPANCritic]] = SPANCritic

    actor_kwargs: dict[str, Any]
    critic_kwargs: dict[str, Any]

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        return self.make_network(self.actor_class, "pi", self.actor_kwargs, features_extractor)

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        return self.make_network(self.critic_class, "qf", self.critic_kwargs, features_extractor)
