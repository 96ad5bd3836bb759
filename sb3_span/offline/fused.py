"""
An update of IQL without autograd.

The three losses of IQL are short formulas, and so are their gradients by the outputs. From there on the native kernel
does the work: a SPAN and d3rlpy's linear layers on top of it are one network of the kernel, gradients included.
"""

import math

import torch as th
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.nn.native import NativeSPAN
from sb3_span.nn.native.function import WIDEST, Parameters
from sb3_span.offline.encoder import SPANEncoder, SPANEncoderWithAction

BODY = 4  # a network's parameters: four of the body, then weight and bias of the head


class FusedNetwork:
    """
    A SPAN and the linear layers that read its modes.

    :param span: The body, which the kernel supports
    :param heads: The layers; their outputs are side by side in this network's
    """

    def __init__(self, span: SPAN, *heads: nn.Linear) -> None:
        self.span = span
        self.heads = heads
        self.native = NativeSPAN(span.arch, span.input_dim, 1, sum(head.out_features for head in heads))
        self._parameters: Parameters = ()
        self._kept: tuple[th.Tensor, th.Tensor] | None = None

    def prepare(self, x: th.Tensor) -> bool:
        """Take the parameters as they are now; returns whether the kernel can run with them."""
        body = self.span._native_parameters()
        if body is None:
            return False
        weight, bias = _joined([head.weight for head in self.heads]), _joined([head.bias for head in self.heads])
        self._parameters = (*body[:BODY], weight.unsqueeze(0), bias.unsqueeze(0))
        return self.native.can_run(x, self._parameters)

    def __call__(self, x: th.Tensor, keep: bool = False) -> th.Tensor:
        """
        :param x: Shape (B, I)
        :param keep: Whether ``backward`` will follow
        :return: Shape (B, O)
        """
        if not keep:
            return self.native.forward(WIDEST, x, self._parameters)[0]
        out, z = self.native.forward_and_keep(WIDEST, x, self._parameters)
        self._kept = (x, z)
        return out[0]

    def backward(self, grad_out: th.Tensor) -> None:
        """
        Give the parameters their gradients, in the place of those that they had.

        :param grad_out: The gradient of the outputs, shape (B, O)
        """
        assert self._kept is not None, "backward comes after a forward pass that has kept what it needs"
        x, z = self._kept
        self._kept = None
        wanted = (False, *(parameter is not None for parameter in self._parameters))
        grads = self.native.backward(WIDEST, x, self._parameters, z, grad_out.unsqueeze(0), wanted)[1:]
        for parameter, grad in zip(self._parameters[:BODY], grads[:BODY], strict=True):
            if parameter is not None:
                parameter.grad = grad
        weight, bias = grads[BODY:]
        assert weight is not None and bias is not None
        first = 0
        for head in self.heads:
            last = first + head.out_features
            head.weight.grad, head.bias.grad = weight[0, first:last], bias[0, first:last]
            first = last


