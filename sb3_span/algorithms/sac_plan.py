"""SAC's update and exploration in C."""

import math
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN

from sb3_span.algorithms.extension import extension
from sb3_span.algorithms.networks import read_actor, read_adam, read_critics, read_trained
from sb3_span.algorithms.plan import NOT_FINITE, Plan, as_floats, check_observations
from sb3_span.algorithms.records import Trained
from sb3_span.algorithms.stepping import knows
from sb3_span.nn.checks import Unsupported, check_tensors


def build_plan(agent: Any) -> "SACPlan":
    """
    Everything that the kernel works on, found in the agent and checked.

    :param agent: Of SAC
    """
    check_observations(agent.observation_space)
    actor, critics, targets = read_actor(agent.actor), read_critics(agent.critic), read_critics(agent.critic_target)
    n_obs, n_actions = math.prod(agent.observation_space.shape), math.prod(agent.action_space.shape)
    if (actor.shape.inputs, actor.shape.outputs) != (n_obs, 2 * n_actions):
        raise Unsupported("the actor is another environment's")
    if (critics.shape.inputs, critics.shape.outputs) != (n_obs + n_actions, 1) or critics.shape != targets.shape:
        raise Unsupported("critics and target critics do not fit together")
    for network in (actor, critics):
        if len({*network.parts}) != len(network.parts):
            raise Unsupported("a layer is used twice")
    trains_entropy = agent.ent_coef_optimizer is not None
    optimizers = [agent.actor.optimizer, agent.critic.optimizer] + ([agent.ent_coef_optimizer] if trains_entropy else [])
    adams = [read_adam(optimizer).packed() for optimizer in optimizers]
    of_actor = read_trained(actor.parameters, optimizers[0])
    of_critics = read_trained(critics.parameters, optimizers[1])
    of_targets = targets.values()
    of_entropy = read_trained([agent.log_ent_coef], agent.ent_coef_optimizer)[0] if trains_entropy else Trained()
    check_tensors(targets.parameters)
    kernel = extension.sac_plan(
        actor.packed(of_actor),
        critics.packed(of_critics),
        targets.packed(of_targets),
        of_entropy.packed(),
        (adams[0], adams[1], adams[-1]),
        (LOG_STD_MIN, LOG_STD_MAX, agent.actor.action_dist.epsilon),
    )
    tensors = [tensor for one in (*of_actor, *of_critics, of_entropy) for tensor in one.tensors]
    return SACPlan(kernel, agent, optimizers, [*tensors, *targets.parameters])


