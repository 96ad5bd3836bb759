"""SB3's SAC with an update in C."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import stable_baselines3
import torch as th
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN
from torch import nn

from sb3_span.algorithms.actor import acts_as_sb3
from sb3_span.algorithms.algorithm import WithNativeCode
from sb3_span.algorithms.described import (
    Described,
    describe_actor,
    describe_adam,
    describe_critics,
    learning_rate_factors,
    trained_tensors,
)
from sb3_span.algorithms.native_code import NOT_FINITE, NativeCode, extension

BATCH = ("observations", "actions", "next observations", "rewards", "dones", "discounts")


class NativeSAC(NativeCode):
    """SAC's update in C."""

    def __init__(self, agent: stable_baselines3.SAC) -> None:
        super().__init__(agent.policy)
        self.agent: Any = agent

    @property
    def optimizers(self) -> list[th.optim.Optimizer]:
        agent = self.agent
        own = [agent.actor.optimizer, agent.critic.optimizer]
        return own if agent.ent_coef_optimizer is None else [*own, agent.ent_coef_optimizer]

    def _parts(self) -> tuple[Sequence[nn.Module], Sequence[th.optim.Optimizer]]:
        agent = self.agent
        return (agent.actor, agent.critic, agent.critic_target), self.optimizers

    def _read_options(self) -> Any:
        agent, optimizers = self.agent, self.optimizers
        adams = [describe_adam(optimizer) for optimizer in optimizers]
        if None in adams:
            return None
        # Of a coefficient that is learned the tensor counts, of a fixed one the number.
        entropy = float(agent.ent_coef_tensor) if agent.ent_coef_optimizer is None else id(agent.log_ent_coef)
        scales = [optimizer.defaults.get("lr_scale") for optimizer in optimizers]
        return adams, agent.tau, agent.target_entropy, entropy, scales

    def _describe(self) -> tuple[list[th.Tensor], Callable[[], Any]] | None:
        agent = self.agent
        networks = describe_actor(agent.actor), describe_critics(agent.critic), describe_critics(agent.critic_target)
        tensors = None if None in networks else self._collect(*networks)  # type: ignore[arg-type]
        if tensors is None:
            return None
        return tensors, lambda: self._make_plan(networks, tensors)  # type: ignore[arg-type]

    def _collect(self, actor: Described, critics: Described, targets: Described) -> list[th.Tensor] | None:
        """All tensors that the update reads and writes, the actor's first; None where something is missing."""
        agent = self.agent
        of_actor = trained_tensors(actor.parameters, agent.actor.optimizer)
        of_critics = trained_tensors(critics.parameters, agent.critic.optimizer)
        of_entropy: list[th.Tensor] | None = []
        if agent.ent_coef_optimizer is not None:
            of_entropy = trained_tensors([agent.log_ent_coef], agent.ent_coef_optimizer)
        if of_actor is None or of_critics is None or of_entropy is None:
            return None
        return [*of_actor, *of_critics, *targets.parameters, *of_entropy]

    def _make_plan(self, networks: Sequence[Described], tensors: list[th.Tensor]) -> Any:
        """
        :return: What the kernel works with; None where it cannot work with these tensors
        """
        agent, optimizers, (actor, critics, targets) = self.agent, self.optimizers, networks
        are_trained = all(
            {*network.parameters} == {*optimizer.param_groups[0]["params"]} and len({*network.pieces}) == len(network.pieces)
            for network, optimizer in zip((actor, critics), optimizers, strict=False)
        )
        if not are_trained or (critics.shape, critics.sizes) != (targets.shape, targets.sizes):
            return None
        self._widths = actor.shape[1], actor.shape[5] // 2  # of an observation and of an action
        rest = iter(tensors)

        def trained(param: th.Tensor, factor: float) -> tuple[Any, ...]:
            return (*(next(rest).data_ptr() for _ in range(5)), param.numel(), factor)

        described = []
        for network, optimizer in zip((actor, critics), optimizers, strict=False):
            factors = learning_rate_factors(network.parameters, optimizer)
            parameters = tuple(trained(*pair) for pair in zip(network.parameters, factors, strict=True))
            described.append((network.shape, network.sizes, parameters))
        followers = tuple((next(rest).data_ptr(), 0, 0, 0, 0, param.numel(), 1.0) for param in targets.parameters)
        described.append((targets.shape, targets.sizes, followers))
        is_learned = agent.ent_coef_optimizer is not None
        ent_coef = 0.0 if is_learned else float(agent.ent_coef_tensor)
        log_ent_coef = trained(agent.log_ent_coef, 1.0) if is_learned else (0, 0, 0, 0, 0, 1, 1.0)
        epsilon = agent.actor.action_dist.epsilon
        adams = self._options[0]
        options = (ent_coef, float(agent.target_entropy), agent.tau, LOG_STD_MIN, LOG_STD_MAX, epsilon)
        return extension.sac_plan(*described, log_ent_coef, (adams[0], adams[1], adams[-1]), options)

    def sample(self, batch_size: int) -> list[np.ndarray | None]:
        """
        The same transitions as ``replay_buffer.sample`` draws. From SB3's plain buffer they are taken without the way through
        torch, which takes half as long as an update.

        :return: Observations, actions, next observations, rewards, dones and discounts, float32; None for discounts that are
            all the same
        """
        agent, buffer = self.agent, self.agent.replay_buffer
        is_plain = type(buffer) is ReplayBuffer and not {"sample", "_get_samples", "to_torch"} & vars(buffer).keys()
        env = agent._vec_normalize_env
        if not is_plain or buffer.optimize_memory_usage:
            data = buffer.sample(batch_size, env)
            tensors = (data.observations, data.actions, data.next_observations, data.rewards, data.dones, data.discounts)
            return [None if tensor is None else _rows(tensor.numpy()) for tensor in tensors]
        # In SB3's order, so that the random numbers are the same.
        rows = np.random.randint(0, buffer.buffer_size if buffer.full else buffer.pos, size=batch_size)
        rows = rows * buffer.n_envs + np.random.randint(0, high=buffer.n_envs, size=batch_size)
        observations, actions, next_observations = (
            array.reshape(-1, math.prod(array.shape[2:])).take(rows, axis=0)
            for array in (buffer.observations, buffer.actions, buffer.next_observations)
        )
        rewards, dones, timeouts = (array.reshape(-1).take(rows) for array in (buffer.rewards, buffer.dones, buffer.timeouts))
        if env is not None:
            shape = (batch_size, *buffer.obs_shape)
            observations, next_observations = (
                env.normalize_obs(array.reshape(shape)).reshape(batch_size, -1) for array in (observations, next_observations)
            )
            rewards = env.normalize_reward(rewards)
        return [*map(_rows, (observations, actions, next_observations, rewards, dones * (1 - timeouts))), None]

    def _check(self, batch: Sequence[np.ndarray | None]) -> None:
        """Refuse a batch of other sizes than the networks': a buffer may be another agent's, or somebody's own."""
        n, (observation, action) = len(batch[1]), self._widths  # type: ignore[arg-type]
        expected = n * observation, n * action, n * observation, n, n, n
        for name, array, size in zip(BATCH, batch, expected, strict=True):
            if array is not None and array.size != size:
                raise ValueError(
                    f"The replay buffer gives {name} of shape {array.shape}; for these networks they must have {size // n} "
                    f"numbers for each of {n} transitions. Is it the buffer of another environment?"
                )

    def update(self, batch: Sequence[np.ndarray | None], moves_targets: bool) -> dict[str, float]:
        """
        One step of each optimizer, after ``prepare`` has said yes.

        :param batch: B transitions, as from ``sample``
        :param moves_targets: Whether the target critics follow
        :return: The losses, as SB3 names them
        """
        actions = batch[1]
        assert actions is not None
        self._check(batch)
        # In SB3's order, so that the random numbers are the same.
        noise, next_noise = (th.randn(actions.shape, dtype=th.float32, device="cpu").numpy() for _ in range(2))
        addresses = [0 if array is None else array.ctypes.data for array in (*batch, noise, next_noise)]
        rates = [optimizer.param_groups[0]["lr"] for optimizer in self.optimizers]
        done = extension.sac_update(
            self.plan, (len(actions), *addresses), self.agent.gamma, moves_targets, (rates[0], rates[1], rates[-1])
        )
        if done is None or not all(map(math.isfinite, done)):
            raise ValueError(NOT_FINITE)
        ent_coef, ent_coef_loss, actor_loss, critic_loss = done
        losses = {"ent_coef": ent_coef, "actor_loss": actor_loss, "critic_loss": critic_loss}
        return {**losses, "ent_coef_loss": ent_coef_loss} if len(rates) == 3 else losses

    def act(self, obs: Any) -> np.ndarray | None:
        """
        :param obs: Shape (n_envs, ...)
        :return: Actions drawn for exploration, between -1 and 1, shape (n_envs, ...); None where SB3 has to draw them
        """
        agent = self.agent
        if agent.policy is not self.policy or not isinstance(obs, np.ndarray) or not self.is_ready():
            return None
        is_own = type(agent).predict is not WithNativeCode.predict or "predict" in vars(agent)
        if is_own or not acts_as_sb3(self.policy):
            return None
        if obs.shape[1:] != agent.observation_space.shape:
            return None
        flat = _rows(obs.reshape(len(obs), -1))
        noise = th.randn(len(obs), *agent.action_space.shape, dtype=th.float32, device="cpu").numpy()
        actions = np.empty_like(noise)
        is_done = extension.sac_act(self.plan, len(obs), flat.ctypes.data, noise.ctypes.data, actions.ctypes.data)
        return actions if is_done and np.isfinite(actions).all() else None