class FusedUpdate:
    """
    d3rlpy's update of IQL, for SPAN in all three roles.

    :param impl: What d3rlpy has built
    """

    def __init__(self, impl: IQLImpl) -> None:
        self.impl = impl
        modules = impl.modules
        policy = modules.policy
        assert isinstance(policy._logstd, nn.Linear)
        self.critics = [_fuse(critic, critic._fc) for critic in modules.q_funcs]
        self.targets = [_fuse(critic, critic._fc) for critic in modules.targ_q_funcs]
        self.value = _fuse(modules.value_func, modules.value_func._fc)
        self.policy = _fuse(policy, policy._mu, policy._logstd)
        self.trained = [*modules.q_funcs.parameters(), *modules.value_func.parameters(), *policy.parameters()]

    @classmethod
    def make(cls, impl: IQLImpl) -> "FusedUpdate | None":
        """None where the kernel cannot do it: other encoders, or a SPAN that only torch has."""
        modules = impl.modules
        return cls(impl) if all(map(_is_span, (*modules.q_funcs, modules.value_func, modules.policy))) else None

    @th.no_grad()
    def run(self, batch: TorchMiniBatch) -> dict[str, float] | None:
        """
        :return: The losses as d3rlpy names them; None for a batch or parameters that the kernel cannot take
        """
        if not all(parameter.requires_grad for parameter in self.trained) or not isinstance(batch.observations, th.Tensor):
            return None
        x = batch.observations
        x_and_action = th.cat([x, batch.actions], dim=1)
        with_action = all(network.prepare(x_and_action) for network in (*self.critics, *self.targets))
        if not (with_action and self.value.prepare(x) and self.policy.prepare(x)):
            return None
        losses, target = self._update_critics(batch, x_and_action)
        losses["actor_loss"] = self._update_actor(batch, target)
        self.impl.update_critic_target()
        return losses

    def _update_critics(self, batch: TorchMiniBatch, x_and_action: th.Tensor) -> tuple[dict[str, float], th.Tensor]:
        """
        The critics by squared error, the value function by the expectile loss.

        :return: The losses, and the target critics' values, shape (B, 1)
        """
        impl, batch_size = self.impl, len(x_and_action)
        goal = batch.rewards + impl._gamma**batch.intervals * self.value(batch.next_observations) * (1 - batch.terminals)
        q_loss = 0.0
        for critic in self.critics:
            error = critic(x_and_action, keep=True) - goal
            critic.backward(error * (2 / batch_size))
            q_loss += float(error.square().mean())
        values = [target(x_and_action) for target in self.targets]
        target = values[0] if len(values) == 1 else th.stack(values).amin(dim=0)
        error = target - self.value(batch.observations, keep=True)
        weighted = th.where(error < 0, 1 - impl._expectile, impl._expectile) * error
        self.value.backward(weighted * (-2 / batch_size))
        v_loss = float((weighted * error).mean())
        impl.modules.critic_optim.step()
        return {"critic_loss": q_loss + v_loss, "q_loss": q_loss, "v_loss": v_loss}, target

    def _update_actor(self, batch: TorchMiniBatch, target: th.Tensor) -> float:
        """
        The policy by the logarithm of the actions' density, weighted by their advantage.

        :param target: The target critics' values, shape (B, 1)
        :return: The loss
        """
        impl, policy = self.impl, self.impl.modules.policy
        advantage = target - self.value(batch.observations)
        weight = (impl._weight_temp * advantage).exp_().clamp_(max=impl._max_weight)
        mu, logstd = self.policy(batch.observations, keep=True).chunk(2, dim=1)
        mean, clipped = mu.tanh(), logstd.clamp(policy._min_logstd, policy._max_logstd)
        deviation = clipped.exp()
        distance = (batch.actions - mean) / deviation
        squared = distance.square()
        density = (squared * -0.5 - clipped).sum(dim=1, keepdim=True) - 0.5 * math.log(2 * math.pi) * mu.shape[1]
        share = weight / -len(mu)  # of the loss in a sample's density
        grad_mu = share * distance / deviation * (1 - mean.square())
        grad_logstd = share * (squared - 1) * (clipped == logstd)  # where it is clipped it does not move
        self.policy.backward(th.cat([grad_mu, grad_logstd], dim=1))
        impl.modules.actor_optim.step()
        return float((share * density).sum())


def _joined(tensors: list[th.Tensor]) -> th.Tensor:
    """One tensor is itself and follows the optimizer; several are copied, which is good until its next step."""
    return tensors[0] if len(tensors) == 1 else th.cat(tensors)


def _is_span(module: nn.Module) -> bool:
    encoder = module._encoder
    return isinstance(encoder, SPANEncoder | SPANEncoderWithAction) and encoder.span.native is not None


def _fuse(module: nn.Module, *heads: nn.Linear) -> FusedNetwork:
    return FusedNetwork(module._encoder.span, *heads)  # type: ignore[union-attr, arg-type]
