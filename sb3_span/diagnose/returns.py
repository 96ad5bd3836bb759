"""What the critic expects, and the returns that follow."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_span.inspection.slices import q_values

# Where a time limit cuts an episode, only states count for which the unseen rest weighs no more than this: the discount to the
# power of the steps that were left. In episodes too short for that the first tenth counts.
TAIL = 0.05
FIRST = 0.1


def estimates(policy: Any, observations: Any, actions: th.Tensor) -> th.Tensor:
    """
    :param policy: A policy with a critic
    :param observations: As its networks expect them, B of them
    :param actions: As the replay buffer has them, B of them; a critic of states alone ignores them
    :return: What the critic expects, shape (B,)
    """
    if hasattr(policy, "predict_values"):
        return policy.predict_values(observations)[:, 0]
    return q_values(policy, observations, actions)


def ent_coef_of(model: Any) -> float | None:
    """SAC's and TQC's present entropy coefficient; None for other algorithms."""
    if getattr(model, "log_ent_coef", None) is not None:
        return float(model.log_ent_coef.detach().exp())
    tensor = getattr(model, "ent_coef_tensor", None)
    return None if tensor is None else float(tensor)


@dataclass
class Episode:
    """
    One episode, step by step.

    :param values: What the critic expected
    :param rewards: As in training, perhaps normalised
    :param bonuses: The entropy bonus for the action of each step
    :param score: The sum of the environment's own rewards
    :param is_cut: Whether a time limit ended it
    """

    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    bonuses: list[float] = field(default_factory=list)
    score: float = 0.0
    is_cut: bool = False

    def returns(self, gamma: float) -> np.ndarray:
        """
        The discounted return from each step on. As SAC counts it, the bonus for an action is not in its own Q-value, but in
        those of the steps before.

        :return: Shape (T,)
        """
        found, coming = np.zeros(len(self.rewards)), 0.0
        for step in reversed(range(len(self.rewards))):
            found[step] = self.rewards[step] + gamma * coming
            coming = self.bonuses[step] + found[step]
        return found

    def counted(self, gamma: float) -> int:
        """How many steps count, from the first on: those whose return is known but for a small rest."""
        length = len(self.rewards)
        if not self.is_cut:
            return length
        left = np.arange(length, 0, -1)
        return max(int((gamma**left <= TAIL).sum()), int(np.ceil(FIRST * length)))


@dataclass(frozen=True)
class Comparison:
    """
    What the critic expected at each step of some episodes, and the returns that followed.

    :param values: Shape (n,)
    :param returns: Discounted, with the entropy bonus where the algorithm has one; shape (n,)
    :param tail: The largest weight, among these steps, of the rewards behind a time limit
    :param score: Mean over the episodes of the environment's own undiscounted return
    """

    values: np.ndarray
    returns: np.ndarray
    tail: float
    score: float


def compare(model: Any, env: VecEnv, n_episodes: int, seed: int, normalizer: VecNormalize | None) -> Comparison:
    """
    Play whole episodes with the policy whose value the critic learns: that of SAC, TQC and PPO explores, that of TD3, DDPG and
    DQN chooses the best action.

    :param model: A copy of the agent
    :param env: An environment for the diagnosis alone, not normalised
    :param n_episodes: How many episodes, at least
    :param seed: Seed of the environments: the same first states each time
    :param normalizer: The VecNormalize of training, if there is one; it is only read
    """
    # A buffer can treat a time limit as an end like any other; then nothing is missing after it.
    cuts = getattr(getattr(model, "replay_buffer", None), "handle_timeout_termination", True)
    env.seed(seed)
    episodes: list[Episode] = []
    while len(episodes) < n_episodes:
        episodes += _play(model, env, normalizer, cuts)
    gamma = model.gamma
    counts = [episode.counted(gamma) for episode in episodes]
    pairs = list(zip(episodes, counts, strict=True))
    return Comparison(
        values=np.concatenate([episode.values[:count] for episode, count in pairs]),
        returns=np.concatenate([episode.returns(gamma)[:count] for episode, count in pairs]),
        tail=max(gamma ** (len(episode.rewards) - count + 1) if episode.is_cut else 0.0 for episode, count in pairs),
        score=float(np.mean([episode.score for episode in episodes])),
    )


@th.no_grad()
def _play(model: Any, env: VecEnv, normalizer: VecNormalize | None, cuts: bool) -> list[Episode]:
    """One episode in each environment, so that short ones do not weigh more."""
    policy, ent_coef = model.policy, ent_coef_of(model) or 0.0
    policy.set_training_mode(False)
    if getattr(model, "use_sde", False):
        policy.reset_noise(env.num_envs)
    episodes = [Episode() for _ in range(env.num_envs)]
    is_running = [True] * env.num_envs
    observations: Any = env.reset()
    while any(is_running):
        seen = observations if normalizer is None else normalizer.normalize_obs(observations)
        tensor = policy.obs_to_tensor(seen)[0]
        actions, log_prob = _choose(policy, tensor)
        values = estimates(policy, tensor, actions).tolist()
        observations, rewards, dones, infos = env.step(_for_env(policy, actions.cpu().numpy()))
        normalised = rewards if normalizer is None else normalizer.normalize_reward(rewards)
        for i, episode in enumerate(episodes):
            if is_running[i]:
                episode.values.append(values[i])
                episode.rewards.append(float(normalised[i]))
                episode.bonuses.append(0.0 if log_prob is None else -ent_coef * float(log_prob[i]))
                episode.score += float(rewards[i])
                episode.is_cut = cuts and bool(infos[i].get("TimeLimit.truncated", False))
                is_running[i] = not dones[i]
    return episodes


def random_scores(env: VecEnv, seed: int) -> np.ndarray:
    """
    What an agent has to exceed to have learned anything.

    :param env: As for :func:`compare`
    :param seed: Seed of the actions and of the environments
    :return: The undiscounted return of a policy that acts at random, of one episode in each environment
    """
    env.seed(seed)
    env.action_space.seed(seed)
    env.reset()
    scores, is_running = np.zeros(env.num_envs), np.ones(env.num_envs, dtype=bool)
    while is_running.any():
        _, rewards, dones, _ = env.step(np.stack([env.action_space.sample() for _ in range(env.num_envs)]))
        scores += np.where(is_running, rewards, 0.0)
        is_running &= ~dones
    return scores


def _choose(policy: Any, observations: Any) -> tuple[th.Tensor, th.Tensor | None]:
    """
    :return: Actions as the replay buffer has them, and the logarithms of their probabilities where they count in the return
    """
    if hasattr(policy, "actor") and hasattr(policy.actor, "action_log_prob"):
        return policy.actor.action_log_prob(observations)
    return policy._predict(observations, deterministic=not hasattr(policy, "predict_values")), None


def _for_env(policy: Any, actions: np.ndarray) -> np.ndarray:
    """Actions as the environment expects them, shape (n_envs, ...), as ``predict`` makes them."""
    space = policy.action_space
    actions = actions.reshape(-1, *space.shape)
    if not isinstance(space, spaces.Box):
        return actions
    return policy.unscale_action(actions) if policy.squash_output else np.clip(actions, space.low, space.high)