def _rows(array: np.ndarray) -> np.ndarray:
    """As the kernel reads it."""
    return np.ascontiguousarray(array, dtype=np.float32)


class SAC(WithNativeCode, stable_baselines3.SAC):
    """
    SB3's SAC in a fraction of the time: the same arguments, policies and random numbers, and the same results but for
    rounding.

    With small networks most of an update's time goes into calling torch. Here the whole of it, SAC's losses, their
    gradients through the networks and Adam's steps, is one call of native code, for SPAN and for MLPs with ReLU or
    tanh that read vectors. Everything else (images, Dict observations, gSDE, other activations and optimizers, a GPU,
    hooks) is trained by SB3's own update.
    """

    native_class = NativeSAC

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        native = self._prepare_native()
        if native is None:
            super().train(gradient_steps, batch_size)
            return
        self._update_learning_rate(native.optimizers)
        losses: list[dict[str, float]] = []
        for gradient_step in range(gradient_steps):
            batch = native.sample(batch_size)
            losses.append(native.update(batch, moves_targets=gradient_step % self.target_update_interval == 0))
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name in losses[0] if losses else ():
            self.logger.record(f"train/{name}", sum(loss[name] for loss in losses) / len(losses))

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.num_timesteps >= learning_starts and action_noise is None and isinstance(self._native, NativeSAC):
            action = self._native.act(self._last_obs)
            if action is not None:
                # As SB3 does it: brought to the environment's range, and back for the replay buffer.
                buffer_action = self.policy.scale_action(self.policy.unscale_action(action))
                return self.policy.unscale_action(buffer_action), buffer_action
        return super()._sample_action(learning_starts, action_noise, n_envs)
