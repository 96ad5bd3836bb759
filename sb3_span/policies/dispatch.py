"""
``SPANPolicy``, the class, in every algorithm: each takes its own SPAN policy instead.

SB3's algorithms assign the class that they are given to ``policy_class`` before they build a policy. A descriptor of that name
sees the assignment.
"""

from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy


class OwnPolicyClass:
    """
    The attribute ``policy_class`` of an algorithm, in which one class stands for another. It is stored where SB3 stores it, so
    that saving and loading go on as they do.

    :param general: The class that stands for the algorithm's own
    :param own: The algorithm's own
    """

    def __init__(self, general: type[BasePolicy], own: type[BasePolicy]) -> None:
        self.general, self.own = general, own

    def __get__(self, algorithm: BaseAlgorithm | None, owner: type) -> Any:
        if algorithm is None:
            return self
        try:
            return vars(algorithm)["policy_class"]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no policy_class yet") from None

    def __set__(self, algorithm: BaseAlgorithm, given: type[BasePolicy]) -> None:
        vars(algorithm)["policy_class"] = self.own if given is self.general else given


class NoSPANPolicy(BasePolicy):
    """Stands for the SPAN policy of an algorithm that there is none for, and says so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "There is no SPAN policy for this algorithm: CrossQ is about batch norm in an MLP, ARS about linear policies. For "
            "continuous actions try SAC or TQC with the policy 'SPANPolicy', or give CrossQ's own 'MlpPolicy' the option "
            "policy_kwargs=dict(features_extractor_class=SPANFeaturesExtractor)."
        )

    def _predict(self, observation: Any, deterministic: bool = False) -> Any:
        raise NotImplementedError
