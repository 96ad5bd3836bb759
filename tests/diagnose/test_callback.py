import csv

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from sb3_contrib import TQC, TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3.common.logger import configure

import sb3_span
from sb3_span.diagnose import DiagnosticsCallback
from tests.diagnose.agents import Walk, make_agent, state_of

AGENTS = [
    (sb3_span.SAC, "Pendulum-v1", {}),
    (stable_baselines3.SAC, "Pendulum-v1", dict(use_sde=True)),
    (stable_baselines3.TD3, "Pendulum-v1", {}),
    (TQC, "Pendulum-v1", {}),
    (stable_baselines3.DQN, "CartPole-v1", {}),
    (sb3_span.PPO, "CartPole-v1", {}),
    (stable_baselines3.PPO, "Pendulum-v1", {}),
    (stable_baselines3.A2C, "CartPole-v1", dict(normalize_advantage=True)),
    (TRPO, "CartPole-v1", {}),
]


def rows_of(folder):
    with (folder / "progress.csv").open() as file:
        return [row for row in csv.DictReader(file) if row.get("diagnose/value")]


@pytest.mark.parametrize("policy", ["SPANPolicy", "MlpPolicy"])
@pytest.mark.parametrize(
    ("algorithm", "env", "options"),
    AGENTS,
    ids=lambda value: getattr(value, "__module__", "")[:6] if callable(value) else None,
)
def test_training_is_the_same_with_and_without_it(algorithm, env, options, policy, tmp_path):
    models = []
    for callback in (None, DiagnosticsCallback(every=48, n_episodes=2)):
        model = make_agent(algorithm, env, policy, n_envs=2, normalize=True, **options)
        if callback is not None:
            model.set_logger(configure(str(tmp_path), ["csv", "stdout"]))
        models.append((state_of(model.learn(96, callback=callback)), model))
    (without, first), (with_it, second) = models
    assert without.keys() == with_it.keys()
    for name in without:
        assert th.equal(without[name], with_it[name]), name
    assert np.array_equal(first.get_vec_normalize_env().obs_rms.mean, second.get_vec_normalize_env().obs_rms.mean)
    second.logger.close()
    rows = rows_of(tmp_path)
    assert [int(row["time/total_timesteps"]) // 48 for row in rows] == [1, 2]
    numbers = {name: float(value) for name, value in rows[-1].items() if name.startswith("diagnose/")}
    assert np.isfinite(list(numbers.values())).all()
    is_span = policy == "SPANPolicy"
    assert ("diagnose/critic/z_range" in numbers) == is_span
    parts = {name.rpartition("/")[2] for name in numbers if name.startswith("diagnose/critic/step/")}
    assert parts >= ({"preprocess", "scale", "coefficients", "head"} if is_span else {"layer1", "layer2", "head"})
    assert all(numbers[f"diagnose/critic/{what}/{part}"] > 0 for what in ("grad", "step") for part in parts)


def test_what_is_logged_for_sac(tmp_path):
    model = make_agent(sb3_span.SAC, "Pendulum-v1", ent_coef=0.25)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(60, callback=DiagnosticsCallback(every=60, env="Pendulum-v1", n_episodes=1))
    model.logger.close()
    (row,) = rows_of(tmp_path)
    assert float(row["diagnose/ent_coef"]) == 0.25
    assert 0 < float(row["diagnose/policy_std"]) < 10
    difference = float(row["diagnose/value"]) - float(row["diagnose/return"])
    assert float(row["diagnose/value_minus_return"]) == pytest.approx(difference, rel=1e-3)


def test_an_environment_that_is_given_is_played_and_left_open():
    played = []

    class Counted(Walk):
        def step(self, action):
            played.append(self)
            return super().step(action)

    env = Counted(spaces.Discrete(2))
    model = make_agent(stable_baselines3.DQN, lambda: Walk(spaces.Discrete(2)), "MlpPolicy")
    model.learn(30, callback=DiagnosticsCallback(every=30, env=env, n_episodes=3))
    assert len(played) == 3 * 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(every=0), "every is 0; it must be an integer of at least 1"),
        (dict(every=0.5), "every is 0.5"),
        (dict(n_episodes=0), "n_episodes is 0"),
        (dict(env=3), "env is 3; it must be the id"),
    ],
)
def test_bad_arguments_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        DiagnosticsCallback(**options)


def test_the_environment_of_training_is_refused():
    model = make_agent(stable_baselines3.DQN, "CartPole-v1")
    with pytest.raises(ValueError, match="is the environment of training"):
        model.learn(10, callback=DiagnosticsCallback(env=model.get_env()))
    inner = model.get_env().envs[0]
    with pytest.raises(ValueError, match="is the environment of training"):
        model.learn(10, callback=DiagnosticsCallback(env=inner))


def test_environments_that_cannot_be_made_again_are_refused():
    class Doubled(gym.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    model = make_agent(stable_baselines3.DQN, lambda: Doubled(gym.make("CartPole-v1")))
    with pytest.raises(ValueError, match=r"wrappers \['Doubled'\], which cannot be made again"):
        model.learn(10, callback=DiagnosticsCallback())
    model = make_agent(stable_baselines3.DQN, lambda: Walk(spaces.Discrete(2)))
    with pytest.raises(ValueError, match="is not registered"):
        model.learn(10, callback=DiagnosticsCallback())
    with pytest.raises(ValueError, match="Name the environment that it was trained on"):
        make_agent(stable_baselines3.DQN, "CartPole-v1").learn(10, callback=DiagnosticsCallback(env="Acrobot-v1"))


@pytest.mark.parametrize(("algorithm", "policy"), [(RecurrentPPO, "MlpLstmPolicy"), (MaskablePPO, "MlpPolicy")])
def test_policies_that_it_does_not_know_are_refused(algorithm, policy):
    model = algorithm(policy, "CartPole-v1", n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match="cannot be diagnosed"):
        model.learn(8, callback=DiagnosticsCallback())
