"""The SPAN actor and critics that the policies are made of. SB3's own linear heads read the modes."""

from collections.abc import Mapping
from typing import Any

import torch as th
from stable_baselines3.common.policies import BasePolicy, ContinuousCritic
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.dqn.policies import QNetwork
from stable_baselines3.sac.policies import Actor
from stable_baselines3.td3.policies import Actor as TD3Actor
from torch import nn

from sb3_span.nn import SPAN, SPANArch
from sb3_span.policies.saturation import WarnsOfObservations


class SPANExtractor(nn.Module):
    """
    Latent vectors of actor and critic from the same features: what ``MlpExtractor`` is to an MLP policy.

    :param features_dim: Number of features
    :param pi: Shape of the actor
    :param vf: Shape of the critic
    :param stacked: Whether networks of one shape are one stack, evaluated at once; otherwise each has its own parameters
    """

    def __init__(self, features_dim: int, pi: SPANArch, vf: SPANArch, stacked: bool) -> None:
        super().__init__()
        self.latent_dim_pi = pi.count_modes(features_dim)
        self.latent_dim_vf = vf.count_modes(features_dim)
        self.is_stack = stacked and pi == vf
        if self.is_stack:
            self.pi_vf = SPAN(features_dim, pi, n_stack=2)
        else:
            self.pi = SPAN(features_dim, pi)
            self.vf = SPAN(features_dim, vf)

    def forward(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """
        :param features: Shape (B, features_dim)
        :return: Modes of the actor and of the critic, each of shape (B, W)
        """
        if self.is_stack:
            latent_pi, latent_vf = self.pi_vf(features).unbind()
            return latent_pi, latent_vf
        return self.pi(features), self.vf(features)

    def forward_actor(self, features: th.Tensor) -> th.Tensor:
        return self.pi_vf(features, only=0) if self.is_stack else self.pi(features)

    def forward_critic(self, features: th.Tensor) -> th.Tensor:
        return self.pi_vf(features, only=1) if self.is_stack else self.vf(features)


class SPANNetwork(WarnsOfObservations, BasePolicy):
    """
    Mixed into a network of SB3, in front of it: has ``span_arch`` in place of SB3's ``net_arch``, and remembers it.

    SB3 builds its part as if the modes were the features and there were no hidden layers; SPAN then replaces its body.

    :param span_arch: The network's shape
    :param features_dim: Number of features
    :param kwargs: As for SB3's network, without ``net_arch`` and ``activation_fn``
    """

    def __init__(self, *, features_dim: int, span_arch: SPANArch | Mapping[str, Any], **kwargs: Any) -> None:
        self.arch = SPANArch.make(span_arch)
        super().__init__(net_arch=[], features_dim=self.arch.count_modes(features_dim), **kwargs)
        self.features_dim = features_dim

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        del data["net_arch"], data["activation_fn"]
        data["span_arch"] = self.arch.to_dict()
        return data


class SPANActor(SPANNetwork, Actor):
    """The actor of SAC and TQC with a SPAN body; mean and log-std are linear in its modes, gSDE works on them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.latent_pi = SPAN(self.features_dim, self.arch)  # type: ignore[assignment]


class SPANTD3Actor(SPANNetwork, TD3Actor):
    """The deterministic actor of TD3 and DDPG: a SPAN network and a tanh."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mu = nn.Sequential(SPAN(self.features_dim, self.arch, output_dim=get_action_dim(self.action_space)), nn.Tanh())


class SPANQNetwork(SPANNetwork, QNetwork):
    """DQN's Q-values of all actions from one SPAN network."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.q_net = SPAN(self.features_dim, self.arch, output_dim=int(self.action_space.n))  # type: ignore[assignment]


class SPANCritic(ContinuousCritic):
    """
    Q-values of all critics from one stack of SPAN networks.

    :param span_arch: The shape of each critic
    :param features_dim: Number of features, without the action's
    :param n_critics: Number of critics C
    :param n_quantiles: Number of values that each critic has for an action: 1, or TQC's quantiles
    :param kwargs: As for SB3's ``ContinuousCritic``, without ``net_arch`` and ``activation_fn``
    """

    def __init__(
        self, *, features_dim: int, span_arch: SPANArch, n_critics: int = 2, n_quantiles: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(net_arch=[], features_dim=features_dim, n_critics=0, **kwargs)
        self.n_critics = n_critics
        self.n_quantiles = n_quantiles
        input_dim = features_dim + get_action_dim(self.action_space)
        self.qf = SPAN(input_dim, span_arch, n_stack=n_critics, output_dim=n_quantiles)

    def values(self, obs: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """
        :param obs: Observations of a batch
        :param actions: Shape (B, A)
        :return: Shape (C, B, n_quantiles)
        """
        # As in SB3: a features extractor shared with the actor learns from the actor's loss only.
        with th.set_grad_enabled(not self.share_features_extractor):
            features = self.extract_features(obs, self.features_extractor)
        return self.qf(th.cat([features, actions], dim=1))

    def forward(self, obs: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, ...]:
        return self.values(obs, actions).unbind()  # C times (B, 1)

    def q1_forward(self, obs: th.Tensor, actions: th.Tensor) -> th.Tensor:
        with th.no_grad():
            features = self.extract_features(obs, self.features_extractor)
        return self.qf(th.cat([features, actions], dim=1), only=0)
