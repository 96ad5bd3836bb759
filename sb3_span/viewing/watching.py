"""An agent at work: in a window, as a GIF, and its return."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_span.viewing.agents import env_id_of, find_agent, load_agent
from sb3_span.viewing.environments import make_env

SEED = 2000  # no agent was trained with it
GIF_WIDTH = 320
GIF_FPS = 25


def play(model: BaseAlgorithm, env: gym.Env, seed: int = SEED) -> Iterator[np.ndarray]:
    """
    One deterministic episode.

    :param model: The agent
    :param env: The environment
    :param seed: Seed of the episode
    :return: The observations, each as soon as the environment gives it
    """
    observation, _ = env.reset(seed=seed)
    state, start = None, np.ones(1, dtype=bool)
    done = False
    while not done:
        yield observation
        action, state = model.predict(observation, state=state, episode_start=start, deterministic=True)
        observation, _, terminated, truncated, _ = env.step(action)
        done, start = terminated or truncated, np.zeros(1, dtype=bool)


def returns(model: BaseAlgorithm, env_id: str, episodes: int = 20) -> list[float]:
    """
    :param model: The agent
    :param env_id: The environment
    :param episodes: How many to play, deterministically and with the same seeds each time
    :return: The return of each episode
    """
    env = make_vec_env(lambda: make_env(env_id), seed=SEED)
    rewards, _ = evaluate_policy(model, env, n_eval_episodes=episodes, deterministic=True, return_episode_rewards=True)
    env.close()
    assert isinstance(rewards, list)
    return rewards


def show(model: BaseAlgorithm, env_id: str) -> None:
    """An episode in a window, at the environment's own pace."""
    env = make_env(env_id, render_mode="human")
    for _ in play(model, env):
        pass  # the environment draws as it steps
    env.close()


def save_gif(model: BaseAlgorithm, env_id: str, path: Path) -> int:
    """
    An episode as an animated GIF, which needs no screen.

    :param model: The agent
    :param env_id: The environment
    :param path: Where the GIF goes
    :return: Number of frames
    """
    from PIL import Image

    env = make_env(env_id, render_mode="rgb_array")
    fps = env.metadata.get("render_fps") or GIF_FPS
    every = max(1, round(fps / GIF_FPS))
    frames = []
    try:
        for i, _ in enumerate(play(model, env)):
            if i % every == 0:
                frame = Image.fromarray(np.asarray(env.render()))
                frames.append(frame.resize((GIF_WIDTH, round(GIF_WIDTH * frame.height / frame.width))).quantize(64))
    except Exception as error:
        # Drivers of all kinds raise errors of all kinds.
        raise ValueError(
            f"{env_id} cannot be drawn here: {type(error).__name__}: {error}. MuJoCo needs OpenGL: without a screen, install "
            "EGL or OSMesa and set MUJOCO_GL=egl or MUJOCO_GL=osmesa."
        ) from error
    finally:
        env.close()
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=round(1000 * every / fps), loop=0, optimize=True)
    return len(frames)


def watch(name: str, env_id: str | None = None, gif: Path | None = None, episodes: int = 20) -> None:
    """
    Show an episode of an agent, and print its return over several.

    :param name: A model's file, or the short name of an agent in ``examples/agents``
    :param env_id: The environment; None where the file's name tells
    :param gif: A file for an animated GIF, instead of a window
    :param episodes: Episodes to play for the return
    """
    if episodes < 1:
        raise ValueError(f"--episodes is {episodes}; it must be at least 1. Try 20.")
    path = find_agent(name)
    env_id = env_id or env_id_of(path)
    if env_id is None:
        raise ValueError(f"The name of {path} does not tell the environment. Name it: --env CartPole-v1, for instance.")
    model = load_agent(path)
    if gif is not None:
        print(f"{save_gif(model, env_id, gif)} frames written to {gif}")
    elif _has_screen():
        show(model, env_id)
    else:
        print("There is no screen here; --gif FILE draws without one.")
    scores = returns(model, env_id, episodes)
    print(f"{env_id}: return {np.mean(scores):.1f} ± {np.std(scores):.1f} over {episodes} episodes")


def _has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
