"""SPAN for the algorithms of sb3-contrib, which need not be installed."""

from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from sb3_span.nn import SPAN
from sb3_span.policies.networks import SPANActor, SPANCritic, SPANNetwork
from sb3_span.policies.off_policy import SPANOffPolicy
from sb3_span.policies.on_policy import SPANActorCriticPolicy, SPANOnPolicy
from sb3_span.policies.options import SPANOptions
from sb3_span.policies.sac import SAC_LR_SCALE

try:
    from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, MaskablePPO, RecurrentPPO
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
    from sb3_contrib.common.recurrent.type_aliases import RNNStates
    from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
    from sb3_contrib.tqc.policies import TQCPolicy
except ImportError as error:
    raise ImportError(
        f"The SPAN policies for TRPO, QR-DQN, TQC, MaskablePPO and RecurrentPPO need sb3-contrib: {error}. "
        "Install it with: pip install 'sb3_span[contrib]'"
    ) from error


class SPANQuantileNetwork(SPANNetwork, QuantileNetwork):
    """QR-DQN's quantiles of the Q-values of all actions from one SPAN network."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        output_dim = self.n_quantiles * int(self.action_space.n)
        self.quantile_net = SPAN(self.features_dim, self.arch, output_dim=output_dim)  # type: ignore[assignment]


class SPANQRDQNPolicy(SPANOptions, QRDQNPolicy):
    """
    QR-DQN's policy with a SPAN network for the quantiles of all actions, and its target.

    Accepts every option of sb3-contrib's ``QRDQNPolicy`` except ``net_arch`` and ``activation_fn``, and two more:

    :param span_arch: Shape of the network, a dict with the fields of :class:`~sb3_span.nn.SPANArch`
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 1
    """

    span_roles = ("qf",)

    def make_quantile_net(self) -> SPANQuantileNetwork:
        return self.make_network(SPANQuantileNetwork, "qf", self.net_args)


class SPANTQCCritic(SPANCritic):
    """The quantiles of all of TQC's critics from one stack of SPAN networks."""

    @property
    def quantiles_total(self) -> int:
        return self.n_critics * self.n_quantiles

    def forward(self, obs: th.Tensor, actions: th.Tensor) -> th.Tensor:  # type: ignore[override]
        return self.values(obs, actions).transpose(0, 1)  # (B, C, n_quantiles)


class SPANTQCPolicy(SPANOffPolicy, TQCPolicy):
    """
    TQC's policy with SPAN networks: one for the actor, one stack for all critics.

    Accepts every option of sb3-contrib's ``TQCPolicy`` except ``net_arch`` and ``activation_fn``, and three more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``qf``
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`
    :param max_grad_norm: As for :class:`~sb3_span.SPANPolicy`
    """

    actor_class = SPANActor
    critic_class = SPANTQCCritic
    default_lr_scale = SAC_LR_SCALE


class SPANTRPOPolicy(SPANActorCriticPolicy):
    """
    TRPO's policy: SPAN's for PPO, with actor and critic apart.

    TRPO treats all parameters that its policy gradient reaches as the actor's, and keeps the critic's loss away from them:
    in a stack, where both share their tensors, the critic would hardly learn.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "stacked": False})


class SPANMaskableActorCriticPolicy(SPANOnPolicy, MaskableActorCriticPolicy):
    """
    MaskablePPO's policy with a SPAN network each for the actions and the value.

    Accepts every option of sb3-contrib's ``MaskableActorCriticPolicy`` except ``net_arch`` and ``activation_fn``, and two
    more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``vf``
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 2 for all parts but ``other``
    """


class SPANRecurrentActorCriticPolicy(SPANOnPolicy, RecurrentActorCriticPolicy):
    """
    RecurrentPPO's policy with a SPAN network each for the actions and the value, behind the LSTMs.

    Accepts every option of sb3-contrib's ``RecurrentActorCriticPolicy`` except ``net_arch`` and ``activation_fn``, and two
    more:

    :param span_arch: Shape of the networks, a dict with the fields of :class:`~sb3_span.nn.SPANArch`, or one such
        dict each for ``pi`` and ``vf``
    :param lr_scale: As for :class:`~sb3_span.SPANPolicy`; by default 2 for all parts but ``other``
    """

    def _build_mlp_extractor(self) -> None:
        self.features_dim = int(self.features_dim)  # numpy's integer with MultiDiscrete observations, which an LSTM refuses
        # Actor and critic read an LSTM each: a stack, whose networks read the same input, would never be evaluated at once.
        self.mlp_extractor = self._make_extractor(self.lstm_output_dim, stacked=False)

    def evaluate_actions(  # type: ignore[override]
        self, obs: th.Tensor, actions: th.Tensor, lstm_states: RNNStates, episode_starts: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        # sb3-contrib's buffer returns MultiBinary actions as integers, which have no log-probability.
        return super().evaluate_actions(obs, actions.float(), lstm_states, episode_starts)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        # sb3-contrib leaves these out: a saved policy could not be loaded.
        data.update(
            lstm_hidden_size=self.lstm_actor.hidden_size,
            n_lstm_layers=self.lstm_actor.num_layers,
            shared_lstm=self.shared_lstm,
            enable_critic_lstm=self.enable_critic_lstm,
            lstm_kwargs=self.lstm_kwargs,
        )
        return data


POLICIES: dict[type[BaseAlgorithm], type[BasePolicy]] = {
    TRPO: SPANTRPOPolicy,
    QRDQN: SPANQRDQNPolicy,
    TQC: SPANTQCPolicy,
    MaskablePPO: SPANMaskableActorCriticPolicy,
    RecurrentPPO: SPANRecurrentActorCriticPolicy,
}
WITHOUT: tuple[type[BaseAlgorithm], ...] = (ARS, CrossQ)
