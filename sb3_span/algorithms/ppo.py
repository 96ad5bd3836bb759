"""SB3's PPO with an update in C."""

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.utils import explained_variance
from torch import nn

from sb3_span.algorithms.algorithm import WithNativeCode
from sb3_span.algorithms.described import (
    Described,
    SameInC,
    describe_actor_critic,
    describe_adam,
    learning_rate_factors,
    replaces_methods,
    trained_tensors,
)
from sb3_span.algorithms.native_code import NOT_FINITE, NativeCode, extension
from sb3_span.nn.native import choice

ROLLOUT = ("observations", "actions", "values", "log_probs", "advantages", "returns")


class NativePPO(NativeCode):
    """PPO's update in C."""

    def __init__(self, agent: stable_baselines3.PPO) -> None:
        super().__init__(agent.policy)
        self.agent: Any = agent
        self.last_kl = self.loss = 0.0  # of the last batch
        self._is_choice = isinstance(agent.action_space, spaces.Discrete)
        self._widths = dict.fromkeys(ROLLOUT, 1)  # of what a rollout keeps of each step

    def _parts(self) -> tuple[Sequence[nn.Module], Sequence[th.optim.Optimizer]]:
        return (self.policy,), (self.policy.optimizer,)

    def _read_options(self) -> Any:
        optimizer = self.policy.optimizer
        adam = describe_adam(optimizer)
        if adam is None or adam[-1] >= 0:  # clipping is the algorithm's
            return None
        return (*adam[:-1], self.agent.max_grad_norm), optimizer.defaults.get("lr_scale")

    def _describe(self) -> tuple[list[th.Tensor], Callable[[], Any]] | None:
        policy, optimizer = self.policy, self.policy.optimizer
        networks = describe_actor_critic(policy)
        trained = None if networks is None else trained_tensors(optimizer.param_groups[0]["params"], optimizer)
        if networks is None or trained is None:
            return None
        used = [param for network in networks for param in network.parameters]
        n_actions = int(policy.action_space.n) if self._is_choice else math.prod(policy.action_space.shape)
        self._widths |= dict(observations=networks[0].shape[1], actions=1 if self._is_choice else n_actions)
        sizes = [(network.shape[1], network.shape[5]) for network in networks]
        if sizes != [(self._widths["observations"], n_actions), (self._widths["observations"], 1)]:  # parts of another policy
            return None
        if not self._is_choice:
            used.append(policy.log_std)
        return [*trained, *used], lambda: self._make_plan(networks, trained)

    def _make_plan(self, networks: tuple[Described, Described], tensors: list[th.Tensor]) -> Any:
        """
        :param tensors: Of each of the optimizer's parameters those that are trained with it
        :return: What the kernel works with; None where it cannot work with these tensors
        """
        policy = self.policy
        params = policy.optimizer.param_groups[0]["params"]
        log_std = None if self._is_choice else policy.log_std
        pieces = [piece for network in networks for piece in network.pieces]
        used = {param for param, _, _ in pieces} | ({log_std} - {None})
        if used != {*params} or len({*pieces}) != len(pieces):  # the latter: a layer is in both
            return None
        factors = learning_rate_factors(params, policy.optimizer)
        trained = tuple(
            (*(tensor.data_ptr() for tensor in tensors[5 * i : 5 * i + 5]), param.numel(), factor)
            for i, (param, factor) in enumerate(zip(params, factors, strict=True))
        )
        described = [network.for_kernel(gradients=True) for network in networks]
        of_log_std = (0, 0) if log_std is None else (log_std.data_ptr(), log_std.grad.data_ptr())
        return extension.ppo_plan(*described, *of_log_std, trained, self._options[0])

    def knows(self, buffer: Any) -> bool:
        """Whether a rollout is one of SB3's, of this policy, with actions that there are: callbacks may have changed some."""
        # Buffers of one's own may have other samples than those that they keep.
        if type(buffer) is not RolloutBuffer or replaces_methods(buffer):
            return False
        rows = buffer.buffer_size * buffer.n_envs
        if any(getattr(buffer, name).size != rows * width for name, width in self._widths.items()):
            return False
        if not self._is_choice:
            return True
        actions, n = buffer.actions, int(self.agent.action_space.n)
        return bool(((actions >= 0) & (actions < n) & (actions == np.floor(actions))).all())

    def epoch(self, clip_range: float, clip_range_vf: float) -> tuple[np.ndarray, bool]:
        """
        One pass over the rollout, after ``prepare`` has said yes.

        :param clip_range_vf: Negative for none
        :return: Number of batches, and sums over them: entropy loss, policy loss, value loss, fraction clipped, approximate KL
            divergence; and whether that was too large to go on
        """
        agent, buffer = self.agent, self.agent.rollout_buffer
        assert buffer.full, "the rollout was not finished"
        order = np.random.permutation(buffer.buffer_size * buffer.n_envs).astype(np.int64)  # as the buffer's own batches
        if not buffer.generator_ready:
            for name in ROLLOUT:
                setattr(buffer, name, buffer.swap_and_flatten(getattr(buffer, name)))
            buffer.generator_ready = True
        max_kl = -1.0 if agent.target_kl is None else 1.5 * agent.target_kl
        arrays = [np.ascontiguousarray(getattr(buffer, name), dtype=np.float32) for name in ROLLOUT]
        addresses = [order.ctypes.data, *(array.ctypes.data for array in arrays)]
        done = extension.ppo_epoch(
            self.plan,
            (len(order), min(agent.batch_size, len(order)), *addresses),
            (clip_range, clip_range_vf, agent.ent_coef, agent.vf_coef, max_kl),
            agent.normalize_advantage,
            agent.policy.optimizer.param_groups[0]["lr"],
        )
        if done is None or not all(map(math.isfinite, done)):
            raise ValueError(NOT_FINITE)
        batches, is_stopped, *losses, self.last_kl, self.loss = done
        return np.array([batches, *losses]), bool(is_stopped)


