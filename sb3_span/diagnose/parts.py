"""The networks of a policy and their parts: SPAN's, or the layers of an MLP."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3.common.policies import BasePolicy
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.policies.networks import SPANExtractor

# Attributes by which SB3's policies are known to have a critic.
CRITICS = ("value_net", "q_net", "quantile_net", "critic")


@dataclass(frozen=True)
class Piece:
    """
    A parameter, or the part of it that belongs to one network of a stack.

    :param parameter: The parameter
    :param index: Place in the stack; None for all of it
    """

    parameter: nn.Parameter
    index: int | None

    def of(self, tensor: th.Tensor) -> th.Tensor:
        """
        :param tensor: The parameter's data or its gradient
        :return: That part of it, in the same memory
        """
        return tensor.detach() if self.index is None else tensor.detach()[self.index]


@dataclass(frozen=True)
class Network:
    """
    The actor, or all critics together.

    :param role: ``actor`` or ``critic``
    :param bodies: A SPAN network or stack, or layers; several for MLPs that are several critics
    :param heads: SB3's layers that read the bodies' outputs; none where the bodies have their own heads
    :param index: Place in a stack that actor and critic share; None without one
    :param others: Other parameters: those of features extractors, a standard deviation
    """

    role: str
    bodies: Sequence[nn.Module]
    heads: Sequence[nn.Module] = ()
    index: int | None = None
    others: Sequence[nn.Parameter] = ()

    @property
    def spans(self) -> list[SPAN]:
        return [module for body in self.bodies for module in body.modules() if isinstance(module, SPAN)]

    @property
    def readers(self) -> list[nn.Module]:
        """The layers that read the features: modes, or the last hidden layer of an MLP."""
        if self.heads:
            return [self.heads[0]]
        if self.spans:
            return [span.head for span in self.spans if span.head is not None]
        return [_layers(body)[-1] for body in self.bodies]

    def parts(self) -> dict[str, list[Piece]]:
        """The trained parameters by part, first to last."""
        found: dict[str, list[nn.Parameter | None]] = {}
        for span in self.spans:
            found.setdefault("preprocess", []).extend(span.preprocess.parameters())
            found.setdefault("scale", []).append(span.scale)
            found.setdefault("coefficients", []).append(span.coefficients)
            found.setdefault("head", []).extend(span.head.parameters() if span.head is not None else ())
        for body in self.bodies if not self.spans else ():
            layers = _layers(body)
            names = [f"layer{number + 1}" for number in range(len(layers))]
            if not self.heads:
                names[-1] = "head"
            for name, layer in zip(names, layers, strict=True):
                found.setdefault(name, []).extend(layer.parameters(recurse=False))
        outside = [param for head in self.heads for param in head.parameters()]
        pieces = {name: [Piece(param, self.index) for param in params if param is not None] for name, params in found.items()}
        pieces["head"] = [*pieces.pop("head", []), *(Piece(param, None) for param in outside)]
        pieces["other"] = [Piece(param, None) for param in self.others]
        trained = {name: [piece for piece in part if piece.parameter.requires_grad] for name, part in pieces.items()}
        return {name: part for name, part in trained.items() if part}


def _layers(body: nn.Module) -> list[nn.Module]:
    """Those with parameters."""
    return [module for module in body.modules() if next(module.parameters(recurse=False), None) is not None]


def find_networks(policy: BasePolicy) -> dict[str, Network]:
    """
    :param policy: A policy of SB3, with MLPs or with SPAN
    :return: ``critic``, and ``actor`` where there is one
    """
    parts: Any = policy  # of many possible classes
    has_critic = any(hasattr(parts, name) for name in CRITICS)
    needs_more = hasattr(parts, "lstm_actor") or "action_masks" in inspect.signature(parts.forward).parameters
    if not has_critic or needs_more:
        raise ValueError(
            f"{type(policy).__name__} cannot be diagnosed: it must have a critic, no memory and no action masks, as the "
            "policies of SAC, TQC, TD3, DDPG, DQN, QR-DQN, PPO, A2C and TRPO."
        )
    if hasattr(parts, "value_net"):
        return _actor_critic(parts)
    for name in ("q_net", "quantile_net"):
        if hasattr(parts, name):
            return {"critic": _with_others(getattr(parts, name), Network("critic", [getattr(getattr(parts, name), name)]))}
    actor, critic = parts.actor, parts.critic
    if hasattr(actor, "latent_pi"):
        heads = [head for head in (actor.mu, actor.log_std) if isinstance(head, nn.Module)]
        of_actor = Network("actor", [actor.latent_pi], heads)
    else:
        of_actor = Network("actor", [actor.mu])
    of_critic = Network("critic", [critic.qf] if hasattr(critic, "qf") else critic.q_networks)
    return {"critic": _with_others(critic, of_critic), "actor": _with_others(actor, of_actor)}


def _actor_critic(policy: Any) -> dict[str, Network]:
    extractor = policy.mlp_extractor
    pi, vf = (None, None)
    if isinstance(extractor, SPANExtractor):
        bodies = (extractor.pi_vf, extractor.pi_vf) if extractor.is_stack else (extractor.pi, extractor.vf)
        pi, vf = (0, 1) if extractor.is_stack else (None, None)
    else:
        bodies = (extractor.policy_net, extractor.value_net)
    of_actor, of_critic = (
        [*getattr(policy, f"{name}_features_extractor", policy.features_extractor).parameters()] for name in ("pi", "vf")
    )
    if isinstance(getattr(policy, "log_std", None), nn.Parameter):
        of_actor.append(policy.log_std)
    return {
        "critic": Network("critic", [bodies[1]], [policy.value_net], vf, of_critic),
        "actor": Network("actor", [bodies[0]], [policy.action_net], pi, of_actor),
    }


def _with_others(owner: nn.Module, network: Network) -> Network:
    known = {piece.parameter for part in network.parts().values() for piece in part}
    others = [param for param in owner.parameters() if param not in known and param.requires_grad]
    return Network(network.role, network.bodies, network.heads, network.index, others)
