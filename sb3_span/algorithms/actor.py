"""``predict`` in C."""

import math
import threading
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy

from sb3_span.algorithms.extension import extension
from sb3_span.algorithms.networks import read_actor, read_actor_critic
from sb3_span.algorithms.plan import Plan, as_floats, check_observations
from sb3_span.nn.checks import Unsupported, check_tensors
from sb3_span.nn.native import choice

POLICIES = (SACPolicy, ActorCriticPolicy)
# What a policy acts with; a subclass may have its own.
ACTING = ("predict", "_predict", "obs_to_tensor", "scale_action", "unscale_action", "squash_output")


def why_not_act(policy: BasePolicy) -> str | None:
    """Why SB3 has to find the actions of a policy of SAC or PPO: it is a subclass with a way of its own."""
    cls, plain = type(policy), SACPolicy if isinstance(policy, SACPolicy) else ActorCriticPolicy
    own = next((name for name in ACTING if getattr(cls, name) is not getattr(plain, name)), None)
    return None if own is None else f"{cls.__name__} has a {own} of its own"


def build_plan(policy: Any) -> "ActorPlan":
    """
    Everything that the kernel needs for the best action, found in the policy and checked.

    :param policy: Of SAC or PPO
    """
    check_observations(policy.observation_space)
    if why_not := why_not_act(policy):
        raise Unsupported(why_not)
    space, is_sac = policy.action_space, isinstance(policy, SACPolicy)
    actor = read_actor(policy.actor) if is_sac else read_actor_critic(policy)[0]
    n_actions = int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape)
    expected = 1, math.prod(policy.observation_space.shape), 2 * n_actions if is_sac else n_actions
    if (actor.shape.stack, actor.shape.inputs, actor.shape.outputs) != expected:
        raise Unsupported("the actor is another environment's")
    log_std = policy.log_std if not is_sac and isinstance(space, spaces.Box) else None
    tensors = [*actor.parameters, *([] if log_std is None else [log_std])]
    check_tensors(tensors)
    values = actor.values()
    plan = ActorPlan(extension.actor_plan(actor.packed(values)), (policy.actor if is_sac else policy,), (), tensors)
    plan.inputs, plan.outputs, plan.log_std = actor.shape.inputs, actor.shape.outputs, log_std
    return plan


class ActorPlan(Plan):
    """A plan for the best action."""

    inputs: int
    outputs: int
    log_std: th.Tensor | None  # of PPO's Gaussian

    def holds(self, agent: Any = None) -> bool:
        return self._guard.holds()


class NativeActor:
    """
    What a policy of SAC or PPO does when it does not explore. Most of SB3's time goes into the way to a tensor, through a
    distribution, and back.

    :param policy: The policy
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.plan: ActorPlan | None = None
        self.why_not: str | None = None
        self._is_sac = isinstance(policy, SACPolicy)
        self._actor = policy.actor if self._is_sac else policy
        self._lock = threading.Lock()  # others may act with the same agent

    def predict(self, observation: Any) -> np.ndarray | None:
        """
        :param observation: One, or one for each of several environments
        :return: The action or actions that are best, as SB3's ``predict`` has them; None where SB3 has to find them, or to say
            what is wrong
        """
        policy, shape = self.policy, self.policy.observation_space.shape
        if not shape or type(observation) is not np.ndarray:
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
        """Whether there is a plan, which is not tried again where there can be none: it takes as long as SB3."""
        if not choice.nobody_watches():
            return False
        if self.why_not is not None or (self.plan is not None and self.plan.holds() and self._actor is self._now()):
            return self.plan is not None
        self.plan, self._actor = None, self._now()
        try:
            self.plan = build_plan(self.policy)
        except Unsupported as reason:
            self.why_not = str(reason)
        return self.plan is not None

    def _now(self) -> Any:
        return self.policy.actor if self._is_sac else self.policy

    def _run(self, x: np.ndarray) -> np.ndarray | None:
        """
        :param x: Shape (B, I)
        :return: Outputs of the actor, shape (B, O), of SAC's between -1 and 1
        """
        plan, floats = self.plan, as_floats(x)
        if plan is None or floats is None or x.shape[1] != plan.inputs or self._needs_sb3(plan):
            return None
        out = np.empty((len(x), plan.outputs), dtype=np.float32)
        is_done = extension.actor_outputs(plan.kernel, floats, out, self._is_sac)
        return out if is_done and np.isfinite(out).all() else None

    def _needs_sb3(self, plan: ActorPlan) -> bool:
        """
        Whether SB3 has to act this time: an update has left its graph in the policy's distribution, and with it the policy
        cannot be copied; or the standard deviation is not one, which SB3 says.
        """
        distribution = getattr(self._actor.action_dist, "distribution", None)  # there is none before the first action
        if distribution is not None and any(
            isinstance(value, th.Tensor) and value.requires_grad for value in vars(distribution).values()
        ):
            return True
        if plan.log_std is None:
            return False
        log_std = plan.log_std.detach().numpy()
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
            return self.policy.unscale_action(out[:, : out.shape[1] // 2].reshape(-1, *space.shape))
        return np.clip(out.reshape(-1, *space.shape), space.low, space.high)
