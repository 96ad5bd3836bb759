"""Which SPAN policy belongs to which algorithm."""

import contextlib
import sys

from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy

ALIAS = "SPANPolicy"

_policies: dict[type[BaseAlgorithm], type[BasePolicy]] = {}
_train_apart: list[type[BaseAlgorithm]] = []


def register_policies() -> None:
    """Make the string ``"SPANPolicy"`` known to every supported algorithm, those of sb3-contrib if it is installed."""
    from sb3_span.policies.dqn import SPANDQNPolicy
    from sb3_span.policies.on_policy import SPANActorCriticPolicy
    from sb3_span.policies.sac import SPANPolicy
    from sb3_span.policies.td3 import SPANTD3Policy

    _policies.update({PPO: SPANActorCriticPolicy, A2C: SPANActorCriticPolicy, SAC: SPANPolicy})
    _policies.update({TD3: SPANTD3Policy, DDPG: SPANTD3Policy, DQN: SPANDQNPolicy})
    with contextlib.suppress(ImportError):
        from sb3_span.policies.contrib import POLICIES, TRAIN_APART

        _policies.update(POLICIES)
        _train_apart.extend(TRAIN_APART)
    for algorithm, policy in _policies.items():
        algorithm.policy_aliases[ALIAS] = policy


def supported_algorithms() -> dict[str, type[BaseAlgorithm]]:
    """The algorithms that there is a SPAN policy for, by their names in lower case."""
    return {algorithm.__name__.lower(): algorithm for algorithm in _policies}


def policy_for(algorithm: type[BaseAlgorithm]) -> type[BasePolicy] | None:
    """The SPAN policy for an algorithm or a subclass of one; None if there is none."""
    return next((_policies[cls] for cls in algorithm.__mro__ if cls in _policies), None)


def check_algorithm(policy: BasePolicy) -> None:
    """
    Refuse a SPAN policy that is being built by an algorithm of another family, and name the right one.

    :param policy: A policy at the beginning of its ``__init__``
    """
    algorithm = _builder(policy)
    if algorithm is None:
        return
    expected = policy_for(type(algorithm))
    if expected is None:  # an algorithm that we do not know, a user's: what it takes tells what it is like
        own = next((cls for alias, cls in algorithm.policy_aliases.items() if alias.startswith("Mlp")), None)
        if own is None and isinstance(algorithm, OnPolicyAlgorithm):
            own = ActorCriticPolicy
        families = [base for base in (own.__mro__ if own else ()) if issubclass(base, BasePolicy) and base is not BasePolicy]
        expected = next((cls for base in families for cls in _policies.values() if issubclass(cls, base)), None)
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


def trains_apart(policy: BasePolicy) -> bool:
    """
    Whether a policy is being built by an algorithm that tells the actor's parameters from the critic's.

    :param policy: A policy at the beginning of its ``__init__``
    """
    return isinstance(_builder(policy), tuple(_train_apart))


def _builder(policy: BasePolicy) -> BaseAlgorithm | None:
    """
    The algorithm that is building a policy; None for a policy that is built by hand.

    SB3 does not tell a policy who builds it. A mix-up would surface much later and far away, so the caller is looked up on
    the stack, past this function's caller and the policy's own ``__init__``.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_locals.get("self") is policy:
        frame = frame.f_back
    algorithm = frame.f_locals.get("self")
    return algorithm if isinstance(algorithm, BaseAlgorithm) and algorithm.policy_class is type(policy) else None
