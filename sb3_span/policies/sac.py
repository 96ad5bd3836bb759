"""SPAN for SAC, and the MLP that it is compared with."""

from typing import Any

from stable_baselines3.sac.policies import SACPolicy

from sb3_span.policies.networks import SPANActor
from sb3_span.policies.off_policy import SPANOffPolicy
from sb3_span.policies.optimizers import SPAN_PARTS, GradientClipping

# A multiple of SB3's 3e-4, which suits MLPs; how it was chosen: docs/evidence/defaults.md
SAC_LR_SCALE = dict.fromkeys(SPAN_PARTS, 3.0)


class SPANPolicy(SPANOffPolicy, SACPolicy):
    """
    SAC's policy with SPAN networks: one for the actor, one stack for all critics.

    Accepts every option of SB3's ``SACPolicy`` except ``net_arch`` and ``activation_fn``, and three more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``qf``
    :param lr_scale: Multiplies the learning rate: a number, or a dict with one for any of the parts ``preprocess``,
        ``coefficients``, ``scale``, ``head`` and ``other``, which is everything outside the SPAN networks;
        parts that are not named have 1. By default 3 for all parts but ``other``
    :param max_grad_norm: Clip the gradients of the actor, and of all critics together, to this norm;
        None, the default, does not clip
    """

    actor_class = SPANActor
    default_lr_scale = SAC_LR_SCALE


class ClippedMlpPolicy(GradientClipping, SACPolicy):
    """
    SB3's MLP policy for SAC with one more option, so that an MLP baseline can be trained as SPAN is:

    :param max_grad_norm: Clip the gradients of the actor, and of all critics together, to this norm;
        None, the default, does not clip
    """

    def _get_constructor_parameters(self) -> dict[str, Any]:
        # SB3 leaves this out.
        return {**super()._get_constructor_parameters(), "share_features_extractor": self.share_features_extractor}
