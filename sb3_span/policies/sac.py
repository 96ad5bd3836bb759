"""SPAN for SAC, and the MLP that it is compared with."""

from typing import Any

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.sac.policies import SACPolicy

from sb3_span.policies.clipping import GradientClipping
from sb3_span.policies.networks import SPANActor, SPANCritic
from sb3_span.policies.options import MLP_OPTIONS, SPANOptions


class SPANPolicy(SPANOptions, GradientClipping, SACPolicy):
    """
    SAC's policy with SPAN networks: one for the actor, one stack for all critics.

    Takes every option of SB3's ``SACPolicy`` except ``net_arch`` and ``activation_fn``, and two more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``qf``
    :param max_grad_norm: Clip the gradients of the actor, and of all critics together, to this norm;
        None, the default, does not clip
    """

    span_roles = ("pi", "qf")

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> SPANActor:
        kwargs = self._update_features_extractor(_without_mlp_options(self.actor_kwargs), features_extractor)
        return SPANActor(span_arch=self.archs["pi"], **kwargs).to(self.device)

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> SPANCritic:
        kwargs = self._update_features_extractor(_without_mlp_options(self.critic_kwargs), features_extractor)
        return SPANCritic(span_arch=self.archs["qf"], **kwargs).to(self.device)


class ClippedMlpPolicy(GradientClipping, SACPolicy):
    """
    SB3's MLP policy for SAC with one more option, so that an MLP baseline can be trained as SPAN is:

    :param max_grad_norm: Clip the gradients of the actor, and of all critics together, to this norm;
        None, the default, does not clip
    """

    def _get_constructor_parameters(self) -> dict[str, Any]:
        # SB3 leaves this out.
        return {**super()._get_constructor_parameters(), "share_features_extractor": self.share_features_extractor}


def _without_mlp_options(kwargs: dict) -> dict:
    return {key: value for key, value in kwargs.items() if key not in MLP_OPTIONS}
