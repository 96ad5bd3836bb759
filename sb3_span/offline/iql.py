"""The paper's IQL: a Gaussian policy whose mean and standard deviation both depend on the state, and SPAN in all roles."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch as th
from d3rlpy.algos import IQL, IQLConfig
from d3rlpy.algos.qlearning.base import QLearningAlgoBase
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl
from d3rlpy.base import register_learnable
from d3rlpy.models.builders import create_normal_policy
from d3rlpy.models.encoders import EncoderFactory, VectorEncoderFactory, make_encoder_field
from d3rlpy.optimizers import AdamFactory, OptimizerFactory, make_optimizer_field, register_optimizer_factory
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn

from sb3_span.nn.budget import count_trainable
from sb3_span.offline.encoder import SPANEncoderFactory
from sb3_span.offline.fused import FusedUpdate
from sb3_span.policies.options import split_by_role

# d3rlpy's bounds of the log-std in IQL.
MIN_LOGSTD, MAX_LOGSTD = -5.0, 2.0
# SB3's names of the roles, and d3rlpy's.
ROLES = {"pi": "actor", "qf": "critic", "vf": "value"}


@dataclasses.dataclass
class FusedAdamFactory(AdamFactory):
    """d3rlpy's Adam, with all parameters updated in one call: they are few and small, and most of the time goes into calls."""

    def create_optimizer(self, named_modules: Iterable[tuple[str, nn.Module]], lr: float) -> th.optim.Adam:
        params = dict.fromkeys(param for _, module in named_modules for param in module.parameters())
        options = {"betas": self.betas, "eps": self.eps, "weight_decay": self.weight_decay, "amsgrad": self.amsgrad}
        return th.optim.Adam(params, lr=lr, fused=True, **options)

    @staticmethod
    def get_type() -> str:
        return "fused_adam"


register_optimizer_factory(FusedAdamFactory)


def _paper_span() -> SPANEncoderFactory:
    return SPANEncoderFactory(nmodes=15, nelems=4)


# How d3rlpy writes such a field to a file and reads it back.
ENCODER, OPTIMIZER = make_encoder_field().metadata, make_optimizer_field().metadata


@dataclasses.dataclass
class SPANIQLConfig(IQLConfig):
    """
    d3rlpy's IQL with the paper's policy and networks: SPAN for actor, critic and value, one critic.

    d3rlpy's own policy has one standard deviation for all states; here it is a second output of the actor, as in the paper.
    With ``VectorEncoderFactory`` for the three encoders it is the paper's MLP baseline.
    """

    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=FusedAdamFactory, metadata=OPTIMIZER)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=FusedAdamFactory, metadata=OPTIMIZER)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=_paper_span, metadata=ENCODER)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=_paper_span, metadata=ENCODER)
    value_encoder_factory: EncoderFactory = dataclasses.field(default_factory=_paper_span, metadata=ENCODER)
    n_critics: int = 1

    def create(self, device: Any = False, enable_ddp: bool = False) -> "SPANIQL":
        return SPANIQL(self, device, enable_ddp)

    @staticmethod
    def get_type() -> str:
        return "span_iql"


def make_config(hyperparams: Mapping[str, Any]) -> SPANIQLConfig:
    """
    The algorithm that an entry of ``hyperparams/offline_span.yml`` or ``offline_mlp.yml`` describes.

    :param hyperparams: Fields of d3rlpy's ``IQLConfig``, and ``policy_kwargs`` with ``span_arch`` or ``net_arch``: one for all
        networks, or one each for ``pi``, ``qf`` and ``vf``
    """
    options = {name: value for name, value in hyperparams.items() if name != "n_timesteps"}
    policy_kwargs = options.pop("policy_kwargs", {})
    allowed = [field.name for field in dataclasses.fields(SPANIQLConfig)]
    for name in options:
        if name not in allowed:
            raise ValueError(
                f"The hyperparameters have an unknown option {name!r}; allowed are {['policy_kwargs', *allowed]}."
            )
    encoders = _make_encoders(policy_kwargs)
    return SPANIQLConfig(**options, **{f"{ROLES[role]}_encoder_factory": encoder for role, encoder in encoders.items()})


