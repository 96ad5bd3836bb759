"""Watching an agent, and the agents that come with the repository."""

import os
import re
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from PIL import Image, ImageSequence
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from sb3_span.cli import main
from sb3_span.inspection import returns, save_gif
from sb3_span.inspection.environments import make_env
from sb3_span.inspection.plotting import _drawn, _visited
from sb3_span.inspection.watching import play, watch
from sb3_span.policies.budget import count_parameters
from sb3_span.saved import env_of, find_vecnormalize, load_agent
from sb3_span.shipped import AGENTS


@pytest.fixture
def model(tmp_path):
    model = PPO("SPANPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu").learn(64)
    model.save(tmp_path / "model.zip")
    return model


def test_gif_and_return(model, tmp_path, capsys):
    gif = tmp_path / "agent.gif"
    main(["watch", str(tmp_path / "model.zip"), "--env", "CartPole-v1", "--gif", str(gif), "--episodes", "3"])
    frames, score = capsys.readouterr().out.splitlines()
    scores = returns(model, "CartPole-v1", 3)
    assert (
        score
        == f"CartPole-v1: return {np.mean(scores):.1f} ± {np.std(scores):.1f} over 3 episodes, observations not normalised"
    )
    n_frames = int(re.fullmatch(f"(\\d+) frames written to {re.escape(str(gif))}", frames)[1])
    with Image.open(gif) as image:
        assert image.width == 320
        # Frames in a row that look the same are one that is shown for longer.
        milliseconds = [frame.info["duration"] for frame in ImageSequence.Iterator(image)]
    assert len(milliseconds) > 1 and sum(milliseconds) == 40 * n_frames


