"""SB3's networks and optimizers as native code takes them. What it does not know is ``Unsupported``, with the reason."""

import itertools
import math
from collections.abc import Sequence
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

from sb3_span.algorithms.records import AdamOptions, Network, Part, Shape, Trained
from sb3_span.nn.checks import Unsupported, check_linear, check_tensors, check_trained, check_type, span_parameters
from sb3_span.policies.networks import SPANActor, SPANCritic, SPANExtractor
from sb3_span.policies.optimizers import Adapted

MAX_LAYERS = 8  # as in native/updates.h
# Of a layer of an MLP. SB3's default of SAC, (256, 256), is below it, with the many inputs of Humanoid too. An update takes
# of torch's time on one thread .5 with (256, 256), .57 with (400, 300), .68 with (512, 512) for SAC; for PPO .25, .34, .53.
# Larger ones are left to torch, which multiplies large matrices well, on more than one thread.
MAX_WEIGHTS = 512 * 256


def read_actor(actor: Any) -> Network:
    """An actor of SAC: mean and log-std side by side."""
    check_type(actor, Actor, SPANActor)
    if actor.use_sde:
        raise Unsupported("it explores with gSDE (use_sde=True)")
    _check_distribution(actor.action_dist, SquashedDiagGaussianDistribution)
    _check_flatten(actor.features_extractor)
    heads = (actor.mu, actor.log_std)
    network = read_span(actor.latent_pi, heads) if type(actor) is SPANActor else read_mlps([actor.latent_pi], heads)
    if actor.mu.out_features != actor.log_std.out_features:
        raise Unsupported("the actor has not as many deviations as means")
    return network


def read_critics(critic: Any) -> Network:
    """SAC's critics, a stack."""
    check_type(critic, ContinuousCritic, SPANCritic)
    _check_flatten(critic.features_extractor)
    return read_span(critic.qf, ()) if type(critic) is SPANCritic else read_mlps(critic.q_networks, ())


def read_actor_critic(policy: ActorCriticPolicy) -> tuple[Network, Network]:
    """PPO's actor and critic."""
    if policy.use_sde:
        raise Unsupported("it explores with gSDE (use_sde=True)")
    _check_distribution(policy.action_dist, CategoricalDistribution, DiagGaussianDistribution)
    for extractor in {policy.features_extractor, policy.pi_features_extractor, policy.vf_features_extractor}:
        _check_flatten(extractor)
    body: Any = policy.mlp_extractor
    action_net, value_net = (policy.action_net,), (policy.value_net,)
    check_type(body, MlpExtractor, SPANExtractor)
    if type(body) is MlpExtractor:
        return read_mlps([body.policy_net], action_net), read_mlps([body.value_net], value_net)
    if body.is_stack:
        return read_span(body.pi_vf, action_net, only=0), read_span(body.pi_vf, value_net, only=1)
    return read_span(body.pi, action_net), read_span(body.vf, value_net)


def _check_distribution(distribution: Any, *known: type) -> None:
    if type(distribution) not in known:
        raise Unsupported(f"actions are drawn by {type(distribution).__name__}")


def _check_flatten(extractor: Any) -> None:
    """Refuse a features extractor that does not hand vectors on as they are."""
    check_type(extractor, FlattenExtractor)
    check_type(extractor.flatten, nn.Flatten)


def read_span(span: Any, heads: Sequence[Any], only: int | None = None) -> Network:
    """
    :param heads: The layers that read its modes; none where it has a head of its own
    :param only: One network of the stack
    """
    native, own = span_parameters(span, heads)
    sizes = native.sizes
    shape = Shape(
        stack=len(span.coefficients) if only is None else 1,
        inputs=sizes.inputs,
        outputs=sizes.outputs or sum(head.out_features for head in heads),
        heads=max(len(heads), 1),
        latent=sizes.latent,
        basis=sizes.basis,
        modes=sizes.modes,
        degree=sizes.degree,
        group=sizes.group,
    )
    return Network(shape, [Part(param, only) for param in own if param is not None] + _parts(heads))