def _make_encoders(policy_kwargs: Mapping[str, Any]) -> dict[str, EncoderFactory]:
    if set(policy_kwargs) == {"span_arch"}:
        archs = split_by_role(policy_kwargs["span_arch"], tuple(ROLES))
        return {role: SPANEncoderFactory(**arch.to_dict()) for role, arch in archs.items()}
    if set(policy_kwargs) == {"net_arch"}:
        net_arch = policy_kwargs["net_arch"]
        layers = net_arch if isinstance(net_arch, Mapping) else dict.fromkeys(ROLES, net_arch)
        if set(layers) == set(ROLES):
            return {role: VectorEncoderFactory(hidden_units=list(layers[role])) for role in ROLES}
    raise ValueError(
        f"policy_kwargs is {policy_kwargs!r}; it must have span_arch, such as dict(nmodes=15, nelems=4), or net_arch, such as "
        f"[64, 64]; one for all networks, or one each for {list(ROLES)}."
    )


class SPANIQLImpl(IQLImpl):
    """
    d3rlpy's updates. With SPAN in all roles the native kernel does them; otherwise the target critic, which does not change
    between them, is evaluated once and without a graph.
    """

    _target: tuple[TorchMiniBatch | None, th.Tensor | None] = (None, None)
    _has_logged = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._fused = FusedUpdate(self)

    def native_status(self) -> str:
        why_not = self._fused.why_not()
        return "IQL runs in C." if why_not is None else f"IQL runs in PyTorch: {why_not}."

    def inner_update(self, batch: TorchMiniBatch, grad_step: int) -> dict[str, float]:
        losses = self._fused.run(batch)
        if not self._has_logged:
            self._has_logged = True
            logging.getLogger("sb3_span").log(logging.WARNING if losses is None else logging.INFO, self.native_status())
        return super().inner_update(batch, grad_step) if losses is None else losses

    def compute_value_loss(self, batch: TorchMiniBatch) -> th.Tensor:
        error = self._target_values(batch) - self._modules.value_func(batch.observations)
        weight = th.where(error.detach() < 0, 1 - self._expectile, self._expectile)
        return (weight * error.square()).mean()

    def _compute_weight(self, batch: TorchMiniBatch) -> th.Tensor:
        advantage = self._target_values(batch) - self._modules.value_func(batch.observations)
        return (self._weight_temp * advantage).exp().clamp(max=self._max_weight)

    @th.no_grad()
    def update_critic_target(self) -> None:
        targets, critics = self._modules.targ_q_funcs.parameters(), self._modules.q_funcs.parameters()
        th._foreach_lerp_(list(targets), list(critics), self._tau)
        self._target = (None, None)

    @th.no_grad()
    def _target_values(self, batch: TorchMiniBatch) -> th.Tensor:
        """
        :return: Shape (B, 1)
        """
        known_for, values = self._target
        if known_for is not batch or values is None:
            values = self._targ_q_func_forwarder.compute_expected_q(batch.observations, batch.actions, "min")
            self._target = (batch, values)
        return values


class SPANIQL(IQL):
    """The algorithm that ``SPANIQLConfig`` creates."""

    _impl: Any

    def native_status(self) -> str:
        """
        :return: Whether this agent is trained in C, and if not, why not
        """
        if self._impl is None:
            raise ValueError(
                "The algorithm has no networks yet, so they cannot be checked. Call build_with_dataset or create_impl first."
            )
        return self._impl.native_status()

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        super().inner_create_impl(observation_shape, action_size)
        policy = create_normal_policy(
            observation_shape,
            action_size,
            self._config.actor_encoder_factory,
            min_logstd=MIN_LOGSTD,
            max_logstd=MAX_LOGSTD,
            use_std_parameter=False,
            device=self._device,
            enable_ddp=self._enable_ddp,
        )
        actor_optim = self._config.actor_optim_factory.create(
            policy.named_modules(), lr=self._config.actor_learning_rate, compiled=self.compiled
        )
        # The rest of d3rlpy's implementation stays.
        self._impl = SPANIQLImpl(
            observation_shape=observation_shape,
            action_size=action_size,
            modules=dataclasses.replace(self._impl.modules, policy=policy, actor_optim=actor_optim),
            q_func_forwarder=self._impl._q_func_forwarder,
            targ_q_func_forwarder=self._impl._targ_q_func_forwarder,
            gamma=self._config.gamma,
            tau=self._config.tau,
            expectile=self._config.expectile,
            weight_temp=self._config.weight_temp,
            max_weight=self._config.max_weight,
            compiled=self.compiled,
            device=self._device,
        )


def count_parameters(algo: QLearningAlgoBase) -> int:
    """
    The trainable parameters of an algorithm's networks, without its targets, as the paper counts them.

    :param algo: An algorithm of d3rlpy whose networks are built
    """
    modules = vars(algo.impl.modules)
    return count_trainable(
        module for name, module in modules.items() if isinstance(module, nn.Module) and not name.startswith("targ_")
    )


register_learnable(SPANIQLConfig)
