"""The SPAN actor and critics that the policies are made of. SB3's own linear heads read the modes."""

from collections.abc import Mapping
from typing import Any

import torch as th
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.sac.policies import Actor
from torch import nn

from sb3_span.nn import SPAN, SPANArch


class SPANExtractor(nn.Module):
    """
    Latent vectors of actor and critic from the same features: what ``MlpExtractor`` is to an MLP policy.

    Networks of one shape are evaluated as one stack.

    :param features_dim: Number of features
    :param pi: Shape of the actor
    :param vf: Shape of the critic
    """

    def __init__(self, features_dim: int, pi: SPANArch, vf: SPANArch) -> None:
        super().__init__()
        self.latent_dim_pi = pi.nmodes
        self.latent_dim_vf = vf.nmodes
        self.is_stack = pi == vf
        if self.is_stack:
            self.pi_vf = SPAN(features_dim, pi, n_stack=2)
        else:
            self.pi = SPAN(features_dim, pi)
            self.vf = SPAN(features_dim, vf)

    def forward(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """
        :param features: Shape (B, features_dim)
        :return: Modes of the actor and of the critic, each of shape (B, M)
        """
        if self.is_stack:
            latent_pi, latent_vf = self.pi_vf(features).unbind()
            return latent_pi, latent_vf
        return self.pi(features), self.vf(features)

    def forward_actor(self, features: th.Tensor) -> th.Tensor:
        return self.pi_vf(features, only=0) if self.is_stack else self.pi(features)

    def forward_critic(self, features: th.Tensor) -> th.Tensor:
        return self.pi_vf(features, only=1) if self.is_stack else self.vf(features)


class SPANActor(Actor):
    """
    SAC's actor with a SPAN body; mean and log-std are linear in its modes.

    :param span_arch: The network's shape
    :param features_dim: Number of features
    :param kwargs: As for SB3's ``Actor``, without ``net_arch`` and ``activation_fn``
    """

    def __init__(self, *, features_dim: int, span_arch: SPANArch | Mapping[str, Any], **kwargs: Any) -> None:
        self.arch = SPANArch.make(span_arch)
        # With the modes for features and no hidden layer, SB3 makes the heads and gSDE fit by itself.
        super().__init__(net_arch=[], features_dim=self.arch.nmodes, **kwargs)
        self.features_dim = features_dim
        self.latent_pi = SPAN(features_dim, self.arch)  # type: ignore[assignment]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        del data["net_arch"], data["activation_fn"]
        data["span_arch"] = self.arch.to_dict()
        return data


class SPANCritic(ContinuousCritic):
    """
    Q-values of all critics from one stack of SPAN networks.

    :param span_arch: The shape of each critic
    :param features_dim: Number of features, without the action's
    :param n_critics: Number of critics
    :param kwargs: As for SB3's ``ContinuousCritic``, without ``net_arch`` and ``activation_fn``
    """

    def __init__(self, *, features_dim: int, span_arch: SPANArch, n_critics: int = 2, **kwargs: Any) -> None:
        super().__init__(net_arch=[], features_dim=features_dim, n_critics=0, **kwargs)
        self.n_critics = n_critics
        self.qf = SPAN(features_dim + get_action_dim(self.action_space), span_arch, n_stack=n_critics, output_dim=1)

    def forward(self, obs: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, ...]:
        # As in SB3: a features extractor that the actor shares learns from the actor's loss only.
        with th.set_grad_enabled(not self.share_features_extractor):
            features = self.extract_features(obs, self.features_extractor)
        return self.qf(th.cat([features, actions], dim=1)).unbind()  # C times (B, 1)

    def q1_forward(self, obs: th.Tensor, actions: th.Tensor) -> th.Tensor:
        with th.no_grad():
            features = self.extract_features(obs, self.features_extractor)
        return self.qf(th.cat([features, actions], dim=1), only=0)
