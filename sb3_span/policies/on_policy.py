"""SPAN for PPO, A2C and similar algorithms."""

from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from torch import nn

from sb3_span.nn import StackedLinear
from sb3_span.policies.networks import SPANExtractor
from sb3_span.policies.optimizers import SPAN_PARTS
from sb3_span.policies.options import SPANOptions
from sb3_span.policies.saturation import WarnsOfObservations


class SPANOnPolicy(WarnsOfObservations, SPANOptions):
    """Mixed into a policy of SB3, in front of it: a SPAN network each for the actions and the value."""

    span_roles = ("pi", "vf")
    # How shape and rate were chosen: docs/evidence/defaults.md
    default_lr_scale = dict.fromkeys(SPAN_PARTS, 2.0)
    default_arch = dict(group_size=2, latent_dim=32, nmodes=4, nelems=4)

    features_dim: int
    mlp_extractor: Any

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = self._make_extractor(self.features_dim, stacked=True)

    def _make_extractor(self, features_dim: int, stacked: bool) -> SPANExtractor:
        return SPANExtractor(features_dim, self.archs["pi"], self.archs["vf"], stacked).to(self.device)

    @staticmethod
    def init_weights(module: nn.Module, gain: float = 1) -> None:
        """``ortho_init`` treats a stack of linear layers (W_pre) as SB3 treats a single one."""
        if isinstance(module, StackedLinear):
            module.init_orthogonal(gain)
        else:
            BasePolicy.init_weights(module, gain)


class SPANActorCriticPolicy(SPANOnPolicy, ActorCriticPolicy):
    """
    Actor-critic policy with a SPAN network each for the actions and the value.

    Accepts every option of SB3's ``ActorCriticPolicy`` except ``net_arch`` and ``activation_fn``, and three more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``vf``
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 2 for all parts but ``other``
    :param stacked: Whether the two, when they have one shape, share their parameters' tensors and are evaluated at once.
        False is for algorithms that must tell the actor's parameters from the critic's; TRPO has its own policy for that
    """

    def __init__(self, *args: Any, stacked: bool = True, **kwargs: Any) -> None:
        self.stacked = stacked
        super().__init__(*args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = self._make_extractor(self.features_dim, self.stacked)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "stacked": self.stacked}