class _Forward(SameInC):
    """
    The policy's ``forward`` in C, for as long as a rollout is collected. Copies of the policy have their own again.

    :param native: Prepared
    """

    def __init__(self, native: NativePPO) -> None:
        self._native = native
        self._hooks = [
            hooks for module in native.policy.modules() for hooks in (module._forward_hooks, module._forward_pre_hooks)
        ]

    def __call__(self, obs: th.Tensor, deterministic: bool = False) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        native, policy = self._native, self._native.policy
        x = obs.float().flatten(start_dim=1).contiguous()
        is_expected = x.shape[1:] == (math.prod(policy.observation_space.shape),) and x.is_cpu
        is_plain = not th.is_grad_enabled() and is_expected and choice.nobody_watches()
        if not is_plain or any(self._hooks) or native.has_moved():
            return type(policy).forward(policy, obs, deterministic)
        widths = len(policy.action_net.bias), 1
        out, values = (th.empty(len(x), width, dtype=th.float32, device="cpu") for width in widths)
        if not extension.ppo_act(native.plan, len(x), x.data_ptr(), out.data_ptr(), values.data_ptr()):
            return type(policy).forward(policy, obs, deterministic)
        if isinstance(policy.action_space, spaces.Discrete):
            actions, log_prob = _choose(out, deterministic)
        else:
            distribution = policy.action_dist.proba_distribution(out, policy.log_std)
            actions = distribution.get_actions(deterministic=deterministic)
            log_prob = distribution.log_prob(actions)
        return actions.reshape(-1, *policy.action_space.shape), values, log_prob

    def __reduce__(self) -> Any:
        return _own_forward, (self._native.policy,)


def _own_forward(policy: Any) -> Any:
    return types.MethodType(type(policy).forward, policy)


def _choose(logits: th.Tensor, deterministic: bool) -> tuple[th.Tensor, th.Tensor]:
    """An action by its probability, and the logarithm of that."""
    log_probs = logits.log_softmax(dim=1)
    probs = log_probs.exp()
    actions = probs.argmax(dim=1, keepdim=True) if deterministic else probs.multinomial(1, replacement=True)
    return actions, log_probs.gather(1, actions).squeeze(1)


class PPO(WithNativeCode, stable_baselines3.PPO):
    """
    SB3's PPO in a fraction of the time: the same arguments, policies and random numbers, and the same results but for
    rounding.

    With small networks most of an update's time goes into calling torch. Here a pass over the rollout, PPO's losses,
    their gradients through the networks and Adam's steps for all of its batches, is one call of native code, for SPAN
    and for MLPs with ReLU or tanh that read vectors and act in Discrete or Box spaces. Everything else (images, Dict
    observations, gSDE, other activations and optimizers, a GPU, hooks) is trained by SB3's own update.
    """

    native_class = NativePPO

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        native, policy = self._prepare_native(), self.policy
        if native is None or "forward" in vars(policy):  # somebody's own
            return super().collect_rollouts(*args, **kwargs)
        policy.forward = _Forward(native)  # type: ignore[method-assign]
        try:
            return super().collect_rollouts(*args, **kwargs)
        finally:
            vars(policy).pop("forward", None)

    def train(self) -> None:
        native = self._prepare_native()
        if native is None or not native.knows(self.rollout_buffer):
            super().train()
            return
        self._update_learning_rate(self.policy.optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        is_clipped = self.clip_range_vf is not None
        clip_range_vf = self.clip_range_vf(self._current_progress_remaining) if is_clipped else -1.0  # type: ignore[operator,misc]
        if clip_range < 0 or (is_clipped and clip_range_vf < 0):
            # A schedule that falls to 0 is below in a last rollout that goes beyond the last step: what torch makes of it.
            super().train()
            return
        sums = np.zeros(6)  # as ``NativePPO.epoch`` has them
        for epoch in range(self.n_epochs):
            last, is_stopped = native.epoch(clip_range, clip_range_vf)
            sums += last
            self._n_updates += 1
            if is_stopped:
                if self.verbose >= 1:
                    print(f"Early stopping at step {epoch} due to reaching max kl: {native.last_kl:.2f}")
                break
        buffer = self.rollout_buffer
        batches, entropy_loss, policy_loss, value_loss, clip_fraction, _ = sums
        self.logger.record("train/entropy_loss", entropy_loss / batches)
        self.logger.record("train/policy_gradient_loss", policy_loss / batches)
        self.logger.record("train/value_loss", value_loss / batches)
        self.logger.record("train/approx_kl", last[5] / last[0])
        self.logger.record("train/clip_fraction", clip_fraction / batches)
        self.logger.record("train/loss", native.loss)
        self.logger.record("train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten()))
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)
        if is_clipped:
            self.logger.record("train/clip_range_vf", clip_range_vf)
