"""SPAN, spline-based adaptive networks, for Stable-Baselines3."""

from typing import TYPE_CHECKING, Any

from sb3_span import quiet_gym  # noqa: F401  (the first, before anything imports SB3)
from sb3_span.algorithms import PPO, SAC
from sb3_span.nn import SPAN, SPANArch
from sb3_span.policies import (
    ClippedMlpPolicy,
    SPANActorCriticPolicy,
    SPANDQNPolicy,
    SPANFeaturesExtractor,
    SPANPolicy,
    SPANTD3Policy,
    register_policies,
)
from sb3_span.version import __version__

__all__ = [
    "PPO",
    "SAC",
    "SPAN",
    "ClippedMlpPolicy",
    "SPANActorCriticPolicy",
    "SPANArch",
    "SPANDQNPolicy",
    "SPANFeaturesExtractor",
    "SPANPolicy",
    "SPANTD3Policy",
    "__version__",
]

if TYPE_CHECKING:
    from sb3_span.policies.contrib import SPANMaskableActorCriticPolicy as SPANMaskableActorCriticPolicy
    from sb3_span.policies.contrib import SPANQRDQNPolicy as SPANQRDQNPolicy
    from sb3_span.policies.contrib import SPANRecurrentActorCriticPolicy as SPANRecurrentActorCriticPolicy
    from sb3_span.policies.contrib import SPANTQCPolicy as SPANTQCPolicy
    from sb3_span.policies.contrib import SPANTRPOPolicy as SPANTRPOPolicy
else:
    CONTRIB = (
        "SPANMaskableActorCriticPolicy",
        "SPANQRDQNPolicy",
        "SPANRecurrentActorCriticPolicy",
        "SPANTQCPolicy",
        "SPANTRPOPolicy",
    )

    def __getattr__(name: str) -> Any:
        """The policies for sb3-contrib; asking for one is an error only where that is not installed."""
        if name not in CONTRIB:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from sb3_span.policies import contrib

        return getattr(contrib, name)


register_policies()
