"""
Every algorithm builds its own SPAN policy: the class ``SPANPolicy`` stands for it, and those of other algorithms are refused.

SB3's algorithms assign the class that they are given to ``policy_class`` before they build a policy, and loading a file
sets it directly. A descriptor of that name handles both.
"""

from collections.abc import Callable
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

ALIAS = "SPANPolicy"


class OwnPolicyClass:
    """
    The attribute ``policy_class`` of an algorithm. The class is stored where SB3 stores it, so that saving and loading work as
    before.

    :param general: The class that stands for the algorithm's own
    :param own: The algorithm's own
    :param users_of: The names of the algorithms that a SPAN policy is for; none for other policies
    """

    def __init__(
        self, general: type[BasePolicy], own: type[BasePolicy], users_of: Callable[[type[BasePolicy]], list[str]]
    ) -> None:
        self.general, self.own, self.users_of = general, own, users_of

    def __get__(self, algorithm: BaseAlgorithm | None, owner: type) -> Any:
        if algorithm is None:
            return self
        try:
            policy = vars(algorithm)["policy_class"]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no policy_class yet") from None
        if not issubclass(policy, self.own) and (users := self.users_of(policy)):
            name = owner.__name__
            raise ValueError(
                f"{name} got {policy.__name__}, the policy of {' and '.join(users)}. For a new agent use "
                f'{name}("{ALIAS}", env); load a saved one with the algorithm that saved it: {users[0]}.load(...).'
            )
        return policy

    def __set__(self, algorithm: BaseAlgorithm, given: type[BasePolicy]) -> None:
        vars(algorithm)["policy_class"] = self.own if given is self.general else given


class NoSPANPolicy(BasePolicy):
    """Takes the place of the SPAN policy where an algorithm has none, and says so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "There is no SPAN policy for this algorithm: CrossQ is about batch normalisation in an MLP, ARS about linear "
            f'policies. For continuous actions try SAC or TQC with "{ALIAS}", or CrossQ("MlpPolicy", env, '
            "policy_kwargs=dict(features_extractor_class=SPANFeaturesExtractor))."
        )

    def _predict(self, observation: Any, deterministic: bool = False) -> Any:
        raise NotImplementedError
