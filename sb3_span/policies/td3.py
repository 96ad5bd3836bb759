"""SPAN for TD3 and DDPG."""

from stable_baselines3.td3.policies import TD3Policy

from sb3_span.policies.networks import SPANTD3Actor
from sb3_span.policies.off_policy import SPANOffPolicy


class SPANTD3Policy(SPANOffPolicy, TD3Policy):
    """
    The policy of TD3 and DDPG with SPAN networks: one for the actor, one stack for all critics, and a target of each.

    Accepts every option of SB3's ``TD3Policy`` except ``net_arch`` and ``activation_fn``, and three more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``qf``
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 1
    :param max_grad_norm: As for :class:`~sb3_span.SPANPolicy`
    """

    actor_class = SPANTD3Actor
