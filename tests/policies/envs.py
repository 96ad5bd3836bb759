"""Environments that have any wanted spaces."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

OBSERVATIONS = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "float64": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float32),
    "image": spaces.Box(0, 255, (36, 40, 3), np.uint8),
    "small image": spaces.Box(0, 255, (8, 8, 1), np.uint8),
    "dict": spaces.Dict(position=spaces.Box(-1, 1, (3,)), camera=spaces.Box(0, 255, (36, 36, 1), np.uint8)),
    "discrete": spaces.Discrete(5),
    "multidiscrete": spaces.MultiDiscrete([3, 4]),
    "multibinary": spaces.MultiBinary(4),
}
ACTIONS = {
    "box": spaces.Box(-2, 1, (2,), np.float32),
    "discrete": spaces.Discrete(3),
    "multidiscrete": spaces.MultiDiscrete([2, 3]),
    "multibinary": spaces.MultiBinary(3),
}


class RandomEnv(gym.Env):
    """Random observations from the space, and a reward that depends on the action."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(np.mean(action)), bool(self.np_random.random() < 0.1), False, {}

    def action_masks(self) -> np.ndarray:
        """For MaskablePPO: one of the choices, another in every step, is not allowed."""
        space = self.action_space
        if isinstance(space, spaces.MultiBinary):
            choices = [2] * space.n
        else:
            choices = [space.n] if isinstance(space, spaces.Discrete) else list(space.nvec)
        mask = np.ones(sum(choices), dtype=bool)
        mask[self.np_random.integers(len(mask))] = False
        return mask


class TrackEnv(gym.Env):
    """The action should be what is observed; the return of an episode of 10 steps is 0 at best."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        reward = -float(np.square(action - self.wanted).sum())
        return self._observe(), reward, False, self.steps == 10, {}

    def _observe(self) -> np.ndarray:
        self.wanted = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.wanted


class RecallEnv(gym.Env):
    """What is shown at first has to be repeated two steps later, when it is shown no more: it takes a memory."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.cue = 0, int(self.np_random.integers(2))
        return np.array([2 * self.cue - 1], np.float32), {}

    def step(self, action):
        self.steps += 1
        is_over = self.steps == 3
        return np.zeros(1, np.float32), float(is_over and action == self.cue), is_over, False, {}


def make(observations: str, actions: str = "box") -> RandomEnv:
    return RandomEnv(OBSERVATIONS[observations], ACTIONS[actions])
