"""``predict`` in C."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import nn

from sb3_span.algorithms.described import Described, describe_actor, describe_actor_critic
from sb3_span.algorithms.native_code import NativeCode, extension

# What a policy acts with.
ACTING = ("predict", "_predict", "obs_to_tensor", "unscale_action")


def acts_as_sb3(policy: Any) -> bool:
    """Whether nobody has put something else in the place of what a policy of SAC or PPO acts with."""
    plain: type = SACPolicy if isinstance(policy, SACPolicy) else ActorCriticPolicy
    cls, own = type(policy), vars(policy)
    return all(getattr(cls, name) is getattr(plain, name) and name not in own for name in ACTING)


class NativeActor(NativeCode):
    """
    What an agent does when it does not explore. Of a step of a small agent most goes into SB3's way to a tensor, through a
    distribution, and back.
    """

    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        self._is_sac = isinstance(self.policy, SACPolicy)

    def _parts(self) -> tuple[Sequence[nn.Module], Sequence[th.optim.Optimizer]]:
        return (self.policy.actor if self._is_sac else self.policy,), ()

    def _read_options(self) -> Any:
        return () if acts_as_sb3(self.policy) else None

    def _describe(self) -> tuple[list[th.Tensor], Callable[[], Any]] | None:
        if self._is_sac:
            actor = describe_actor(self.policy.actor)
        else:
            networks = describe_actor_critic(self.policy)
            actor = None if networks is None else networks[0]
        return None if actor is None else ([*actor.parameters], lambda: self._make_plan(actor))

    def _make_plan(self, actor: Described) -> Any:
        self._inputs, self._outputs = actor.shape[1], actor.shape[5]
        return extension.actor_plan(actor.for_kernel(gradients=False))

    def predict(self, observation: Any) -> np.ndarray | None:
        """
        :param observation: One, or one for each of several environments
        :return: The action or actions that are best, as SB3's ``predict`` has them; None where SB3 has to find them, or to say
            what is wrong
        """
        policy, shape = self.policy, self.agent.observation_space.shape
        if type(observation) is not np.ndarray or observation.dtype.kind not in "fiub" or not observation.size:
            return None
        is_single = observation.shape == shape
        if not is_single and observation.shape[1:] != shape:
            return None
        if policy.training:
            policy.set_training_mode(False)
        if not self.is_ready():
            # The first action after a change is SB3's, which also lets go of the graph that an update of SB3's has left in the
            # policy's distribution: an agent that has it cannot be copied.
            self.prepare()
            return None
        x = np.ascontiguousarray(observation.reshape(-1, self._inputs), dtype=np.float32)
        out = np.empty((len(x), self._outputs), dtype=np.float32)
        is_done = extension.actor_outputs(self.plan, len(x), x.ctypes.data, out.ctypes.data)
        if not is_done or not np.isfinite(out).all():
            return None
        actions = self._actions(out)
        return actions[0, ...] if is_single else actions

    def _actions(self, out: np.ndarray) -> np.ndarray:
        """
        :param out: Outputs of the actor, shape (B, O)
        :return: Shape (B, ...)
        """
        space = self.agent.action_space
        if isinstance(space, spaces.Discrete):
            return out.argmax(axis=1)
        if self._is_sac:  # the second half is for exploration
            return self.policy.unscale_action(np.tanh(out[:, : self._outputs // 2]).reshape(-1, *space.shape))
        return np.clip(out.reshape(-1, *space.shape), space.low, space.high)
