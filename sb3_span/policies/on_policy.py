"""SPAN for PPO, A2C and their kin."""

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from sb3_span.nn import StackedLinear
from sb3_span.policies.networks import SPANExtractor
from sb3_span.policies.options import SPANOptions


class SPANActorCriticPolicy(SPANOptions, ActorCriticPolicy):
    """
    Actor-critic policy with a SPAN network each for the actions and the value.

    Takes every option of SB3's ``ActorCriticPolicy`` except ``net_arch`` and ``activation_fn``, and one more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``vf``
    """

    span_roles = ("pi", "vf")

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = SPANExtractor(self.features_dim, self.archs["pi"], self.archs["vf"]).to(self.device)  # type: ignore[assignment]

    @staticmethod
    def init_weights(module: nn.Module, gain: float = 1) -> None:
        """``ortho_init`` treats a stack of linear layers (W_pre) as SB3 treats a single one."""
        if isinstance(module, StackedLinear):
            module.init_orthogonal(gain)
        else:
            ActorCriticPolicy.init_weights(module, gain)