class SACPlan(Plan):
    """A plan for an agent's updates, and for its actions while it explores."""

    def __init__(self, kernel: Any, agent: Any, optimizers: list[th.optim.Optimizer], tensors: list[th.Tensor]) -> None:
        super().__init__(kernel, (agent.actor, agent.critic, agent.critic_target), optimizers, tensors)
        self._parts = self._parts_of(agent)
        self._n_actions = math.prod(agent.action_space.shape)
        self._noises: dict[int, tuple[th.Tensor, np.ndarray]] = {}

    def _parts_of(self, agent: Any) -> list[Any]:
        parts = [agent.policy, agent.actor, agent.critic, agent.critic_target, agent.actor.optimizer, agent.critic.optimizer]
        return [*parts, agent.ent_coef_optimizer, agent.log_ent_coef]

    def holds(self, agent: Any) -> bool:
        parts = self._parts_of(agent)
        return extension.same([parts], self._parts) and self._guard.holds()

    def _noise(self, rows: int, which: int) -> np.ndarray:
        """Standard normal, as torch draws it, shape (rows, A). ``which``: each has its own memory."""
        known = self._noises.get(which)
        if known is None or len(known[0]) != rows:
            tensor = th.empty(rows, self._n_actions, dtype=th.float32, device="cpu")
            known = self._noises[which] = tensor, tensor.numpy()
        known[0].normal_()
        return known[1]

    def act(self, obs: Any) -> np.ndarray | None:
        """
        :param obs: Shape (n_envs, ...)
        :return: Actions drawn for exploration, between -1 and 1, shape (n_envs, A); None where SB3 has to say what is wrong
        """
        obs = as_floats(obs)
        if obs is None:
            return None
        noise = self._noise(len(obs), 0)
        actions = np.empty_like(noise)
        is_done = extension.sac_act(self.kernel, obs, noise, actions)
        return actions if is_done else None

    def update(self, agent: Any, batch_size: int, moves_targets: bool) -> tuple[float, float, float, float]:
        """
        One step of each optimizer.

        :param moves_targets: Whether the target critics follow
        :return: Entropy coefficient and its loss, the actor's and the critics' loss
        """
        transitions, rows, scaling = _draw(agent.replay_buffer, batch_size, agent._vec_normalize_env)
        # In SB3's order, so that the random numbers are the same.
        size = batch_size if rows is not None else len(transitions[1])  # type: ignore[arg-type]
        noise, next_noise = self._noise(size, 1), self._noise(size, 2)
        ent_coef = 0.0 if agent.ent_coef_optimizer is not None else float(agent.ent_coef_tensor)
        settings = (agent.gamma, agent.tau, agent.target_entropy, ent_coef)
        rates = [optimizer.param_groups[0]["lr"] for optimizer in self.optimizers]
        losses = extension.sac_update(
            self.kernel,
            transitions,
            rows,
            scaling,
            (noise, next_noise),
            settings,
            moves_targets,
            (rates[0], rates[1], rates[-1]),
        )
        if losses is None or not all(map(math.isfinite, losses)):
            raise ValueError(NOT_FINITE)
        return losses


Transitions = tuple[np.ndarray | None, ...]
ZERO = np.zeros(())


def _draw(buffer: Any, batch_size: int, env: VecNormalize | None) -> tuple[Transitions, np.ndarray | None, Any]:
    """
    The same transitions as ``buffer.sample`` draws. Those of SB3's plain buffer the kernel takes from there itself.

    :return: Observations, actions, next observations, rewards, dones, timeouts or None, discounts or None; which rows of
        them, None for all; and how VecNormalize scales observations and rewards, None for not at all
    """
    is_plain = type(buffer) is ReplayBuffer and not buffer.optimize_memory_usage
    if (
        not is_plain
        or not (env is None or knows(env))
        or buffer.observations.dtype.char not in "fd"
        or buffer.actions.dtype.char not in "fd"
    ):
        data = buffer.sample(batch_size, env)
        tensors = (data.observations, data.actions, data.next_observations, data.rewards, data.dones, None, data.discounts)
        return tuple(None if tensor is None else _floats(tensor) for tensor in tensors), None, (None, None)
    # In SB3's order, so that the random numbers are the same.
    rows = np.random.randint(0, buffer.buffer_size if buffer.full else buffer.pos, size=batch_size)
    if buffer.n_envs > 1:  # with one there is nothing to draw
        rows = rows * buffer.n_envs + np.random.randint(0, high=buffer.n_envs, size=batch_size)
    arrays = (buffer.observations, buffer.actions, buffer.next_observations, buffer.rewards, buffer.dones, buffer.timeouts)
    return (*arrays, None), rows, (None, None) if env is None else _scaling(env)


def _floats(tensor: th.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.numpy(), dtype=np.float32)


def _scaling(env: VecNormalize) -> tuple[Any, Any]:
    """Means, variances, epsilon and bound of observations and of rewards; None for what is not normalised."""
    obs = rewards = None
    if env.norm_obs:
        statistics: Any = env.obs_rms
        obs = (statistics.mean, statistics.var, env.epsilon, env.clip_obs)
    if env.norm_reward:  # which keep their mean
        rewards = (ZERO, np.asarray(env.ret_rms.var, dtype=np.float64), env.epsilon, env.clip_reward)
    return obs, rewards
