"""The network inside Stable-Baselines3. Policies for sb3-contrib are in ``sb3_span.policies.contrib``."""

from sb3_span.policies.dqn import SPANDQNPolicy
from sb3_span.policies.extractors import SPANFeaturesExtractor
from sb3_span.policies.on_policy import SPANActorCriticPolicy
from sb3_span.policies.registry import register_policies
from sb3_span.policies.sac import ClippedMlpPolicy, SPANPolicy
from sb3_span.policies.td3 import SPANTD3Policy

__all__ = [
    "ClippedMlpPolicy",
    "SPANActorCriticPolicy",
    "SPANDQNPolicy",
    "SPANFeaturesExtractor",
    "SPANPolicy",
    "SPANTD3Policy",
    "register_policies",
]