def read_mlps(networks: Sequence[Any], heads: Sequence[Any]) -> Network:
    """
    :param heads: The layers that read the last hidden one of each network; none where it ends with one of its own
    """
    described = [_read_mlp(network, heads) for network in networks]
    sizes, activations = described[0][0], set().union(*(between for _, between, _ in described))
    if any(own != sizes for own, _, _ in described):
        raise Unsupported("the networks have not all the same layers")
    if not activations <= {nn.ReLU, nn.Tanh} or len(activations) > 1:
        names = " and ".join(sorted(cls.__name__ for cls in activations))
        raise Unsupported(f"the activation is {names}, and native code has ReLU or Tanh")
    if len(sizes) > MAX_LAYERS + 1:
        raise Unsupported(f"an MLP has {len(sizes) - 1} layers, and native code at most {MAX_LAYERS}")
    for first, second in itertools.pairwise(sizes):
        if first * second > MAX_WEIGHTS:
            raise Unsupported(
                f"a layer of {first} x {second} weights is larger than {MAX_WEIGHTS} weights (512 x 256), and PyTorch has "
                "fast code for large ones, on several threads"
            )
    shape = Shape(len(networks), sizes[0], sizes[-1], max(len(heads), 1), layers=sizes, tanh=nn.Tanh in activations)
    return Network(shape, [part for _, _, layers in described for part in _parts(layers)])


def _read_mlp(network: Any, heads: Sequence[Any]) -> tuple[tuple[int, ...], set[type], list[Any]]:
    """
    :return: The sizes of all layers, the activations, and the linear layers
    """
    check_type(network, nn.Sequential)
    layers = list(network)
    linear, between = (layers[::2], layers[1::2]) if heads else (layers[:-1:2], layers[1::2])
    last = list(heads) or layers[-1:]
    if len(linear) != len(between) or not last:
        raise Unsupported("an MLP has not one activation behind each hidden layer")
    for layer in (*linear, *last):
        check_linear(layer)
    for activation in between:
        check_type(activation, type(activation))
    sizes = (linear or last)[0].in_features, *(layer.out_features for layer in linear), sum(one.out_features for one in last)
    if tuple(layer.in_features for layer in (*linear, last[0])) != sizes[:-1]:
        raise Unsupported("the layers of an MLP do not fit together")
    return sizes, {type(activation) for activation in between}, [*linear, *last]


def _parts(layers: Sequence[Any]) -> list[Part]:
    return [Part(param) for layer in layers for param in (layer.weight, layer.bias)]


def read_adam(optimizer: th.optim.Optimizer) -> AdamOptions:
    """Adam as SB3 makes it, or with the clipping of sb3_span's policies."""
    cls = optimizer.plain_class if isinstance(optimizer, Adapted) else type(optimizer)
    if cls is not th.optim.Adam:
        raise Unsupported(f"the optimizer is {cls.__name__}, and native code has Adam")
    hooks = optimizer_hooks._global_optimizer_pre_hooks or optimizer_hooks._global_optimizer_post_hooks
    if hooks or optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise Unsupported("somebody watches an optimizer's steps with a hook")
    if len(optimizer.param_groups) != 1:
        raise Unsupported(f"an optimizer has {len(optimizer.param_groups)} groups of parameters")
    group = optimizer.param_groups[0]
    for name in ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay"):
        if group[name]:
            raise Unsupported(f"Adam has the option {name}")
    max_norm = optimizer.defaults.get("max_grad_norm")
    beta1, beta2 = group["betas"]
    return AdamOptions(beta1, beta2, group["eps"], group["weight_decay"], math.inf if max_norm is None else max_norm)


def read_trained(parameters: Sequence[nn.Parameter], optimizer: th.optim.Optimizer) -> list[Trained]:
    """Each parameter with its gradient and what Adam remembers of it, made as its first step would where there is none yet."""
    check_trained(parameters)
    check_tensors(parameters)
    known = optimizer.param_groups[0]["params"]
    scales = optimizer.defaults.get("lr_scale") or [1.0] * len(known)
    factors = dict(zip(known, scales, strict=True))
    if {*parameters} != {*known}:
        raise Unsupported("the optimizer has other parameters than the networks")
    trained = []
    for param in parameters:
        if param.grad is None:
            param.grad = th.zeros_like(param)
        state = optimizer.state[param]
        if not state:
            state["step"] = th.tensor(0.0, dtype=th.float32, device="cpu")
            state["exp_avg"], state["exp_avg_sq"] = th.zeros_like(param), th.zeros_like(param)
        trained.append(Trained(param, param.grad, state["exp_avg"], state["exp_avg_sq"], state["step"], factors[param]))
        check_tensors(trained[-1].tensors)
        if any(tensor.numel() != param.numel() for tensor in trained[-1].tensors[:4]):
            raise Unsupported("Adam remembers something of another shape than the parameter's")
    return trained
