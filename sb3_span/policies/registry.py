"""Which SPAN policy belongs to which algorithm."""

import sys

from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
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
    if not isinstance(algorithm, BaseAlgorithm):
        return
    expected = next((_policies[cls] for cls in type(algorithm).__mro__ if cls in _policies), None)
    if expected is None or isinstance(policy, expected):
        return
    name, given = type(algorithm).__name__, type(policy).__name__
    users = ", ".join(cls.__name__ for cls, right in _policies.items() if isinstance(policy, right))
    raise ValueError(
        f"{name} was given {given}, which is for {users}. Use {name}({expected.__name__}, env), or the string: "
        f'{name}("{ALIAS}", env).'
    )
