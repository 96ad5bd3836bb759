"""A checkpoint brings everything back: parameters, optimizers, entropy coefficient, replay buffer, statistics."""

import json
import warnings
import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from rl_zoo3.utils import ALGOS
from stable_baselines3 import PPO, SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span  # noqa: F401
from sb3_span.study.checkpoint import ARRAYS, Checkpoints
from sb3_span.study.study_file import ALGORITHMS


class SaveAt(BaseCallback):
    """Saves at these steps, and ends the training with the last, before the agent learns from it."""

    def __init__(self, checkpoints, steps):
        super().__init__()
        self.checkpoints, self.steps = checkpoints, steps

    def _on_step(self):
        if self.num_timesteps in self.steps:
            self.checkpoints.save(self.model, reached=self.num_timesteps)
        return self.num_timesteps < max(self.steps)


def assert_equal(one, other):
    """Of nested state dictionaries."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_equal(left, right)
    elif isinstance(one, th.Tensor):
        assert th.equal(one, other)
    else:
        assert one == other


def load(checkpoints, model, **options):
    return model, checkpoints.load(model, **options)


def make_sac(env="Pendulum-v1", n_envs=1, **kwargs):
    options = {"learning_starts": 20, "batch_size": 16, "buffer_size": 1000, "seed": 0, "device": "cpu", **kwargs}
    return SAC("SPANPolicy", make_vec_env(env, n_envs=n_envs, seed=0), **options)


@pytest.mark.parametrize("buffer_size", [1000, 50, 25])
@pytest.mark.parametrize("n_envs", [1, 2])
def test_sac_comes_back_whole(tmp_path, buffer_size, n_envs):
    # 50 and 25 rows overflow before and between the checkpoints.
    checkpoints = Checkpoints(tmp_path)
    model = make_sac(n_envs=n_envs, buffer_size=buffer_size).learn(120, SaveAt(checkpoints, [30, 70, 120]))
    loaded, state = load(checkpoints, make_sac(n_envs=n_envs, buffer_size=buffer_size))
    # SB3 calls back before it stores the step, which is made again.
    assert state["reached"] == loaded.num_timesteps + n_envs == 120
    assert_equal(model.get_parameters(), loaded.get_parameters())
    assert th.equal(model.log_ent_coef, loaded.log_ent_coef)
    assert model.ent_coef_optimizer.state_dict()["state"]
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(model.replay_buffer, name), getattr(loaded.replay_buffer, name))
    assert (model.replay_buffer.pos, model.replay_buffer.full) == (loaded.replay_buffer.pos, loaded.replay_buffer.full)
    assert len(list(tmp_path.glob("checkpoint-*"))) == 1  # the last one only


def test_only_what_is_new_is_written(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    make_sac(buffer_size=60).learn(200, SaveAt(checkpoints, [50, 100, 150, 200]))
    chunks = {path.name: len(np.load(path)["rewards"]) for path in (tmp_path / "replay").iterdir()}
    # The first chunks have been overwritten in the buffer.
    assert chunks == {"000000000099.npz": 50, "000000000149.npz": 50}


class DictEnv(gym.Env):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, (3,))})
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.1), False, {}


def test_dict_observations(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    model = make_sac(DictEnv).learn(60, SaveAt(checkpoints, [40, 60]))
    loaded, _ = load(checkpoints, make_sac(DictEnv))
    for key, array in model.replay_buffer.observations.items():
        assert array.any()
        np.testing.assert_array_equal(array, loaded.replay_buffer.observations[key])


def test_other_replay_buffers_are_saved_whole(tmp_path):
    options = {"replay_buffer_kwargs": {"handle_timeout_termination": False}, "optimize_memory_usage": True}
    checkpoints = Checkpoints(tmp_path)
    model = make_sac(**options).learn(60, SaveAt(checkpoints, [60]))
    loaded, _ = load(checkpoints, make_sac(**options))
    np.testing.assert_array_equal(model.replay_buffer.observations, loaded.replay_buffer.observations)
    assert loaded.replay_buffer.pos == 59


class Foreign(DictEnv):
    """With objects in its infos, and a goal, for hindsight."""

    observation_space = spaces.Dict(
        {name: spaces.Box(-1, 1, (2,)) for name in ("observation", "achieved_goal", "desired_goal")}
    )

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)

    def step(self, action):
        return (*super().step(action)[:4], {"object": object})


@pytest.mark.parametrize("copy_info_dict", [False, True])
def test_hindsight(tmp_path, copy_info_dict):
    """Its buffer is arrays, and saved as such; only with objects of the environment in it a pickle, which needs trust."""
    options = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"copy_info_dict": copy_info_dict}}
    checkpoints = Checkpoints(tmp_path)
    model = make_sac(Foreign, learning_starts=200, **options).learn(150, SaveAt(checkpoints, [100, 150]))
    if copy_info_dict:
        with pytest.raises(ValueError, match=r"replay_buffer.pkl is a pickle.*continue with --trust"):
            load(checkpoints, make_sac(Foreign, **options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SB3's, that the last episode ends here
        loaded, _ = load(checkpoints, make_sac(Foreign, **options), trust=copy_info_dict)
    assert loaded.replay_buffer.pos == 149 and model.replay_buffer.ep_length.any()
    np.testing.assert_array_equal(
        model.replay_buffer.next_observations["achieved_goal"], loaded.replay_buffer.next_observations["achieved_goal"]
    )
    np.testing.assert_array_equal(model.replay_buffer.ep_start, loaded.replay_buffer.ep_start)
    assert loaded.replay_buffer.sample(8).rewards.shape == (8, 1)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_an_agent_counts_is_restored(tmp_path, name):
    """Every number of the agent that learning changes."""
    env = "Pendulum-v1" if name in ("sac", "td3", "ddpg", "tqc", "crossq") else "CartPole-v1"
    options = {"learning_starts": 20} if issubclass(ALGOS[name], OffPolicyAlgorithm) else {"n_steps": 32, "batch_size": 32}
    if name == "a2c":
        del options["batch_size"]

    def make():
        policy = "MlpLstmPolicy" if name == "ppo_lstm" else "MlpPolicy"
        return ALGOS[name](policy, make_vec_env(env, n_envs=1, seed=0), seed=0, device="cpu", **options)

    checkpoints = Checkpoints(tmp_path)
    model = make().learn(70, SaveAt(checkpoints, [70]))
    loaded, _ = load(checkpoints, make())
    assert_equal(model.get_parameters(), loaded.get_parameters())
    fresh = vars(make())
    changed = {key for key, value in vars(model).items() if type(value) in (int, float) and value != fresh.get(key)}
    changed -= {"num_timesteps", "_total_timesteps", "_num_timesteps_at_start", "start_time", "exploration_rate"}
    assert {key: getattr(loaded, key) for key in changed} == {key: getattr(model, key) for key in changed}


def test_what_is_pickled_in_a_checkpoint_stays_unread(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    make_ppo().learn(200, SaveAt(checkpoints, [100]))
    agent = checkpoints.latest() / "agent.zip"
    with zipfile.ZipFile(agent) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(parts["data"])
    assert ":serialized:" in data["policy_class"]
    for value in data.values():
        if isinstance(value, dict) and ":serialized:" in value:
            value[":serialized:"] = "not even a pickle"
    with zipfile.ZipFile(agent, "w") as archive:
        for name, content in {**parts, "data": json.dumps(data)}.items():
            archive.writestr(name, content)
    loaded, _ = load(checkpoints, make_ppo())
    assert loaded.num_timesteps == 64


def test_statistics_from_before_they_were_arrays(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    model = make_ppo().learn(200, SaveAt(checkpoints, [100]))
    (checkpoints.latest() / "vecnormalize.npz").unlink()
    model.env.save(str(checkpoints.latest() / "vecnormalize.pkl"))
    loaded, _ = load(checkpoints, make_ppo())
    np.testing.assert_array_equal(loaded.env.obs_rms.mean, model.env.obs_rms.mean)


def make_ppo():
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0))
    return PPO("SPANPolicy", env, n_steps=32, batch_size=32, seed=0, device="cpu")


def test_ppo_in_the_middle_of_a_rollout(tmp_path):
    checkpoints = Checkpoints(tmp_path)

    model = make_ppo().learn(200, SaveAt(checkpoints, [100]))
    loaded, state = load(checkpoints, make_ppo())
    assert state["reached"] == model.num_timesteps == 100
    # 100 steps are one rollout of 64, which was learned from, and the beginning of the next, which was not.
    assert loaded.num_timesteps == 64
    assert_equal(model.get_parameters(), loaded.get_parameters())
    np.testing.assert_array_equal(loaded.env.obs_rms.mean, model.env.obs_rms.mean)
    assert loaded.env.ret_rms.var == model.env.ret_rms.var != 1


def test_killed_while_it_deletes_the_old_checkpoint(tmp_path, monkeypatch):
    """The old one may have the higher number: an on-policy run goes back to the start of its rollout."""

    class Killed(BaseException):
        pass

    def delete_a_file_and_die(path, **_):
        for file in path.rglob("state.json"):
            file.unlink()
            raise Killed

    checkpoints = Checkpoints(tmp_path)
    make_ppo().learn(200, SaveAt(checkpoints, [100]))
    loaded, _ = load(checkpoints, make_ppo())
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("shutil.rmtree", delete_a_file_and_die)
        loaded.learn(200, SaveAt(checkpoints, [70]), reset_num_timesteps=False)
    again, state = load(checkpoints, make_ppo())
    assert (state["reached"], again.num_timesteps) == (70, 64)
    # What was left half deleted goes with the rest.
    checkpoints.clear()
    assert not list(tmp_path.iterdir())


def test_nothing_to_load(tmp_path):
    assert Checkpoints(tmp_path).load(make_sac()) is None


def damage_agent(checkpoint: Path, replay: Path):
    path = checkpoint / "agent.zip"
    path.write_bytes(path.read_bytes()[:-1000])


def damage_state(checkpoint: Path, replay: Path):
    (checkpoint / "state.json").write_text("{")


def damage_replay(checkpoint: Path, replay: Path):
    path = sorted(replay.iterdir())[0]
    path.write_bytes(path.read_bytes()[:100])


def lose_replay(checkpoint: Path, replay: Path):
    sorted(replay.iterdir())[0].unlink()


@pytest.mark.parametrize("damage", [damage_agent, damage_state, damage_replay, lose_replay])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    make_sac().learn(60, SaveAt(checkpoints, [30, 60]))
    damage(checkpoints.latest(), tmp_path / "replay")
    with pytest.raises(ValueError, match=r"checkpoint-000000000060 is damaged.*delete it to start this run over"):
        load(checkpoints, make_sac())


@pytest.mark.parametrize("writer", [(np, "savez"), (Path, "rename")], ids=["replay", "last"])
def test_a_failed_write_leaves_the_last_checkpoint(tmp_path, monkeypatch, writer):
    """Also when the replay buffer has gone round since."""

    class Full(SaveAt):
        def _on_step(self):
            if self.num_timesteps == 80:
                monkeypatch.setattr(*writer, full_disk)
            return super()._on_step()

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        make_sac(buffer_size=25).learn(80, Full(checkpoints, [30, 50, 80]))
    monkeypatch.undo()
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-000000000050", "replay"}
    loaded, _ = load(checkpoints, make_sac(buffer_size=25))
    assert loaded.num_timesteps == 49
    # The run goes on from there, over what the failed one left behind.
    loaded.learn(21, SaveAt(checkpoints, [70]), reset_num_timesteps=False)
    again, _ = load(checkpoints, make_sac(buffer_size=25))
    np.testing.assert_array_equal(again.replay_buffer.observations, loaded.replay_buffer.observations)


def test_saved_twice_at_the_same_step(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    model = make_sac().learn(30, SaveAt(checkpoints, [30]))
    checkpoints.save(model, reached=30)
    assert load(checkpoints, make_sac())[0].num_timesteps == 29


def test_rewards_normalised_alone(tmp_path):
    def make():
        env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0), norm_obs=False)
        return PPO("SPANPolicy", env, n_steps=32, batch_size=32, seed=0, device="cpu")

    checkpoints = Checkpoints(tmp_path)
    model = make().learn(200, SaveAt(checkpoints, [100]))
    loaded, _ = load(checkpoints, make())
    assert loaded.env.ret_rms.var == model.env.ret_rms.var != 1
