"""SPAN for DQN."""

from stable_baselines3.dqn.policies import DQNPolicy

from sb3_span.policies.networks import SPANQNetwork
from sb3_span.policies.options import SPANOptions


class SPANDQNPolicy(SPANOptions, DQNPolicy):
    """
    DQN's policy with a SPAN network for the Q-values of all actions, and its target.

    Accepts every option of SB3's ``DQNPolicy`` except ``net_arch`` and ``activation_fn``, and two more:

    :param span_arch: Shape of the network, a dict with the fields of :class:`~sb3_span.nn.SPANArch`
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 1
    """

    span_roles = ("qf",)

    def make_q_net(self) -> SPANQNetwork:
        return self.make_network(SPANQNetwork, "qf", self.net_args)
