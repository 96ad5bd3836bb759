"""The network inside Stable-Baselines3."""

from sb3_span.policies.extractors import SPANFeaturesExtractor
from sb3_span.policies.on_policy import SPANActorCriticPolicy
from sb3_span.policies.registry import register_policies
from sb3_span.policies.sac import ClippedMlpPolicy, SPANPolicy

__all__ = ["ClippedMlpPolicy", "SPANActorCriticPolicy", "SPANFeaturesExtractor", "SPANPolicy", "register_policies"]
