"""An agent at work: in a window, as a GIF, and its return."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_span.atomic_files import written_whole
from sb3_span.inspection.environments import check_spaces, make_env, make_envs
from sb3_span.saved import env_name, env_needed, find_agent, find_vecnormalize, load_agent, load_statistics
from sb3_span.saved.normalization import describe

SEED = 2000  # no agent was trained with it
GIF_WIDTH = 320
GIF_FPS = 25


def play(model: BaseAlgorithm, env: gym.Env, seed: int = SEED, vecnormalize: Path | None = None) -> Iterator[np.ndarray]:
    """
    One deterministic episode.

    :param model: The agent
    :param env: The environment
    :param seed: Seed of the episode
    :param vecnormalize: VecNormalize's file, if the agent was trained with one
    :return: The observations, one by one
    """
    seen = load_statistics(vecnormalize).normalize_obs if vecnormalize is not None else lambda observation: observation
    observation, _ = env.reset(seed=seed)
    check_spaces(model, env, env.spec.id if env.spec else "the environment")
    state, start = None, np.ones(1, dtype=bool)
    done = False
    while not done:
        yield observation
        action, state = model.predict(seen(observation), state=state, episode_start=start, deterministic=True)
        observation, _, terminated, truncated, _ = env.step(action)
        done, start = terminated or truncated, np.zeros(1, dtype=bool)


class NoPictures(ValueError):
    """The environment does not draw itself."""


def returns(model: BaseAlgorithm, env_id: EnvSpec | str, episodes: int = 20, vecnormalize: Path | None = None) -> list[float]:
    """
    :param model: The agent
    :param env_id: The environment: its id, or a specification
    :param episodes: How many to play, deterministically and with the same seeds each time
    :param vecnormalize: VecNormalize's file, if the agent was trained with one
    :return: The return of each episode
    """
    env = make_envs(model, env_id, 1, SEED, vecnormalize)
    rewards, _ = evaluate_policy(model, env, n_eval_episodes=episodes, deterministic=True, return_episode_rewards=True)
    env.close()
    assert isinstance(rewards, list)
    return rewards


def show(model: BaseAlgorithm, env_id: EnvSpec | str, vecnormalize: Path | None = None) -> None:
    """An episode in a window, at the environment's frame rate. For the parameters see :func:`returns`."""
    env = _make_drawn(env_id, "human")
    for _ in play(model, env, vecnormalize=vecnormalize):
        pass  # the environment draws as it steps
    env.close()


def save_gif(model: BaseAlgorithm, env_id: EnvSpec | str, path: Path, vecnormalize: Path | None = None) -> int:
    """
    An episode as an animated GIF, which needs no screen.

    :param model: The agent
    :param env_id: The environment: its id, or a specification
    :param path: Where the GIF goes
    :param vecnormalize: VecNormalize's file, if the agent was trained with one
    :return: Number of frames
    """
    from PIL import Image

    if not _has_screen():
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's own choice, GLFW, draws on screens only
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # otherwise pygame reports the missing screen as an error
    env = _make_drawn(env_id, "rgb_array")
    fps = env.metadata.get("render_fps") or GIF_FPS
    every = max(1, round(fps / GIF_FPS))
    frames = []
    try:
        for i, _ in enumerate(play(model, env, vecnormalize=vecnormalize)):
            if i % every == 0:
                frame = Image.fromarray(_render(env, env_name(env_id)))
                frames.append(frame.resize((GIF_WIDTH, round(GIF_WIDTH * frame.height / frame.width))).quantize(64))
    finally:
        env.close()
    animation = dict(append_images=frames[1:], duration=round(1000 * every / fps), loop=0, optimize=True)
    with written_whole(path) as temporary:
        frames[0].save(temporary, "GIF", save_all=True, **animation)
    return len(frames)


def _make_drawn(env: EnvSpec | str, mode: str) -> gym.Env:
    try:
        made = make_env(env, render_mode=mode)
    except ValueError:
        raise
    except TypeError as error:
        if "render_mode" not in str(error):
            raise
        raise NoPictures(f"{env_name(env)} does not draw itself: it has no argument render_mode.") from error
    except Exception as error:
        raise _cannot_draw(env_name(env), error) from error
    if mode not in (modes := made.metadata.get("render_modes", [])):
        made.close()
        raise NoPictures(f"{env_name(env)} does not draw itself as {mode}: its render modes are {modes}.")
    return made


def _render(env: gym.Env, env_id: str) -> np.ndarray:
    try:
        return np.asarray(env.render())
    except Exception as error:
        raise _cannot_draw(env_id, error) from error


def _cannot_draw(env_id: str, error: Exception) -> ValueError:
    """Any driver may raise any error, when it is loaded or when it draws."""
    return ValueError(
        f"{env_id} cannot be drawn here: {type(error).__name__}: {error}. MuJoCo needs OpenGL: without a screen EGL (the "
        "default here; on Debian the package libegl1) or, with MUJOCO_GL=osmesa, OSMesa (libosmesa6)."
    )


def watch(
    name: str, env_id: str | None = None, gif: Path | None = None, episodes: int = 20, vecnormalize: Path | None = None
) -> None:
    """
    Show an episode of an agent, and print its return over several.

    :param name: A model's file, the folder of a run, or the short name of an agent that comes with the package
    :param env_id: The environment; None to find it by the folder or the file's name
    :param gif: A file for an animated GIF, instead of a window
    :param episodes: Episodes to play for the return
    :param vecnormalize: VecNormalize's file, or the word "none"; None uses the one next to the model
    """
    if episodes < 1:
        raise ValueError(f"--episodes is {episodes}; it must be at least 1. Try 20.")
    if gif is not None and gif.suffix.lower() != ".gif":
        raise ValueError(f"--gif is {gif}; only GIFs are drawn. Try {gif.with_suffix('.gif')}.")
    path = find_agent(name)
    env = env_needed(path, env_id)
    model, vecnormalize = load_agent(path), find_vecnormalize(path, vecnormalize)
    if gif is not None:
        print(f"{save_gif(model, env, gif, vecnormalize)} frames written to {gif}")
    elif _has_screen():
        try:
            show(model, env, vecnormalize)
        except NoPictures as error:
            print(error)
    else:
        print("There is no screen here; --gif FILE draws without one.")
    scores = returns(model, env, episodes, vecnormalize)
    several = f"{np.mean(scores):.1f} ± {np.std(scores):.1f} over {episodes} episodes"
    score = f"return {several if episodes > 1 else f'{scores[0]:.1f} in one episode'}"
    print(f"{env_name(env)}: {score}, {describe(path, vecnormalize)}")


def _has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
