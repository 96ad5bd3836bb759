"""SB3's PPO with updates in C, and little Python around them."""

import math
from typing import Any

import numpy as np
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_span.algorithms.algorithm import WithNativeCode
from sb3_span.algorithms.ppo_plan import PPOPlan, build_plan
from sb3_span.algorithms.stepping import step
from sb3_span.nn.checks import Unsupported


class PPO(WithNativeCode, stable_baselines3.PPO):
    """
    SB3's PPO in a fraction of the time: the same arguments, policies and random numbers, and the same results but for
    rounding.

    With small networks most of an update's time goes into calling torch. Here a pass over the rollout, PPO's losses,
    their gradients through the networks and Adam's steps for all of its batches, is one call of native code, for SPAN
    and for MLPs with ReLU or tanh that read vectors and act in Discrete or Box spaces. Everything else (images, Dict
    observations, gSDE, other activations and optimizers, a GPU, hooks) is trained by SB3's own update;
    ``native_status()`` says which it is, and why.
    """

    build_plan = staticmethod(build_plan)

    def train(self) -> None:
        plan = self._ready_plan()
        try:
            rollout = None if plan is None else plan.rollout(self.rollout_buffer)
        except Unsupported as reason:
            self._give_up(reason)
            rollout = None
        if plan is None or rollout is None:
            self._is_certain = False
            super().train()
            return
        self._update_learning_rate(self.policy.optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        is_clipped = self.clip_range_vf is not None
        clip_range_vf = self.clip_range_vf(self._current_progress_remaining) if is_clipped else math.nan  # type: ignore[operator,misc]
        epochs = []
        for epoch in range(self.n_epochs):
            epochs.append(plan.epoch(self, rollout, clip_range, clip_range_vf))
            self._n_updates += 1
            if epochs[-1].is_stopped:
                if self.verbose >= 1:
                    print(f"Early stopping at step {epoch} due to reaching max kl: {epochs[-1].last_kl:.2f}")
                break
        batches, last, buffer = sum(one.batches for one in epochs), epochs[-1], self.rollout_buffer
        self.logger.record("train/entropy_loss", sum(one.entropy for one in epochs) / batches)
        self.logger.record("train/policy_gradient_loss", sum(one.policy for one in epochs) / batches)
        self.logger.record("train/value_loss", sum(one.value for one in epochs) / batches)
        self.logger.record("train/approx_kl", last.approx_kl / last.batches)
        self.logger.record("train/clip_fraction", sum(one.clip_fraction for one in epochs) / batches)
        self.logger.record("train/loss", last.loss)
        self.logger.record("train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten()))
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)
        if is_clipped:
            self.logger.record("train/clip_range_vf", clip_range_vf)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """SB3's, step by step and with the same names for callbacks, without what costs time and changes nothing here."""
        plan = self._ready_plan()
        if plan is None or type(rollout_buffer) is not RolloutBuffer:
            self._is_certain = False
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        assert self._last_obs is not None, "No previous observation was provided"
        if self.policy.training:
            self.policy.set_training_mode(False)
        n_steps = 0
        rollout_buffer.reset()
        callback.on_rollout_start()
        self._has_run(callback, "on_rollout_start")
        while n_steps < n_rollout_steps:
            plan = self._ready_plan()
            actions, values, log_probs = self._draw(plan)
            clipped_actions = actions
            if isinstance(self.action_space, spaces.Box):
                clipped_actions = np.clip(actions, self.action_space.low, self.action_space.high)
            new_obs, rewards, dones, infos = step(env, clipped_actions)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            goes_on = callback.on_step()
            self._has_run(callback, "on_step")
            if not goes_on:
                return False
            self._update_info_buffer(infos, dones)
            n_steps += 1
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            for idx in dones.nonzero()[0]:  # an episode that was cut off would have gone on
                terminal_obs = infos[idx].get("terminal_observation")
                if terminal_obs is not None and infos[idx].get("TimeLimit.truncated", False):
                    rewards[idx] += self.gamma * self._values(plan, np.asarray(terminal_obs)[None])[0, 0]
            _add(rollout_buffer, self._last_obs, actions, rewards, self._last_episode_starts, values, log_probs)
            self._last_obs = new_obs
            self._last_episode_starts = dones
        values = th.from_numpy(self._values(self._ready_plan(), new_obs))
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        self._has_run(callback, "on_rollout_end")
        return True

    def _draw(self, plan: PPOPlan | None) -> tuple[np.ndarray, th.Tensor, th.Tensor]:
        """
        :return: Actions, values and log-probabilities for the last observations
        """
        drawn = None if plan is None else plan.act(self._last_obs)
        if drawn is not None:
            return drawn
        with th.no_grad():
            actions, values, log_probs = self.policy(obs_as_tensor(self._last_obs, self.device))  # type: ignore[arg-type]
        return actions.cpu().numpy(), values, log_probs

    def _values(self, plan: PPOPlan | None, obs: Any) -> np.ndarray:
        """
        :return: Shape (B, 1)
        """
        values = None if plan is None else plan.values(obs)
        if values is None:
            with th.no_grad():
                values = self.policy.predict_values(self.policy.obs_to_tensor(obs)[0]).cpu().numpy()
        return values


def _add(buffer: RolloutBuffer, obs: Any, actions: Any, rewards: Any, starts: Any, values: Any, log_probs: Any) -> None:
    """``buffer.add``, with one copy of each array instead of two."""
    pos = buffer.pos
    buffer.observations[pos] = obs
    buffer.actions[pos] = actions.reshape(buffer.n_envs, buffer.action_dim)
    buffer.rewards[pos], buffer.episode_starts[pos] = rewards, starts
    buffer.values[pos], buffer.log_probs[pos] = values.numpy().reshape(-1), log_probs.numpy()
    buffer.pos += 1
    if buffer.pos == buffer.buffer_size:
        buffer.full = True
