"""SPAN, spline-based adaptive networks, for Stable-Baselines3."""

import sys

from sb3_span.nn import SPAN, SPANArch
from sb3_span.policies import (
    ClippedMlpPolicy,
    SPANActorCriticPolicy,
    SPANFeaturesExtractor,
    SPANPolicy,
    register_policies,
)
from sb3_span.version import __version__

__all__ = [
    "SPAN",
    "ClippedMlpPolicy",
    "SPANActorCriticPolicy",
    "SPANArch",
    "SPANFeaturesExtractor",
    "SPANPolicy",
    "__version__",
]

register_policies()

if "rl_zoo3" in sys.modules:
    import sb3_span.zoo  # noqa: F401
