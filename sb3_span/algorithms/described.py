"""Networks and optimizers of SB3 as the native updates take them: sizes, options, and parameters in order."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
    SquashedDiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy, ContinuousCritic
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from stable_baselines3.sac.policies import Actor
from torch import nn
from torch.optim import optimizer as optimizer_hooks

from sb3_span.nn import SPAN
from sb3_span.nn.span import has_hooks
from sb3_span.policies.networks import SPANActor, SPANCritic, SPANExtractor
from sb3_span.policies.on_policy import SPANActorCriticPolicy
from sb3_span.policies.optimizers import Adapted

MAX_LAYERS = 8  # as in native/updates.h
# Of a layer of an MLP. Larger ones are left to torch, which multiplies large matrices well, on more than one thread.
MAX_WEIGHTS = 128 * 128


class SameInC:
    """Marks what stands in the place of a method for a while, and does the same in C."""


def replaces_methods(obj: Any) -> bool:
    """Whether somebody has put a function of their own in the place of one of an object's methods."""
    cls = type(obj)
    return any(
        callable(value) and callable(method := getattr(cls, name, None)) and not _is_the_same(value, method)
        for name, value in vars(obj).items()
    )


def _is_the_same(function: Any, method: Any) -> bool:
    return isinstance(function, SameInC) or getattr(function, "__func__", None) is method


def is_changed(module: nn.Module) -> bool:
    """Whether somebody wants to see or to change what a module does."""
    return has_hooks(module) or replaces_methods(module)


