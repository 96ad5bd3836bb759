"""``predict`` in C."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import nn

from sb3_span.algorithms.described import Described, describe_actor, describe_actor_critic, replaces_methods
from sb3_span.algorithms.native_code import NativeCode, extension

POLICIES = (SACPolicy, ActorCriticPolicy)
# What a policy acts with, as SB3 has it.
_ACTING = {
    cls: {name: getattr(cls, name) for name in ("predict", "_predict", "obs_to_tensor", "unscale_action", "squash_output")}
    for cls in POLICIES
}
LONGEST_PAUSE = 1024  # calls


def acts_as_sb3(policy: Any) -> bool:
    """Whether it is a policy of SAC or PPO, and nobody has put something else in the place of what it acts with."""
    cls, own = type(policy), vars(policy)
    for plain in POLICIES:
        if issubclass(cls, plain):
            return all(getattr(cls, name) is method and name not in own for name, method in _ACTING[plain].items())
    return False


class NativeActor(NativeCode):
    """
    What a policy of SAC or PPO does when it does not explore. Most of SB3's time goes into the way to a tensor, through a
    distribution, and back.

    :param policy: The policy
    """

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self._is_sac = isinstance(policy, SACPolicy)
        self._lock = threading.Lock()  # others may act with the same agent
        self._pause = self._calls = 0

    @property
    def _actor(self) -> Any:
        return self.policy.actor if self._is_sac else self.policy

    def _parts(self) -> tuple[Sequence[nn.Module], Sequence[th.optim.Optimizer]]:
        return (self._actor,), ()

    def _read_options(self) -> Any:
        return () if acts_as_sb3(self.policy) and not replaces_methods(self._actor.action_dist) else None

    def _describe(self) -> tuple[list[th.Tensor], Callable[[], Any]] | None:
        policy, space = self.policy, self.policy.action_space
        if self._is_sac:
            actor = describe_actor(policy.actor)
        else:
            networks = describe_actor_critic(policy)
            actor = None if networks is None else networks[0]
        if actor is None:
            return None
        self._log_std = policy.log_std if not self._is_sac and isinstance(space, spaces.Box) else None
        n_actions = int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape)
        sizes = 1, math.prod(policy.observation_space.shape), 2 * n_actions if self._is_sac else n_actions
        if (actor.shape[0], actor.shape[1], actor.shape[5]) != sizes:  # parts of another network
            return None
        tensors = actor.parameters if self._log_std is None else [*actor.parameters, self._log_std]
        return [*tensors], lambda: self._make_plan(actor)

    def _make_plan(self, actor: Described) -> Any:
        self._inputs, self._outputs = actor.shape[1], actor.shape[5]
        return extension.actor_plan(actor.for_kernel(gradients=False))

    def predict(self, observation: Any) -> np.ndarray | None:
        """
        :param observation: One, or one for each of several environments
        :return: The action or actions that are best, as SB3's ``predict`` has them; None where SB3 has to find them, or to say
            what is wrong
        """
        policy, shape = self.policy, self.policy.observation_space.shape
        if not shape or not _is_plain(observation):
            return None
        is_single = observation.shape == shape
        if not is_single and observation.shape[1:] != shape:
            return None
        if policy.training:
            policy.set_training_mode(False)
        with self._lock:
            out = self._run(observation.reshape(1 if is_single else len(observation), -1)) if self._can_run() else None
        if out is None:
            return None
        actions = self._actions(out)
        return actions[0, ...] if is_single else actions

    def _can_run(self) -> bool:
        """Whether there is a plan. Where there can be none it is not tried each time, which would take as long as SB3."""
        if self.is_ready():
            return True
        self._calls -= 1
        if self._calls >= 0:
            return False
        can_run = self.prepare()
        self._pause = 0 if can_run else min(2 * self._pause + 1, LONGEST_PAUSE)
        self._calls = self._pause
        return can_run

    def _run(self, x: np.ndarray) -> np.ndarray | None:
        """
        :param x: Shape (B, I)
        :return: Outputs of the actor, shape (B, O)
        """
        if x.shape[1] != self._inputs or self._needs_sb3():
            return None
        if x.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32)
        x = np.ascontiguousarray(x)
        out = np.empty((len(x), self._outputs), dtype=np.float32)
        is_done = extension.actor_outputs(self.plan, len(x), x.ctypes.data, out.ctypes.data)
        return out if is_done and np.isfinite(out).all() else None

    def _needs_sb3(self) -> bool:
        """
        Whether SB3 has to act this time: an update has left its graph in the policy's distribution, and with it the policy
        cannot be copied; or the standard deviation is not one, which SB3 says.
        """
        distribution = getattr(self._actor.action_dist, "distribution", None)  # there is none before the first action
        if distribution is not None and any(
            isinstance(value, th.Tensor) and value.requires_grad for value in vars(distribution).values()
        ):
            return True
        if self._log_std is None:
            return False
        log_std = self._log_std.detach().numpy()
        return not ((log_std > -100.0) & (log_std < 80.0)).all()

    def _actions(self, out: np.ndarray) -> np.ndarray:
        """
        :param out: Outputs of the actor, shape (B, O)
        :return: Shape (B, ...)
        """
        space = self.policy.action_space
        if isinstance(space, spaces.Discrete):
            return out.argmax(axis=1)
        if self._is_sac:  # the second half is for exploration
            return self.policy.unscale_action(np.tanh(out[:, : self._outputs // 2]).reshape(-1, *space.shape))
        return np.clip(out.reshape(-1, *space.shape), space.low, space.high)


def _is_plain(observation: Any) -> bool:
    """Whether it is an array of numbers that torch would take."""
    if type(observation) is not np.ndarray or not observation.size or not observation.flags.aligned:
        return False
    dtype = observation.dtype
    return dtype.kind in "fiub" and dtype.itemsize <= 8 and dtype.isnative
