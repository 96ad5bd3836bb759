"""The process plants as environments: episodes, reward, parameters, what is refused."""

import itertools
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

import sb3_span.plants  # noqa: F401  (registers the environments)
from sb3_span.plants.process import ProcessEnv
from sb3_span.plants.process_controllers import Fixed
from sb3_span.plants.process_episodes import play
from sb3_span.plants.process_plants import FOUR_TANKS, PLANTS, REACTOR


def test_registered_without_pcgym():
    script = "import sys, sb3_span.plants, gymnasium; gymnasium.spec('SPANReactor-v0'); "
    script += "print({'pcgym', 'casadi', 'jax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_says_which_extra_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pcgym", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"SPANReactor-v0 needs pcgym .*pip install 'sb3_span\[process\]'"):
        gym.make("SPANReactor-v0")


class TestEpisodes:
    @pytest.fixture(autouse=True)
    def _needs_pcgym(self):
        pytest.importorskip("pcgym", reason="the extra 'process' is not installed")

    @pytest.mark.parametrize("env_id", PLANTS)
    def test_is_an_environment(self, env_id):
        check_env(ProcessEnv(env_id))

    @pytest.mark.parametrize("env_id", PLANTS)
    def test_an_episode(self, env_id):
        """At rest until the first action; a new set point half-way; ended by truncation, then refused."""
        env = gym.make(env_id, n_steps=20, noise=0.0).unwrapped
        observation, info = env.reset(seed=1)
        state, inputs = info["state"], info["inputs"]
        n_states, n_inputs = len(env.plant.states), len(env.plant.inputs)
        np.testing.assert_allclose(env.model.advance(state, inputs), state, rtol=1e-5)
        np.testing.assert_allclose(observation[-n_inputs:], env.to_action(inputs), rtol=1e-6)
        set_points, ends = [env.set_points], []
        for _ in range(20):
            observation, _, terminated, truncated, info = env.step(env.to_action(inputs))
            set_points.append(env.set_points)
            ends.append((terminated, truncated))
        assert ends == [(False, False)] * 19 + [(False, True)]
        jumps = [not np.array_equal(before, after) for before, after in itertools.pairwise(set_points)]
        assert jumps == [False] * 9 + [True] + [False] * 10
        for i, each in enumerate(env.plant.set_points):
            low, width = env.plant.states[env.plant.index(each.name)].low, env.plant.states[env.plant.index(each.name)].width
            value = info["state"][env.plant.index(each.name)]
            assert observation[env.plant.index(each.name)] == pytest.approx(2 * (value - low) / width - 1, abs=1e-6)
            error = (env.set_points[i] - value) / (each.high - each.low)
            assert observation[n_states + i] == pytest.approx(np.clip(error, -3, 3), abs=1e-6)
        with pytest.raises(ValueError, match="call reset before the first step, and after the last"):
            env.step(env.to_action(inputs))

    def test_reward_and_measures_by_hand(self):
        """Of the four tanks, where two levels are controlled and two others are limited, with the pumps at full power."""
        env = ProcessEnv("SPANFourTanks-v0", move_cost=0.1)
        env.reset(seed=0)
        before, total, ise = env.to_action(env.inputs), 0.0, 0.0
        highest = 0
        for action in [np.array([1.0, 1.0])] * 60 + [np.array([-0.5, 1.0])] * 40:
            set_points = env.set_points
            _, reward, _, _, info = env.step(action)
            h1, h2, h3, h4 = info["state"]
            squared = (((set_points[0] - h1) / 0.15) ** 2 + ((set_points[1] - h2) / 0.15) ** 2) / 2
            excess = min(1, max(0, h3 / 0.65 - 1) / 0.1) + min(1, max(0, h4 / 0.4 - 1) / 0.1)
            move = np.mean((action - before) ** 2)
            assert reward == pytest.approx(-squared - excess - 0.1 * move)
            assert info["violated"] == (h3 > 0.65 or h4 > 0.4) and info["move"] == pytest.approx(move)
            before, total, ise, highest = action, total + reward, ise + squared, highest + info["violated"]
        assert 10 < highest < 100

        class AsBefore:
            def reset(self, env):
                self.n = 0

            def act(self, observation, env):
                self.n += 1
                return np.array([1.0, 1.0]) if self.n <= 60 else np.array([-0.5, 1.0])

        measures = play(env, AsBefore(), seed=0).measures()
        assert measures["return"] == pytest.approx(total) and measures["ise"] == pytest.approx(ise)
        assert measures["violations"] == highest

    @pytest.mark.parametrize("env_id", PLANTS)
    def test_seeds_repeat_an_episode(self, env_id):
        def observations(env, seed):
            env.reset(seed=seed)
            return np.array([env.step(np.full(env.action_space.shape, 0.1))[0] for _ in range(30)])

        env = ProcessEnv(env_id)
        first = observations(env, 7)
        np.testing.assert_array_equal(first, observations(env, 7))
        np.testing.assert_array_equal(first, observations(ProcessEnv(env_id), 7))
        assert np.abs(first - observations(env, 8)).max() > 0.05

    def test_noise_is_of_the_measurements_only(self):
        loud, quiet = (play(ProcessEnv("SPANReactor-v0", noise=noise), Fixed(), 0) for noise in (0.05, 0.0))
        np.testing.assert_array_equal(loud.controlled[:50], quiet.controlled[:50])
        env = ProcessEnv("SPANExtraction-v0", noise=0.02, n_steps=400)
        env.reset(seed=0)
        errors = []
        for _ in range(400):
            env.step(np.zeros(2))
            errors.append(env.measured - env.state)
        assert np.std(errors) == pytest.approx(0.02 * 0.8, rel=0.05)

    def test_tanks_run_dry_and_fill_again(self):
        env = ProcessEnv("SPANFourTanks-v0", n_steps=400)
        env.reset(seed=0)
        for _ in range(200):
            *_, info = env.step(-np.ones(2))
        assert np.isfinite(info["state"]).all() and 0 <= info["state"].min() <= info["state"].max() < 1e-3
        for _ in range(200):
            *_, info = env.step(np.ones(2))
        assert info["state"].min() > 0.3

    def test_parameters_change_the_plant(self):
        """Half the heat transfer: the coolant must be colder by the difference that it now needs."""
        own, changed = (ProcessEnv("SPANReactor-v0", **options).model for options in ({}, {"UA": 4e4}))
        temperature, at_own = own.steady([0.8])[0][1], own.steady([0.8])[1][0]
        at_changed = changed.steady([0.8])[1][0]
        assert temperature - at_changed == pytest.approx((temperature - at_own) * 5 / 4)

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"UA": -5e4}, r"UA of SPANReactor-v0 is -50000.0; a positive number is needed, such as 50000"),
            ({"deltaHr": 5e4}, r"deltaHr of SPANReactor-v0 is 50000.0; a negative number is needed"),
            ({"V": "big"}, r"V of SPANReactor-v0 is 'big'; a positive number"),
            ({"k0": float("nan")}, r"k0 of SPANReactor-v0 is nan; a positive number"),
            ({"mass": 3.0}, r"SPANReactor-v0 has no parameter 'mass'; its model has \['C', 'Caf'"),
            ({"n_steps": 1}, r"n_steps is 1; a whole number of at least 2"),
            ({"noise": -0.1}, r"noise is -0.1; a number of at least 0"),
            ({"sample_time": 0.0}, r"sample_time is 0.0; a number above 0"),
            ({"sample_time": 60.0}, r"A sample_time of 60 min makes the integration .* unstable: .* at most [\d.]+ min"),
            ({"UA": 5e2}, r"cannot be kept at set points of \[0.675\] with these parameters"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(ValueError, match=message):
            ProcessEnv("SPANReactor-v0", **options)

    def test_refuses_what_is_no_plant_and_no_action(self):
        with pytest.raises(ValueError, match="no process plant 'SPANReactor'; choose one of SPANReactor-v0, "):
            ProcessEnv("SPANReactor")
        env = ProcessEnv("SPANReactor-v0")
        env.reset(seed=0)
        with pytest.raises(ValueError, match=r"The action is \[nan\]; finite numbers"):
            env.step(np.array([np.nan]))

    def test_inputs_and_actions_are_each_others_inverse(self):
        env = ProcessEnv(REACTOR.env_id)
        np.testing.assert_allclose(env.to_inputs(np.array([-1.0])), [285.0])
        np.testing.assert_allclose(env.to_inputs(np.array([7.0])), [315.0])
        np.testing.assert_allclose(env.to_action(env.to_inputs(np.array([0.3]))), [0.3])
        assert list(FOUR_TANKS.upper_limits) == ["h3", "h4"]


def test_a_picture_shows_values_and_set_points():
    pytest.importorskip("pcgym", reason="the extra 'process' is not installed")
    env = gym.make("SPANFourTanks-v0", noise=0.0, render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    at_rest = env.render()
    for _ in range(60):
        env.step(np.ones(2, np.float32))
    picture = env.render()
    assert picture.shape == (360, 480, 3)
    blue = [np.flatnonzero((each == (27, 108, 168)).all(axis=-1).any(axis=0)).max() for each in (at_rest, picture)]
    assert blue[0] < 200 < blue[1]  # the names at first; then the levels, up to the present step
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        ProcessEnv("SPANFourTanks-v0", render_mode="human")