def test_without_a_screen(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    main(["watch", str(tmp_path / "model.zip"), "--env", "CartPole-v1", "--episodes", "1"])
    assert capsys.readouterr().out.startswith("There is no screen here; --gif FILE draws without one.\nCartPole-v1: return")


@pytest.mark.parametrize("given", [None, "osmesa"])
def test_mujoco_without_a_screen(model, tmp_path, monkeypatch, given):
    """It draws with EGL, unless a user wants something else."""
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")  # restored afterwards
        monkeypatch.delenv(name)
    if given is not None:
        monkeypatch.setenv("MUJOCO_GL", given)
    save_gif(model, "CartPole-v1", tmp_path / "agent.gif")
    assert os.environ["MUJOCO_GL"] == (given or "egl")


def test_window(model, tmp_path, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shown = []
    monkeypatch.setattr("pygame.display.flip", lambda: shown.append(1))
    monkeypatch.setattr("pygame.time.Clock", lambda: type("Clock", (), {"tick": lambda self, fps: None})())
    main(["watch", str(tmp_path / "model.zip"), "--env", "CartPole-v1", "--episodes", "1"])
    assert len(shown) > 5


class Plant(gym.Env):
    """An environment without ``render_mode``, as many people's."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 3.0, True, False, {}


class Shown(Plant):
    metadata: ClassVar[dict] = {"render_modes": ["human"], "render_fps": 30}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode


@pytest.fixture
def undrawn(monkeypatch):
    for cls in (Plant, Shown):
        monkeypatch.setitem(gym.registry, f"{cls.__name__}-v0", EnvSpec(f"{cls.__name__}-v0", entry_point=cls))


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_what_does_not_draw_itself(model, tmp_path, capsys, monkeypatch, undrawn):
    monkeypatch.setenv("DISPLAY", ":0")
    agent = str(tmp_path / "model.zip")
    watch(agent, "Plant-v0", episodes=2)
    assert capsys.readouterr().out.splitlines() == [
        "Plant-v0 does not draw itself: it has no argument render_mode.",
        "Plant-v0: return 3.0 ± 0.0 over 2 episodes, observations not normalised",
    ]
    with pytest.raises(ValueError, match="Plant-v0 does not draw itself"):
        watch(agent, "Plant-v0", tmp_path / "plant.gif")
    with pytest.raises(ValueError, match=r"Shown-v0 does not draw itself as rgb_array: its render modes are \['human'\]"):
        watch(agent, "Shown-v0", tmp_path / "shown.gif")
    assert not list(tmp_path.glob("*.gif"))


def test_a_driver_that_cannot_be_loaded(model, tmp_path, monkeypatch):
    """As with MUJOCO_GL=osmesa where there is no OSMesa."""

    def make(*args, **kwargs):
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    monkeypatch.setattr("gymnasium.make", make)
    with pytest.raises(SystemExit, match=r"Hopper-v5 cannot be drawn here: AttributeError: .*glGetError.*MUJOCO_GL=osmesa"):
        main(["watch", str(tmp_path / "model.zip"), "--env", "Hopper-v5", "--gif", str(tmp_path / "agent.gif")])


def test_normalised_observations(tmp_path, capsys, monkeypatch):
    """An agent that was trained on normalised observations gets them here too, from the file in its run's folder."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    env = VecNormalize(make_vec_env("CartPole-v1", seed=0))
    model = PPO("SPANPolicy", env, n_steps=256, seed=0, device="cpu").learn(256)
    env.obs_rms.mean += 0.5  # which no observation of the environment is anywhere near
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"env": "CartPole-v1"}')
    model.save(run / "model.zip")
    env.save(run / "vecnormalize.pkl")
    main(["watch", str(run), "--episodes", "5"])
    env.training = env.norm_reward = False
    env.seed(2000)
    expected, _ = evaluate_policy(model, env, n_eval_episodes=5, return_episode_rewards=True)
    assert f"CartPole-v1: return {np.mean(expected):.1f} ± {np.std(expected):.1f} over 5" in capsys.readouterr().out
    assert returns(model, "CartPole-v1", 5) != expected
    played = [len(list(play(model, make_env("CartPole-v1"), vecnormalize=file))) for file in (run / "vecnormalize.pkl", None)]
    assert played[0] == expected[0] != played[1]
    with pytest.raises(SystemExit, match=r"There is no .*gone.pkl"):
        main(["watch", str(run), "--vecnormalize", str(tmp_path / "gone.pkl")])
    with pytest.raises(SystemExit, match=r"The agent observes .*and Acrobot-v1 gives"):
        main(["watch", str(run), "--env", "Acrobot-v1"])
    # A picture has the states as the network gets them.
    main(["plot", str(run), "--output", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert abs(_visited(model, "CartPole-v1", run / "vecnormalize.pkl").mean()) > abs(
        _visited(model, "CartPole-v1", None).mean()
    )
    seen = _drawn(model, run / "vecnormalize.pkl")
    np.testing.assert_allclose(seen, env.normalize_obs(_drawn(model, None)))


def test_errors(model, tmp_path):
    with pytest.raises(SystemExit, match=r"The agent observes .*and Acrobot-v1 gives .*Name the environment"):
        main(["watch", str(tmp_path / "model.zip"), "--env", "Acrobot-v1", "--gif", str(tmp_path / "agent.gif")])
    with pytest.raises(SystemExit, match=r"The agent's actions are .*and InvertedPendulum-v5 has .*Name the environment"):
        main(["watch", str(tmp_path / "model.zip"), "--env", "InvertedPendulum-v5"])
    with pytest.raises(SystemExit, match=r"--gif is .*agent.mp4; only GIFs are drawn. Try .*agent.gif"):
        main(["watch", str(tmp_path / "model.zip"), "--env", "CartPole-v1", "--gif", str(tmp_path / "agent.mp4")])
    with pytest.raises(SystemExit, match="There is no environment 'nowhere:Foo-v0': No module named 'nowhere'"):
        main(["watch", str(tmp_path / "model.zip"), "--env", "nowhere:Foo-v0"])
    with pytest.raises(SystemExit, match=r"watch: The environment of .*model.zip is not known.*--env MODULE:ID"):
        main(["watch", str(tmp_path / "model.zip")])
    with pytest.raises(SystemExit, match="--episodes is 0; it must be at least 1"):
        main(["watch", str(tmp_path / "model.zip"), "--episodes", "0"])
    with pytest.raises(SystemExit, match="sb3-span watch: 'pong' is neither a file nor the name of an agent"):
        main(["watch", "pong"])


# What a good agent gets, in a few episodes.
GOOD = {
    "Acrobot-v1": -100,
    "CartPole-v1": 500,
    "HalfCheetah-v5": 3900,
    "Hopper-v5": 2500,
    "InvertedPendulum-v5": 1000,
    "LunarLander-v3": 200,
    "Walker2d-v5": 2500,
}


@pytest.mark.parametrize("env_id", GOOD)
def test_agents_of_the_repository(env_id):
    path = AGENTS / f"{env_id}.safetensors"
    assert path.stat().st_size < 60_000
    assert env_of(path) == env_id
    model = load_agent(path)
    vecnormalize = find_vecnormalize(path)
    assert np.mean(returns(model, env_id, 5, vecnormalize)) >= GOOD[env_id]
    rows = re.findall(rf"^\| {path.name} \|.*", (path.parent / "README.md").read_text(), flags=re.MULTILINE)
    assert len(rows) == 1 and f"| {count_parameters(model.policy):,} |" in rows[0]
    assert not re.search(rb"/(home|root|tmp|work|Users)/", path.read_bytes())
