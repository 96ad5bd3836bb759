"""The environment on real EnergyPlus, over days instead of a year."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_span.hvac import SimulationError, make_env
from sb3_span.hvac.buildings import DATA_CENTER, POWER
from tests.hvac.sites import N_STEPS, ONE_DAY, needs_energyplus, processes_with, simulations

pytestmark = needs_energyplus
ROOT = Path(__file__).parents[2]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def play(env, action, n_steps=None):
    """
    :return: Observations, rewards, and whether the episode is over
    """
    observations, rewards, is_over = [env.reset(seed=0)[0]], [], False
    while not is_over and (n_steps is None or len(rewards) < n_steps):
        observation, reward, _, is_over, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
    return np.array(observations), np.array(rewards), is_over


def test_an_episode(temporary, capfd):
    env = make_env(**ONE_DAY)
    assert env.observation_space.shape == (41,)
    assert env.action_space.shape == (2,)
    observations, rewards, is_over = play(env, np.zeros(2, np.float32))
    assert is_over and len(rewards) == N_STEPS == env.unwrapped.n_steps
    # Over before close: an environment that waits to be reset keeps no EnergyPlus.
    assert not simulations()
    env.close()
    assert not list(temporary.iterdir())
    assert threading.active_count() == 1
    assert capfd.readouterr() == ("", "")
    assert np.all(rewards < 0) and len(np.unique(rewards)) > N_STEPS / 2
    assert np.abs(observations).max() < 10 and np.abs(observations.mean(axis=0)).mean() < 2


def test_the_paper_reward():
    env = make_env(**ONE_DAY).unwrapped
    env.reset(seed=0)
    hot = []
    for _ in range(120):
        _, reward, _, _, _ = env.step(np.ones(2, np.float32))  # as warm as it gets
        zones = np.array([env.readings[zone] for zone in DATA_CENTER.zones])
        outside = np.maximum(0, np.maximum(18 - zones, zones - 27))
        assert reward == pytest.approx(-0.5 * 5e-5 * env.readings[POWER] - 0.5 * outside.sum(), rel=1e-4)
        hot.append((outside > 0).sum())
    env.close()
    assert max(hot) == 2  # both zones count


def test_set_points_reach_the_building():
    env = make_env(**ONE_DAY).unwrapped
    env.reset(seed=0)
    for set_points in ([21.0, 9.0], [26.5, 6.0]):
        action = env.to_action(set_points)
        assert env.to_set_points(action) == pytest.approx(set_points, abs=1e-4)
        for _ in range(3):
            env.step(action)
        assert env.readings["cooling_setpoint"] == pytest.approx(set_points[0], abs=1e-3)
    assert env.to_set_points(np.array([-9.0, 9.0])) == pytest.approx([20.0, 10.0])
    env.close()


def test_the_same_actions_give_the_same_year_and_random_weather_another():
    first, again = (play(make_env(**ONE_DAY), np.zeros(2, np.float32), 20)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    env = make_env("Eplus-datacenter_cw-mixed-continuous-stochastic-v1", **ONE_DAY)
    stochastic, same = (play(env, np.zeros(2, np.float32), 20)[0] for _ in range(2))
    other = env.reset()[0]
    env.close()
    np.testing.assert_array_equal(stochastic, same)
    assert np.abs(stochastic - first).max() > 0.01
    assert np.abs(other - stochastic[0]).max() > 0.001  # a year that follows has weather of its own


@pytest.mark.parametrize("env_id, n_readings", [("SPANDataCenterHot-v0", 41), ("SPANFiveZoneCool-v0", 17)])
def test_other_climates_and_buildings(env_id, n_readings):
    env = gym.make(f"sb3_span.hvac:{env_id}", **ONE_DAY)
    assert env.observation_space.shape == (n_readings,)
    observations, _, _ = play(env, np.zeros(2, np.float32), 30)
    env.close()
    assert np.abs(observations).max() < 10
    assert (env.unwrapped.readings["outdoor_temperature"] > 15) == ("Hot" in env_id)  # a morning of July


def test_several_at_once_and_in_worker_processes(temporary):
    one, other = make_env(**ONE_DAY), make_env("SPANDataCenterCool-v0", **ONE_DAY)
    for env in (one, other):
        env.reset(seed=0)
    for _ in range(5):
        warm, cool = (env.step(np.zeros(2, np.float32))[0] for env in (one, other))
    assert np.abs(warm - cool).max() > 0.1
    assert len(simulations()) == 2
    one.close()
    other.step(np.zeros(2, np.float32))  # the one does not take the other with it
    other.close()
    venv = SubprocVecEnv([lambda: make_env(**ONE_DAY)] * 2)
    observations = venv.reset()
    venv.close()
    np.testing.assert_array_equal(observations[0], observations[1])
    assert not simulations() and not list(temporary.glob("sb3-span-hvac-*"))


def test_the_caller_s_folder_keeps_the_last_episode(tmp_path):
    env = make_env(folder=tmp_path / "working", **ONE_DAY)
    for _ in range(2):
        env.reset(seed=0)
    env.close()
    (episode,) = (tmp_path / "working").iterdir()
    assert list(episode.glob("**/eplusout.err"))


def test_gymnasium_s_rules_are_kept():
    env = make_env(**ONE_DAY)
    check_env(env.unwrapped)
    env.close()
    with pytest.raises(ValueError, match="call reset"):
        env.unwrapped.step(np.zeros(2, np.float32))


def test_a_simulation_that_fails_says_what_energyplus_said(temporary):
    import sinergym

    env = make_env(**ONE_DAY)
    arguments = env.unwrapped._arguments
    building = json.loads((Path(sinergym.__file__).parent / "data" / "buildings" / arguments["building_file"]).read_text())
    (thermostat,) = building["ThermostatSetpoint:DualSetpoint"].values()
    thermostat["heating_setpoint_temperature_schedule_name"] = "No Such Schedule"
    arguments["building_file"] = str(temporary / "broken.epJSON")
    (temporary / "broken.epJSON").write_text(json.dumps(building))
    with pytest.raises(SimulationError, match=r"(?si)has ended.*\*\* Severe .*no such schedule.*\*\*  Fatal  \*\*"):
        env.reset(seed=0)
    (temporary / "broken.epJSON").unlink()
    assert not simulations() and not list(temporary.iterdir())


def test_a_simulation_that_dies_ends_the_episode(temporary):
    env = make_env(**ONE_DAY)
    env.reset(seed=0)
    (process,) = simulations()
    os.kill(process, signal.SIGKILL)
    with pytest.raises(SimulationError, match=r"(?s)has ended.*Warming up"):
        for _ in range(2):
            env.step(np.zeros(2, np.float32))
    observations, _, _ = play(env, np.zeros(2, np.float32), 3)  # and the next episode is a good one
    assert len(observations) == 4
    env.close()
    assert not list(temporary.iterdir())


def test_a_simulation_that_stalls_ends_the_episode(temporary):
    env = make_env(**ONE_DAY)
    env.reset(seed=0)
    (process,) = simulations()
    os.kill(process, signal.SIGSTOP)
    env.unwrapped._simulation._stalled_seconds = 0  # whatever it does, it is too late
    with pytest.raises(SimulationError, match=r"(?s)no answer for 0 seconds.*Warming up"):
        env.step(np.zeros(2, np.float32))
    assert not simulations() and not list(temporary.iterdir())
    with pytest.raises(ValueError, match="call reset"):
        env.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_process_ends(sent, tmp_path):
    script = (
        "import numpy as np, signal\n"
        "from sb3_span.hvac import make_env\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # pytest's workers may have it ignored
        "env = make_env()\n"
        "env.reset()\n"
        "print('running', flush=True)\n"
        "while True: env.step(np.zeros(2, np.float32))\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True) as process:
        assert process.stdout.readline() == "running\n"
        assert processes_with(f"TMPDIR={tmp_path}", "year.py")
        process.send_signal(sent)
    deadline = time.monotonic() + 20
    while processes_with(f"TMPDIR={tmp_path}", "year.py"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if sent == signal.SIGINT:
        assert process.returncode != 0
        assert not list(tmp_path.glob("sb3-span-hvac-*"))
