"""SB3's SAC with updates in C, and little Python around them."""

from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import should_collect_more_steps
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_span.algorithms.algorithm import WithNativeCode
from sb3_span.algorithms.sac_plan import build_plan
from sb3_span.algorithms.stepping import step

LOSSES = ("ent_coef", "ent_coef_loss", "actor_loss", "critic_loss")


class SAC(WithNativeCode, stable_baselines3.SAC):
    """
    SB3's SAC in a fraction of the time: the same arguments, policies and random numbers, and the same results but for
    rounding.

    With small networks most of an update's time goes into calling torch. Here the whole of it, SAC's losses, their
    gradients through the networks and Adam's steps, is one call of native code, for SPAN and for MLPs with ReLU or
    tanh that read vectors. Everything else (images, Dict observations, gSDE, other activations and optimizers, a GPU,
    hooks) is trained by SB3's own update; ``native_status()`` says which it is, and why.
    """

    build_plan = staticmethod(build_plan)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        plan = self._ready_plan()
        if plan is None:
            self._is_certain = False
            super().train(gradient_steps, batch_size)
            return
        self._update_learning_rate(plan.optimizers)
        losses = [plan.update(self, batch_size, i % self.target_update_interval == 0) for i in range(gradient_steps)]
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in zip(LOSSES, zip(*losses, strict=True), strict=False):
            if name != "ent_coef_loss" or self.ent_coef_optimizer is not None:
                self.logger.record(f"train/{name}", sum(values) / len(values))

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: ReplayBuffer,
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """SB3's, step by step and with the same names for callbacks, without what costs time and changes nothing here."""
        self._collecting = None if self._why_not_act() else self._ready_plan()
        if self._collecting is None:
            self._is_certain = False
            return super().collect_rollouts(
                env, callback, train_freq, replay_buffer, action_noise, learning_starts, log_interval
            )
        assert isinstance(env, VecEnv), "You must pass a VecEnv"
        assert train_freq.frequency > 0, "Should at least collect one step or episode."
        if env.num_envs > 1:
            assert train_freq.unit == TrainFrequencyUnit.STEP, "You must use only one env when doing episodic training."
        if self.policy.training:
            self.policy.set_training_mode(False)
        num_collected_steps, num_collected_episodes = 0, 0
        callback.on_rollout_start()
        self._has_run(callback, "on_rollout_start")
        continue_training = True
        while should_collect_more_steps(train_freq, num_collected_steps, num_collected_episodes):
            self._collecting = self._ready_plan()
            actions, buffer_actions = self._sample_action(learning_starts, action_noise, env.num_envs)
            new_obs, rewards, dones, infos = step(env, actions)
            self.num_timesteps += env.num_envs
            num_collected_steps += 1
            callback.update_locals(locals())
            goes_on = callback.on_step()
            self._has_run(callback, "on_step")
            if not goes_on:
                return RolloutReturn(num_collected_steps * env.num_envs, num_collected_episodes, continue_training=False)
            self._update_info_buffer(infos, dones)
            self._store_transition(replay_buffer, buffer_actions, new_obs, rewards, dones, infos)
            self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
            self._on_step()
            for idx in dones.nonzero()[0]:
                num_collected_episodes += 1
                self._episode_num += 1
                if action_noise is not None:
                    kwargs = dict(indices=[idx]) if env.num_envs > 1 else {}
                    action_noise.reset(**kwargs)
                if log_interval is not None and self._episode_num % log_interval == 0:
                    self.dump_logs()
        self._collecting = None
        callback.on_rollout_end()
        self._has_run(callback, "on_rollout_end")
        return RolloutReturn(num_collected_steps * env.num_envs, num_collected_episodes, continue_training)

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        plan = self._collecting
        if self.num_timesteps >= learning_starts and action_noise is None and plan is not None:
            action = plan.act(self._last_obs)
            if action is not None:
                action = action.reshape(len(action), *self.action_space.shape)  # type: ignore[misc]
                return self.policy.unscale_action(action), action
        return super()._sample_action(learning_starts, action_noise, n_envs)

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: np.ndarray,
        new_obs: Any,
        reward: np.ndarray,
        dones: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """SB3's, with one copy of each array instead of three."""
        buffer, env = replay_buffer, self._vec_normalize_env
        is_plain = type(buffer) is ReplayBuffer and not buffer.optimize_memory_usage
        has_known_obs = type(new_obs) is np.ndarray and new_obs.shape == replay_buffer.observations.shape[1:]
        if not is_plain or not has_known_obs or type(env) not in (type(None), VecNormalize):
            super()._store_transition(buffer, buffer_action, new_obs, reward, dones, infos)
            return
        if env is None:
            self._last_original_obs, next_obs = self._last_obs, new_obs
        else:
            next_obs, reward = env.get_original_obs(), env.get_original_reward()
        after = buffer.next_observations[buffer.pos]
        after[:] = next_obs
        for i in dones.nonzero()[0]:  # the environment has started over
            if infos[i].get("terminal_observation") is not None:
                after[i] = infos[i]["terminal_observation"]
                if env is not None:
                    after[i] = env.unnormalize_obs(after[i])
        buffer.observations[buffer.pos] = self._last_original_obs
        buffer.actions[buffer.pos] = buffer_action.reshape(buffer.n_envs, buffer.action_dim)
        buffer.rewards[buffer.pos], buffer.dones[buffer.pos] = reward, dones
        if buffer.handle_timeout_termination:
            buffer.timeouts[buffer.pos] = [info.get("TimeLimit.truncated", False) for info in infos]
        buffer.pos += 1
        if buffer.pos == buffer.buffer_size:
            buffer.full, buffer.pos = True, 0
        self._last_obs = new_obs
        if env is not None:
            self._last_original_obs = next_obs