@dataclass
class Described:
    """
    A stack of networks.

    :param shape: What the kernel knows of it: C, I, D, N, M, O, the degree, the number of heads, whether an MLP has tanh
    :param sizes: Inputs, hidden layers and outputs of an MLP; () for SPAN
    :param pieces: The parameters in the kernel's order: each one, which of its networks is meant, and how many it has; 0 of 1
        for a whole parameter
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    pieces: list[tuple[nn.Parameter, int, int]]

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [param for param, _, _ in self.pieces]

    def for_kernel(self, gradients: bool) -> tuple[Any, ...]:
        """
        :param gradients: Whether it also gets the addresses of the parameters' gradients
        :return: What the kernel takes for networks whose parameters have no states of Adam's
        """
        return self.shape, self.sizes, tuple(_addresses(*piece, gradients) for piece in self.pieces)


def _addresses(param: nn.Parameter, which: int, stack: int, gradients: bool) -> tuple[Any, ...]:
    size = param.numel() // stack
    offset = which * size * param.itemsize
    grad = 0
    if gradients:
        assert param.grad is not None
        grad = param.grad.data_ptr() + offset
    return param.data_ptr() + offset, grad, 0, 0, 0, size, 1.0


def describe_actor(actor: Any) -> Described | None:
    """
    :return: None for an actor that the native update does not know, or that somebody has changed
    """
    if type(actor) not in (Actor, SPANActor) or actor.use_sde or is_changed(actor):
        return None
    if type(actor.action_dist) is not SquashedDiagGaussianDistribution or not _is_flatten(actor.features_extractor):
        return None
    heads = (actor.mu, actor.log_std)
    if type(actor) is SPANActor:
        described = _describe_span(actor.latent_pi, heads)
    else:
        described = _describe_mlps([actor.latent_pi], heads)
    return None if described is None or actor.mu.out_features != actor.log_std.out_features else described


def describe_critics(critic: Any) -> Described | None:
    """
    :return: None for critics that the native update does not know, or that somebody has changed
    """
    if type(critic) not in (ContinuousCritic, SPANCritic) or is_changed(critic) or not _is_flatten(critic.features_extractor):
        return None
    return _describe_span(critic.qf, ()) if type(critic) is SPANCritic else _describe_mlps(critic.q_networks, ())


def _is_flatten(extractor: Any) -> bool:
    """Whether a features extractor hands vectors on as they are."""
    if type(extractor) is not FlattenExtractor or is_changed(extractor):
        return False
    return type(extractor.flatten) is nn.Flatten and not is_changed(extractor.flatten)


def describe_actor_critic(policy: ActorCriticPolicy) -> tuple[Described, Described] | None:
    """
    :return: The networks of actor and critic; None for a policy that the native update does not know, or that somebody has
        changed
    """
    if type(policy) not in (ActorCriticPolicy, SPANActorCriticPolicy) or policy.use_sde or policy.squash_output:
        return None
    if type(policy.action_dist) not in (CategoricalDistribution, DiagGaussianDistribution) or is_changed(policy):
        return None
    extractors = {policy.features_extractor, policy.pi_features_extractor, policy.vf_features_extractor}
    extractor = policy.mlp_extractor
    if not all(map(_is_flatten, extractors)) or is_changed(extractor):
        return None
    action_net, value_net = (policy.action_net,), (policy.value_net,)
    if type(extractor) is MlpExtractor:
        networks = _describe_mlps([extractor.policy_net], action_net), _describe_mlps([extractor.value_net], value_net)
    elif type(extractor) is not SPANExtractor:
        return None
    elif extractor.is_stack:
        networks = _describe_span(extractor.pi_vf, action_net, 0), _describe_span(extractor.pi_vf, value_net, 1)
    else:
        networks = _describe_span(extractor.pi, action_net), _describe_span(extractor.vf, value_net)
    return None if None in networks else networks  # type: ignore[return-value]


def _describe_span(span: Any, heads: Sequence[Any], only: int | None = None) -> Described | None:
    """
    :param heads: The layers that read its modes; none where it has a head of its own
    :param only: One network of the stack
    """
    if type(span) is not SPAN or span.native is None or is_changed(span) or not _are_linear(heads):
        return None
    own = span._native_parameters()
    if own is None or [None if param is None else param.shape for param in own] != list(span.native.shapes):
        return None
    stack = len(span.coefficients)
    part = (0, 1) if only is None else (only, stack)
    pieces = [(param, *part) for param in own if param is not None] + _whole(heads)
    inputs, latent, basis, modes, outputs, degree = span.native.sizes
    outputs = outputs or sum(head.out_features for head in heads)
    shape = (1 if only is not None else stack, inputs, latent, basis, modes, outputs, degree, max(len(heads), 1), 0)
    return Described(shape, (), pieces)  # type: ignore[arg-type]


def _describe_mlps(networks: Sequence[Any], heads: Sequence[Any]) -> Described | None:
    """
    :param heads: The layers that read the last hidden one of each network; none where it ends with one of its own
    """
    sizes: tuple[int, ...] = ()
    pieces: list[tuple[nn.Parameter, int, int]] = []
    activations: set[type[nn.Module]] = set()
    for network in networks:
        if type(network) is not nn.Sequential or is_changed(network):
            return None
        layers = list(network)
        last = list(heads) or layers[-1:]
        linear, between = layers[::2] if heads else layers[:-1:2], layers[1::2]
        activations |= {type(activation) for activation in between}
        own: list[Any] = [*linear, *last]
        if not _are_linear(own) or len(linear) != len(between) or any(is_changed(activation) for activation in between):
            return None
        outputs = [layer.out_features for layer in own]
        own_sizes = (own[0].in_features, *outputs[: len(linear)], sum(outputs[len(linear) :]))
        inputs = tuple(layer.in_features for layer in own[: len(linear) + 1])
        if sizes not in ((), own_sizes) or inputs != own_sizes[:-1]:
            return None
        sizes = own_sizes
        pieces += _whole(own)
    if not activations <= {nn.ReLU, nn.Tanh} or len(activations) > 1 or len(sizes) > MAX_LAYERS + 1:
        return None
    if any(first * second > MAX_WEIGHTS for first, second in itertools.pairwise(sizes)):
        return None
    shape = (len(networks), sizes[0], 0, 0, 0, sizes[-1], 0, max(len(heads), 1), int(nn.Tanh in activations))
    return Described(shape, sizes, pieces)


def _are_linear(layers: Sequence[Any]) -> bool:
    return all(
        type(layer) is nn.Linear
        and not is_changed(layer)
        and layer.bias is not None
        and layer.weight.shape == (layer.out_features, layer.in_features)
        and layer.bias.shape == (layer.out_features,)
        for layer in layers
    )


def _whole(layers: Sequence[Any]) -> list[tuple[nn.Parameter, int, int]]:
    return [(param, 0, 1) for layer in layers for param in (layer.weight, layer.bias)]


def is_plain(tensor: th.Tensor) -> bool:
    return (
        tensor.dtype is th.float32 and tensor.is_cpu and tensor.is_contiguous() and type(tensor) in (th.Tensor, nn.Parameter)
    )


def describe_adam(optimizer: th.optim.Optimizer) -> tuple[float, ...] | None:
    """
    :return: Betas, epsilon, weight decay and the largest norm of the gradients, -1 for any; None for anything but Adam as SB3
        makes it, and for one whose steps somebody watches
    """
    if (optimizer.plain_class if isinstance(optimizer, Adapted) else type(optimizer)) is not th.optim.Adam:
        return None
    hooks = optimizer_hooks._global_optimizer_pre_hooks or optimizer_hooks._global_optimizer_post_hooks
    if (
        hooks
        or "step" in vars(optimizer)
        or optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or len(optimizer.param_groups) != 1
    ):
        return None
    group = optimizer.param_groups[0]
    if any(group[name] for name in ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay")):
        return None
    max_norm = optimizer.defaults.get("max_grad_norm")
    return (*group["betas"], group["eps"], group["weight_decay"], -1.0 if max_norm is None else max_norm)


def trained_tensors(parameters: Sequence[nn.Parameter], optimizer: th.optim.Optimizer) -> list[th.Tensor] | None:
    """
    Each parameter with its gradient, which is made if there is none, and what Adam remembers of it.

    :return: Five tensors for each; None where Adam has made no step yet, or where a parameter is frozen or watched
    """
    states = optimizer.state
    tensors: list[th.Tensor] = []
    for param in parameters:
        state = states.get(param)
        if not state or not param.requires_grad or param._backward_hooks or param._post_accumulate_grad_hooks:
            return None
        if param.grad is None:
            param.grad = th.zeros_like(param)
        tensors += (param, param.grad, state["exp_avg"], state["exp_avg_sq"], state["step"])
    return tensors


def learning_rate_factors(parameters: Sequence[nn.Parameter], optimizer: th.optim.Optimizer) -> list[float]:
    """Each parameter's own factor of the learning rate: ``lr_scale`` of the policies."""
    scale = optimizer.defaults.get("lr_scale")
    if scale is None:
        return [1.0] * len(parameters)
    factors = dict(zip(optimizer.param_groups[0]["params"], scale, strict=True))
    return [factors[param] for param in parameters]
