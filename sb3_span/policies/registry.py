"""Which SPAN policy belongs to which algorithm."""

import contextlib

from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from sb3_span.policies.dispatch import ALIAS, NoSPANPolicy, OwnPolicyClass

_policies: dict[type[BaseAlgorithm], type[BasePolicy]] = {}


def register_policies() -> None:
    """
    Make the string ``"SPANPolicy"`` known to every supported algorithm, those of sb3-contrib if it is installed, and let the
    class of that name stand for it.
    """
    from sb3_span.policies.dqn import SPANDQNPolicy
    from sb3_span.policies.on_policy import SPANActorCriticPolicy
    from sb3_span.policies.sac import SPANPolicy
    from sb3_span.policies.td3 import SPANTD3Policy

    _policies.update({PPO: SPANActorCriticPolicy, A2C: SPANActorCriticPolicy, SAC: SPANPolicy})
    _policies.update({TD3: SPANTD3Policy, DDPG: SPANTD3Policy, DQN: SPANDQNPolicy})
    with contextlib.suppress(ImportError):
        from sb3_span.policies.contrib import POLICIES, WITHOUT

        _policies.update(POLICIES)
        for algorithm in WITHOUT:
            algorithm.policy_aliases[ALIAS] = NoSPANPolicy
            algorithm.policy_class = OwnPolicyClass(SPANPolicy, NoSPANPolicy, users_of)  # type: ignore[assignment]
    for algorithm, policy in _policies.items():
        algorithm.policy_aliases[ALIAS] = policy
        algorithm.policy_class = OwnPolicyClass(SPANPolicy, policy, users_of)  # type: ignore[assignment]


def supported_algorithms() -> dict[str, type[BaseAlgorithm]]:
    """The algorithms with a SPAN policy, by their names in lower case."""
    return {algorithm.__name__.lower(): algorithm for algorithm in _policies}


def policy_for(algorithm: type[BaseAlgorithm]) -> type[BasePolicy] | None:
    """The SPAN policy for an algorithm or a subclass of one; None if there is none."""
    return next((_policies[cls] for cls in algorithm.__mro__ if cls in _policies), None)


def users_of(policy: type[BasePolicy]) -> list[str]:
    """The algorithms that a SPAN policy is for, by name; none for other policies."""
    return [cls.__name__ for cls, right in _policies.items() if issubclass(policy, right)]
