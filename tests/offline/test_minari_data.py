"""Data sets arrive in d3rlpy as they were recorded, row by row."""

import os
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest
from d3rlpy.dataset import MultiStepTransitionPicker, TransitionMiniBatch
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction
from minari.data_collector import EpisodeBuffer

from sb3_span.offline import load_minari, normalized_score
from sb3_span.offline.minari_data import environment_id
from tests.offline.datasets import EPISODES, action_of, create, observation_of, reward_of, write, write_known, write_random

STAND_IN = Path(os.environ.get("MINARI_DATASETS_PATH") or Path(__file__).parents[3] / "shared" / "data" / "minari")


def test_rows_are_aligned(minari_folder):
    """Fails if a row is shifted, an episode is missing, or an end is not where it was."""
    write_known("known/rows-v0")
    dataset, _ = load_minari("known/rows-v0")
    # d3rlpy has no place for an episode that was cut off after one step: it has no transition.
    kept = [number for number, episode in enumerate(EPISODES) if episode != (1, "cut off")]
    for number, episode in zip(kept, dataset.episodes, strict=True):
        length, ending = EPISODES[number]
        expected = np.stack([observation_of(number, step) for step in range(length)])
        np.testing.assert_array_equal(episode.observations, expected)
        np.testing.assert_array_equal(episode.actions, action_of(expected))
        np.testing.assert_array_equal(episode.rewards[:, 0], reward_of(expected))
        assert episode.terminated == (ending in ("ended", "both"))


def test_batches_are_d3rlpys_own(minari_folder):
    """All transitions at once, against those that d3rlpy picks one by one."""
    write_known("known/rows-v0")
    dataset, _ = load_minari("known/rows-v0")
    # An episode that was cut off has one transition less: what came after its last action is not in the data set.
    assert dataset.transition_count == sum(length - (ending in ("cut off", "stopped")) for length, ending in EPISODES)
    indices = np.arange(dataset.transition_count)
    ours = dataset.make_batch(indices)
    picked = [dataset.transition_picker(*dataset.buffer[index]) for index in indices]
    theirs = TransitionMiniBatch.from_transitions(picked)
    for name in ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals", "intervals"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
        assert getattr(ours, name).dtype == np.float32
    for mine, other in zip(ours.transitions, picked, strict=True):
        np.testing.assert_array_equal(mine.rewards_to_go, other.rewards_to_go)


def test_every_transition_is_drawn(minari_folder):
    write_known("known/rows-v0")
    dataset, _ = load_minari("known/rows-v0")
    np.random.seed(0)
    batch = dataset.sample_transition_batch(1000)
    drawn = {tuple(row) for row in batch.observations}
    assert drawn == {tuple(row) for row in dataset.make_batch(np.arange(dataset.transition_count)).observations}
    np.testing.assert_array_equal(batch.actions, action_of(batch.observations))


def test_episodes_that_are_added_are_drawn_too(minari_folder):
    write_known("known/rows-v0")
    dataset, _ = load_minari("known/rows-v0")
    other, _ = load_minari("known/rows-v0")
    episode = other.episodes[0]
    episode.rewards[:] = 7.0
    dataset.append_episode(episode)
    np.random.seed(0)
    assert 7.0 in dataset.sample_transition_batch(1000).rewards


def test_discrete_actions(minari_folder):
    write_random("cartpole/random-v0", env="CartPole-v1")
    dataset, env = load_minari("cartpole/random-v0")
    assert dataset.dataset_info.action_size == 2 and env.spec.id == "CartPole-v1"
    assert set(np.unique(dataset.episodes[0].actions)) == {0, 1}


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
def test_the_environment_has_the_wrappers_of_the_recording(minari_folder):
    write_random("pendulum/rescaled-v0", env=RescaleAction(gym.make("Pendulum-v1", g=9.81), -1.0, 1.0))
    _, env = load_minari("pendulum/rescaled-v0")
    assert env.action_space.high == 1 and env.unwrapped.action_space.high == 2 and env.unwrapped.g == 9.81


def test_a_picker_of_ones_own(minari_folder):
    """Batches of several steps, which are d3rlpy's own."""
    write_known("known/rows-v0")
    dataset, _ = load_minari("known/rows-v0")
    dataset._transition_picker = MultiStepTransitionPicker(3, 0.9)
    np.random.seed(0)
    assert dataset.sample_transition_batch(100).intervals.max() == 3


