"""PPO's update and exploration in C."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_span.algorithms.extension import extension
from sb3_span.algorithms.networks import read_actor_critic, read_adam, read_trained
from sb3_span.algorithms.plan import NOT_FINITE, Plan, as_floats, check_observations
from sb3_span.nn.checks import Unsupported, check_type
from sb3_span.policies.on_policy import SPANActorCriticPolicy

ROLLOUT = ("observations", "actions", "values", "log_probs", "advantages", "returns")


def build_plan(agent: Any) -> "PPOPlan":
    """
    Everything that the kernel works on, found in the agent and checked.

    :param agent: Of PPO
    """
    policy, space = agent.policy, agent.action_space
    check_observations(agent.observation_space)
    check_buffer(agent.rollout_buffer)
    check_type(policy, ActorCriticPolicy, SPANActorCriticPolicy)
    pi, vf = read_actor_critic(policy)
    is_choice = isinstance(space, spaces.Discrete)
    n_obs, n_actions = math.prod(agent.observation_space.shape), int(space.n) if is_choice else math.prod(space.shape)
    sizes = [(network.shape.inputs, network.shape.outputs) for network in (pi, vf)]
    if sizes != [(n_obs, n_actions), (n_obs, 1)]:
        raise Unsupported("the networks are another environment's")
    parts = [*pi.parts, *vf.parts]
    if len({*parts}) != len(parts):
        raise Unsupported("a layer is in both networks, or twice in one")
    log_std = None if is_choice else policy.log_std
    params = policy.optimizer.param_groups[0]["params"]
    if {*(part.parameter for part in parts), *([] if log_std is None else [log_std])} != {*params}:
        raise Unsupported("the optimizer has other parameters than the networks")
    adam = read_adam(policy.optimizer)
    if adam.max_grad_norm != math.inf:
        raise Unsupported("the optimizer clips gradients, which PPO does itself")
    trained = read_trained(params, policy.optimizer)
    kernel = extension.ppo_plan(
        pi.packed(pi.values_and_gradients()),
        vf.packed(vf.values_and_gradients()),
        *((0, 0) if log_std is None else (log_std.data_ptr(), log_std.grad.data_ptr())),
        tuple(one.packed() for one in trained),
        adam.packed(),
    )
    return PPOPlan(kernel, agent, [tensor for one in trained for tensor in one.tensors])


def check_buffer(buffer: Any) -> None:
    """Refuse a buffer of one's own: it may have other samples than those that it keeps."""
    if type(buffer) is not RolloutBuffer:
        raise Unsupported(f"rollouts are kept in a {type(buffer).__name__}, and native code knows SB3's RolloutBuffer")


@dataclasses.dataclass
class EpochLosses:
    """Of one pass over a rollout: sums over its batches, whether it was stopped, and the last batch's divergence and loss."""

    batches: float
    is_stopped: int
    entropy: float
    policy: float
    value: float
    clip_fraction: float
    approx_kl: float
    last_kl: float
    loss: float


class PPOPlan(Plan):
    """A plan for an agent's updates, and for its actions while it explores."""

    def __init__(self, kernel: Any, agent: Any, tensors: list[th.Tensor]) -> None:
        policy, space = agent.policy, agent.action_space
        super().__init__(kernel, (policy,), (policy.optimizer,), tensors)
        self._parts = [policy, policy.optimizer, getattr(policy, "log_std", None)]
        self._is_choice = isinstance(space, spaces.Discrete)
        self._n_actions = int(space.n) if self._is_choice else math.prod(space.shape)
        self._action_shape = space.shape
        self._noise = th.empty(0)

    def holds(self, agent: Any) -> bool:
        policy = agent.policy
        parts = [policy, policy.optimizer, getattr(policy, "log_std", None)]
        return extension.same([parts], self._parts) and self._guard.holds()

    def act(self, obs: Any) -> tuple[np.ndarray, th.Tensor, th.Tensor] | None:
        """
        :param obs: Shape (n_envs, ...)
        :return: Actions drawn for exploration, shape (n_envs, ...), values (n_envs, 1) and the logarithms of the actions'
            probabilities (n_envs,); None where SB3 has to say what is wrong
        """
        obs = as_floats(obs)
        if obs is None:
            return None
        n = len(obs)
        if len(self._noise) != n:
            self._noise = th.empty(n, self._n_actions, dtype=th.float32, device="cpu")
        self._noise.exponential_() if self._is_choice else self._noise.normal_()
        actions = np.empty(n, dtype=np.int64) if self._is_choice else np.empty((n, self._n_actions), dtype=np.float32)
        values, log_probs = np.empty((n, 1), dtype=np.float32), np.empty(n, dtype=np.float32)
        if not extension.ppo_act(self.kernel, obs, self._noise.numpy(), actions, values, log_probs):
            return None
        return actions.reshape(n, *self._action_shape), th.from_numpy(values), th.from_numpy(log_probs)

    def values(self, obs: Any) -> np.ndarray | None:
        """
        :param obs: Shape (B, ...)
        :return: Shape (B, 1)
        """
        obs = as_floats(obs)
        if obs is None:
            return None
        values = np.empty((len(obs), 1), dtype=np.float32)
        return values if extension.ppo_values(self.kernel, obs, values) else None

    def rollout(self, buffer: Any) -> list[np.ndarray]:
        """A finished rollout as the kernel takes it."""
        check_buffer(buffer)
        assert buffer.full, "the rollout was not finished"
        rows = buffer.buffer_size * buffer.n_envs
        if not buffer.generator_ready:
            for name in ROLLOUT:
                setattr(buffer, name, buffer.swap_and_flatten(getattr(buffer, name)))
            buffer.generator_ready = True
        arrays = [np.ascontiguousarray(getattr(buffer, name), dtype=np.float32) for name in ROLLOUT]
        widths = [math.prod(buffer.obs_shape), 1 if self._is_choice else self._n_actions, 1, 1, 1, 1]
        if any(array.size != rows * width for array, width in zip(arrays, widths, strict=True)):
            raise Unsupported("the rollout is another environment's")
        actions = arrays[1]
        if self._is_choice and not ((actions >= 0) & (actions < self._n_actions) & (actions == np.floor(actions))).all():
            raise Unsupported("the rollout has actions that there are not")
        return arrays

    def epoch(self, agent: Any, rollout: list[np.ndarray], clip_range: float, clip_range_vf: float) -> EpochLosses:
        """
        One pass over the rollout.

        :param clip_range_vf: NaN for none
        """
        order = np.random.permutation(len(rollout[0]))  # as the buffer's own batches
        done = extension.ppo_epoch(
            self.kernel,
            order,
            tuple(rollout),
            min(agent.batch_size, len(order)),
            (
                clip_range,
                clip_range_vf,
                agent.ent_coef,
                agent.vf_coef,
                math.inf if agent.target_kl is None else 1.5 * agent.target_kl,
                agent.max_grad_norm,
            ),
            agent.normalize_advantage,
            self.optimizers[0].param_groups[0]["lr"],
        )
        if done is None or not all(map(math.isfinite, done)):
            raise ValueError(NOT_FINITE)
        return EpochLosses(*done)
