"""Which SPAN policy belongs to which algorithm."""

import sys

from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy

ALIAS = "SPANPolicy"

_policies: dict[type[BaseAlgorithm], type[BasePolicy]] = {}


def register_policies() -> None:
    """Make the string ``"SPANPolicy"`` known to every supported algorithm."""
    from sb3_span.policies.on_policy import SPANActorCriticPolicy
    from sb3_span.policies.sac import SPANPolicy

    _policies.update({PPO: SPANActorCriticPolicy, A2C: SPANActorCriticPolicy, SAC: SPANPolicy})
    for algorithm, policy in _policies.items():
        algorithm.policy_aliases[ALIAS] = policy


def supported_algorithms() -> dict[str, type[BaseAlgorithm]]:
    """The algorithms that there is a SPAN policy for, by the lower-case names that the RL Zoo gives them."""
    return {algorithm.__name__.lower(): algorithm for algorithm in _policies}


def is_supported(algorithm: type[BaseAlgorithm]) -> bool:
    """Whether there is a SPAN policy for this algorithm."""
    return any(cls in _policies for cls in algorithm.__mro__)


def check_algorithm(policy: BasePolicy) -> None:
    """
    Refuse a SPAN policy that is being built by an algorithm of another family, and name the right one.

    SB3 does not tell a policy who builds it, and the mix-up would surface much later and far away,
    so the caller is looked up on the stack.

    :param policy: A policy at the beginning of its ``__init__``
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_locals.get("self") is policy:
        frame = frame.f_back
    algorithm = frame.f_locals.get("self")
    if not isinstance(algorithm, BaseAlgorithm) or algorithm.policy_class is not type(policy):
        return
    expected = _policy_for(type(algorithm))
    if expected is not None and isinstance(policy, expected):
        return
    name, given = type(algorithm).__name__, type(policy).__name__
    users = ", ".join(cls.__name__ for cls, right in _policies.items() if isinstance(policy, right))
    if expected is None:
        advice = (
            f"There is no SPAN policy for {name}: use its own policies with features_extractor_class=SPANFeaturesExtractor."
        )
    else:
        advice = f'Use {name}({expected.__name__}, env), or the string: {name}("{ALIAS}", env).'
    raise ValueError(f"{name} was given {given}, which is for {users}. {advice}")


def _policy_for(algorithm: type[BaseAlgorithm]) -> type[BasePolicy] | None:
    known = next((_policies[cls] for cls in algorithm.__mro__ if cls in _policies), None)
    # An on-policy algorithm that we do not know (one of sb3-contrib's, a user's) is taken to be like PPO.
    return _policies[PPO] if known is None and issubclass(algorithm, OnPolicyAlgorithm) else known