@pytest.mark.parametrize("task, steps", [("Door", 200), ("Hammer", 200), ("Pen", 100), ("Relocate", 200)])
def test_the_environment_has_the_tasks_horizon(minari_folder, task, steps):
    """Whatever the data set was recorded with, and whatever it is called."""
    env = gym.make(f"AdroitHand{task}-v1", max_episode_steps=300)
    observation = env.observation_space.sample().astype(np.float64)
    buffer = EpisodeBuffer(
        observations=np.stack([observation, observation]),
        actions=env.action_space.sample()[None],
        rewards=np.zeros(1),
        terminations=np.zeros(1, dtype=bool),
        truncations=np.ones(1, dtype=bool),
    )
    second = EpisodeBuffer(**{**vars(buffer), "id": 1})
    create("other/name-v0", [buffer, second], env=env.spec)
    env.close()
    _, env = load_minari("other/name-v0")
    assert env.spec.max_episode_steps == steps
    assert environment_id("other/name-v0") == f"AdroitHand{task}-v1"
    env.close()


def test_scores_are_those_of_d4rl():
    assert normalized_score("AdroitHandDoor-v1", 2880.5693087298737) == pytest.approx(100)
    assert normalized_score("AdroitHandPen-v1", [96.262799, 3076.8331017826877]) == pytest.approx([0, 100])
    with pytest.raises(ValueError, match=r"no reference scores for 'Hopper-v5', only for \['AdroitHandDoor-v1'"):
        normalized_score("Hopper-v5", 1.0)


def test_missing(minari_folder):
    write_known("known/rows-v0")
    with pytest.raises(ValueError, match=r"'D4RL/door/expert-v2' is not in .*\['known/rows-v0'\].*minari download D4RL/door"):
        load_minari("D4RL/door/expert-v2")
    with pytest.raises(ValueError, match=r"'door'; a name with a version is needed, such as D4RL/door/expert-v2"):
        load_minari("door", download=True)


def test_no_network(minari_folder, monkeypatch):
    def fail(dataset_id):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(minari, "download_dataset", fail)
    with pytest.raises(ValueError, match=r"'D4RL/door/expert-v2' could not be downloaded: no route to host"):
        load_minari("D4RL/door/expert-v2", download=True)


@pytest.mark.parametrize("what", ["truncated", "no metadata", "half a metadata", "fewer episodes"])
def test_damaged(minari_folder, what):
    write_known("known/rows-v0")
    folder = minari_folder / "known" / "rows-v0" / "data"
    data, metadata = folder / "main_data.hdf5", folder / "metadata.json"
    if what == "truncated":
        data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    elif what == "no metadata":
        metadata.unlink()
    elif what == "half a metadata":
        metadata.write_text(metadata.read_text()[:100])
    else:
        metadata.write_text(metadata.read_text().replace('"total_steps": 22', '"total_steps": 23'))
    with pytest.raises(ValueError, match=r"'known/rows-v0' in .* is damaged or incomplete .*minari download known/rows-v0"):
        load_minari("known/rows-v0")


def test_dict_observations(minari_folder):
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, (1,))})
    buffer = EpisodeBuffer(
        observations={"a": np.zeros((3, 2), dtype=np.float32), "b": np.zeros((3, 1), dtype=np.float32)},
        actions=np.zeros((2, 1), dtype=np.float32),
        rewards=np.zeros(2),
        terminations=np.zeros(2, dtype=bool),
        truncations=np.array([False, True]),
    )
    create("known/dict-v0", [buffer], env="Pendulum-v1", observation_space=space)
    with pytest.raises(ValueError, match=r"'known/dict-v0' has Dict observations; d3rlpy supports arrays"):
        load_minari("known/dict-v0")


def test_no_environment(minari_folder):
    buffers = [
        EpisodeBuffer(
            observations=np.zeros((2, 1), dtype=np.float32),
            actions=np.zeros((1, 1), dtype=np.float32),
            rewards=np.zeros(1),
            terminations=np.ones(1, dtype=bool),
            truncations=np.zeros(1, dtype=bool),
        )
    ]
    write("known/nowhere-v0", buffers, observation_dim=1, action_dim=1, env=None)
    with pytest.raises(ValueError, match=r"'known/nowhere-v0' does not name its environment"):
        load_minari("known/nowhere-v0")


@pytest.mark.parametrize(
    "name, score",
    [("door/expert", 100.6), ("hammer/expert", 95.0), ("pen/expert", 114.9), ("relocate/expert", 100.4), ("door/human", 29.3)],
)
def test_stand_in(monkeypatch, name, score):
    if not (STAND_IN / "span").is_dir():
        pytest.skip(f"there are no stand-in data sets in {STAND_IN}")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(STAND_IN))
    dataset, env = load_minari(f"span/{name}-v0")
    returns = np.array([episode.rewards.sum() for episode in dataset.episodes])
    assert normalized_score(env.spec.id, returns).mean() == pytest.approx(score, abs=0.05)
    env.close()
