"""Data sets of Minari made by hand."""

import warnings

import gymnasium as gym
import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

# An episode's length, and whether it ended, was cut off, or neither: the recording just stopped.
EPISODES = ((3, "ended"), (1, "cut off"), (5, "cut off"), (1, "ended"), (4, "stopped"), (2, "ended"), (6, "both"))


def observation_of(episode, step):
    return np.array([episode, step, episode * step], dtype=np.float32)


def action_of(observations):
    """What was done there, a function of the observation."""
    return np.stack([observations[:, 0] + 10 * observations[:, 1], -observations[:, 2]], axis=1)


def reward_of(observations):
    return 100 * observations[:, 0] + observations[:, 1] + 0.5


def write_known(dataset_id):
    """A data set whose actions, rewards and ends are functions of the observations."""
    buffers = []
    for episode, (length, ending) in enumerate(EPISODES):
        observations = np.stack([observation_of(episode, step) for step in range(length + 1)])
        last = np.arange(length) == length - 1
        buffers.append(
            EpisodeBuffer(
                id=episode,
                observations=observations,
                actions=action_of(observations[:-1]),
                rewards=reward_of(observations[:-1]),
                terminations=last & (ending in ("ended", "both")),
                truncations=last & (ending in ("cut off", "both")),
            )
        )
    return write(dataset_id, buffers, observation_dim=3, action_dim=2)


def write_random(dataset_id, env="Pendulum-v1", n_episodes=4, seed=0):
    """
    Random episodes of a real environment.

    :param env: Its id, or the environment
    """
    env = gym.make(env) if isinstance(env, str) else env
    env.action_space.seed(seed)
    buffers = []
    for episode in range(n_episodes):
        observations, actions, rewards, ended, cut = [env.reset(seed=seed + episode)[0]], [], [], [], []
        while not ended or not (ended[-1] or cut[-1]):
            actions.append(env.action_space.sample())
            observation, reward, terminated, truncated, _ = env.step(actions[-1])
            observations.append(observation)
            rewards.append(float(reward))
            ended.append(terminated)
            cut.append(truncated)
        buffers.append(
            EpisodeBuffer(
                id=episode,
                observations=np.stack(observations),
                actions=np.stack(actions),
                rewards=np.array(rewards),
                terminations=np.array(ended),
                truncations=np.array(cut),
            )
        )
    env.close()
    return create(dataset_id, buffers, env=env.spec)


def write(dataset_id, buffers, observation_dim, action_dim, env="Pendulum-v1"):
    observation_space = spaces.Box(-np.inf, np.inf, (observation_dim,))
    action_space = spaces.Box(-np.inf, np.inf, (action_dim,))
    return create(dataset_id, buffers, env=env, observation_space=observation_space, action_space=action_space)


def create(dataset_id, buffers, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari advises to say who made it, and more
        return minari.create_dataset_from_buffers(dataset_id, buffers, **options)
