"""
An update of IQL without autograd.

The three losses of IQL are short formulas, and so are their gradients by the outputs. The native kernel
does the rest: a SPAN and d3rlpy's linear layers on top of it are one network of the kernel, gradients included.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch as th
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn

from sb3_span.nn import SPAN
from sb3_span.nn.checks import Unsupported, check_native, check_tensors, check_trained, check_type, span_parameters
from sb3_span.nn.native import NativeSPAN
from sb3_span.nn.native.function import WIDEST, Parameters
from sb3_span.offline.encoder import SPANEncoder, SPANEncoderWithAction

BODY = 4  # a network's parameters: four of the body, then weight and bias of the head
BATCH = ("observations", "next_observations", "actions", "rewards", "terminals", "intervals")


class FusedNetwork:
    """
    A module of d3rlpy: an encoder that is a SPAN, and the linear layers that read its modes.

    :param module: The module
    :param heads: The names of the layers; this network's outputs are theirs, concatenated
    """

    def __init__(self, module: nn.Module, *heads: str) -> None:
        self.module = module
        self.names = heads
        self.heads: list[nn.Linear] = []
        self.native: NativeSPAN | None = None
        self._parameters: Parameters = ()
        self._kept: tuple[th.Tensor, th.Tensor] | None = None

    def read(self, trained: bool = True) -> None:
        """
        Read the present parameters; ``Unsupported`` if a part was replaced, hooked or frozen.

        :param trained: Whether there will be a backward pass
        """
        if not hasattr(self.module, "_encoder"):
            raise Unsupported(f"a network is inside a {type(self.module).__name__}")
        encoder: Any = self.module._encoder
        check_type(encoder, SPANEncoder, SPANEncoderWithAction)
        check_type(self.module, type(self.module))
        self.heads = [getattr(self.module, name) for name in self.names]
        span: SPAN = encoder.span
        own = span_parameters(span, self.heads)[1][:BODY]
        weights, biases = [head.weight for head in self.heads], [head.bias for head in self.heads]
        check_tensors(parameter for parameter in (*own, *weights, *biases) if parameter is not None)
        if trained:
            check_trained([*own, *weights, *biases])
        if self.native is None or self.native.arch is not span.arch:
            self.native = NativeSPAN(span.arch, span.input_dim, 1, sum(head.out_features for head in self.heads))
        self._parameters = (*own, _joined(weights).unsqueeze(0), _joined(biases).unsqueeze(0))

    @property
    def input_dim(self) -> int:
        assert self.native is not None
        return self.native.input_dim

    def __call__(self, x: th.Tensor, keep: bool = False) -> th.Tensor:
        """
        :param x: Shape (B, I)
        :param keep: Whether ``backward`` will follow
        :return: Shape (B, O)
        """
        assert self.native is not None
        if not keep:
            return self.native.forward(WIDEST, x, self._parameters)[0]
        out, z = self.native.forward_and_keep(WIDEST, x, self._parameters)
        self._kept = (x, z)
        return out[0]

    def backward(self, grad_out: th.Tensor) -> None:
        """
        Set the parameters' gradients, replacing earlier ones.

        :param grad_out: The gradient of the outputs, shape (B, O)
        """
        assert self.native is not None and self._kept is not None, "backward needs a forward pass with keep=True"
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

    :param impl: d3rlpy's implementation
    """

    def __init__(self, impl: IQLImpl) -> None:
        self.impl = impl
        self._refused: str | None = None  # why the last batch could not be used
        modules = impl.modules
        self.critics = [FusedNetwork(critic, "_fc") for critic in modules.q_funcs]
        self.targets = [FusedNetwork(critic, "_fc") for critic in modules.targ_q_funcs]
        self.value = FusedNetwork(modules.value_func, "_fc")
        self.policy = FusedNetwork(modules.policy, "_mu", "_logstd")

    def why_not(self) -> str | None:
        """
        :return: Why an update is torch's: because of the networks as they are now, or of the last batch; None if it is not
        """
        try:
            self._read_networks()
        except Unsupported as reason:
            return str(reason)
        return self._refused

    @th.no_grad()
    def run(self, batch: TorchMiniBatch) -> dict[str, float] | None:
        """
        :return: The losses by d3rlpy's names; None, without any change, if the kernel cannot do it
        """
        self._refused = None
        try:
            self._read_networks()
        except Unsupported:
            return None
        try:
            x_and_action = self._read_batch(batch)
        except Unsupported as reason:
            self._refused = str(reason)
            return None
        losses, target = self._update_critics(batch, x_and_action)
        losses["actor_loss"] = self._update_actor(batch, target)
        self.impl.update_critic_target()
        return losses

    @th.no_grad()
    def _read_networks(self) -> None:
        check_native()
        for network in (self.value, self.policy, *self.critics):
            network.read()
        for target in self.targets:
            target.read(trained=False)

    def _read_batch(self, batch: TorchMiniBatch) -> th.Tensor:
        """
        :return: Observations and actions side by side
        """
        for name in BATCH:
            tensor = getattr(batch, name)
            if not isinstance(tensor, th.Tensor):
                raise Unsupported(f"the batch's {name} are a {type(tensor).__name__}")
            if tensor.dim() != 2 or len(tensor) != len(batch.actions):
                raise Unsupported(f"the batch's {name} have the shape {tuple(tensor.shape)}")
            check_tensors([tensor])
        x_and_action = th.cat([batch.observations, batch.actions], dim=1)
        widths = {tensor.shape[1] for tensor in (batch.observations, batch.next_observations)}
        if widths != {self.value.input_dim} or any(x_and_action.shape[1] != critic.input_dim for critic in self.critics):
            raise Unsupported("the batch has observations or actions of another size than the networks'")
        return x_and_action

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
        _check_finite("critics", q_loss + v_loss)
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
        share = weight / -len(mu)  # gradient of the loss by a sample's density
        loss = float((share * density).sum())
        _check_finite("actor", loss)
        grad_mu = share * distance / deviation * (1 - mean.square())
        grad_logstd = share * (squared - 1) * (clipped == logstd)  # no gradient where it is clipped
        self.policy.backward(th.cat([grad_mu, grad_logstd], dim=1))
        impl.modules.actor_optim.step()
        return loss


def _check_finite(name: str, loss: float) -> None:
    """Check before the optimizer's step, which would spread it to all parameters."""
    if not math.isfinite(loss):
        raise ValueError(
            f"The loss of the {name} is {loss}: observations, actions, rewards or the networks' parameters are not finite. "
            "Look for them in the data set, or lower the learning rates."
        )


def _joined(tensors: Sequence[th.Tensor]) -> th.Tensor:
    """A single tensor follows the optimizer; several are copied, valid until its next step."""
    return tensors[0] if len(tensors) == 1 else th.cat(list(tensors))
