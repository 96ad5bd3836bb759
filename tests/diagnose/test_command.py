import math

import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import sb3_span
from sb3_span.cli import main
from sb3_span.diagnose import DiagnosticsCallback
from sb3_span.diagnose.returns import random_scores
from sb3_span.diagnose.runs import RETURN, STEP, VALUE, draw_runs, read_run
from sb3_span.diagnose.verdicts import verdicts
from tests.diagnose.agents import make_agent

FINE = {
    "episode_score": 200.0,
    "random_score": 20.0,
    "random_spread": 10.0,
    "value": 100.0,
    "return": 95.0,
    "return_spread": 10.0,
    "unseen_tail": 0.05,
    "interference": 1.0,
    "critic/features": 8,
    "critic/dead_features": 0.0,
    "critic/effective_rank": 6.0,
    "critic/z_range": 0.5,
    "critic/z_saturated": 0.0,
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(value=6205.0, **{"return": 96.0}), "The critics expect 6,205, the actual return is 96: overestimation."),
        (dict(value=1.0), "The critics expect 1, the actual return is 95: underestimation."),
        (dict(unseen_tail=0.5), "The time limit hides up to 50 %"),
        (dict(ent_coef=2.15), "The entropy coefficient has grown to 2.1"),
        (dict(policy_std=0.001), "it no longer explores"),
        (dict(interference=2.0), "2.00 times as far outside its batch as inside"),
        ({"critic/dead_features": 4.0}, "4 of the critic's 8 features are dead"),
        ({"critic/effective_rank": 1.2}, "The critic's 8 features are alike: their effective rank is 1.2."),
        (dict(episode_score=39.0), "no better than chance: a return of 39, random actions 20."),
        (dict(value=math.nan), "Not finite: value."),
    ],
)
def test_what_is_out_of_line_is_said_in_words(changes, sentence):
    assert verdicts(FINE, False) == []
    (found,) = verdicts({**FINE, **changes}, False)
    assert sentence in found


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"critic/z_range": 0.05}, "The critic's latent dimensions use only 5 % of (0, 1)."),
        ({"critic/z_saturated": 0.6}, "60 % of the critic's latent numbers are saturated."),
    ],
)
def test_latent_dimensions_matter_to_agents_that_do_not_learn(changes, sentence):
    assert verdicts({**FINE, **changes}, False) == []
    no_better = {**FINE, **changes, "episode_score": 20.0}
    assert verdicts(no_better, True)[1:] == [sentence]
    assert verdicts(no_better, False)[1:] == [f"{sentence} Normalise the observations."]


def test_random_actions_are_scored_once_for_each_environment():
    """CartPole pays one for each step, so a score is the length of the first episode."""
    envs = make_vec_env("CartPole-v1", n_envs=3, seed=0)
    scores = random_scores(envs, seed=5)
    again = make_vec_env("CartPole-v1", n_envs=3, seed=1)
    again.seed(5)
    again.action_space.seed(5)
    again.reset()
    lengths = {}
    for step in range(1, 501):
        _, _, dones, _ = again.step(np.stack([again.action_space.sample() for _ in range(3)]))
        for i in np.flatnonzero(dones):
            lengths.setdefault(i, step)
    assert scores.tolist() == [lengths[i] for i in range(3)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("algorithm", "env"),
    [(sb3_span.SAC, "Pendulum-v1"), (sb3_span.PPO, "CartPole-v1"), (stable_baselines3.DQN, "CartPole-v1")],
)
def test_a_saved_agent_is_diagnosed(algorithm, env, normalize, tmp_path, capsys):
    model = make_agent(algorithm, env, n_envs=2, normalize=normalize).learn(64)
    file, statistics = tmp_path / "agent.zip", "none"
    model.save(file)
    if normalize:
        statistics = str(tmp_path / "statistics.pkl")
        model.get_vec_normalize_env().save(statistics)
    picture = tmp_path / "picture.png"
    main(["diagnose", str(file), "--env", env, "--episodes", "2", "--vecnormalize", statistics, "--output", str(picture)])
    printed = capsys.readouterr().out
    assert "value" in printed
    assert "critic: coefficients" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_head_that_promises_too_much_is_called_out(tmp_path, capsys):
    model = make_agent(sb3_span.SAC, "Pendulum-v1", "MlpPolicy").learn(64)
    for network in model.critic.q_networks:
        network[-1].bias.data += 1e5
    model.save(tmp_path / "agent.zip")
    main(["diagnose", str(tmp_path / "agent.zip"), "--env", "Pendulum-v1", "--episodes", "1"])
    assert "overestimation" in capsys.readouterr().out


def test_runs_are_drawn_beside_one_another(tmp_path):
    for name in ("one", "two"):
        model = make_agent(sb3_span.SAC, "Pendulum-v1")
        model.set_logger(configure(str(tmp_path / name), ["csv"]))
        model.learn(90, callback=DiagnosticsCallback(every=30, n_episodes=1))
        model.logger.close()
    run = read_run(tmp_path / "one")
    assert run[STEP].tolist() == [30, 60, 90]
    figure = draw_runs([("first", tmp_path / "one"), ("second", tmp_path / "two" / "progress.csv")], "title")
    top, bottom = figure.axes
    drawn = [list(line.get_ydata()) for line in top.get_lines()]
    assert run[VALUE].tolist() in drawn
    assert run[RETURN].tolist() in drawn
    assert bottom.get_ylabel() == "entropy coefficient"
    picture = tmp_path / "runs.svg"
    main(["diagnose", "--runs", f"first={tmp_path / 'one'}", f"second={tmp_path / 'two'}", "--output", str(picture)])
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name an agent to diagnose or give --runs"),
        (["agent", "--runs", "a=b"], "not both"),
        (["--runs", "progress.csv"], "write label=file"),
        (["--runs", "a=nowhere.csv"], "There is no nowhere.csv"),
        (["nobody"], "neither a file nor the name of an agent"),
        (["cartpole", "--episodes", "0"], "--episodes is 0; it must be at least 1"),
        (["cartpole"], "can only act: it lacks the critics"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(SystemExit, match=words):
        main(["diagnose", *arguments])


def test_a_picture_is_replaced_only_if_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.png").write_text("mine")
    with pytest.raises(SystemExit, match=r"There is a runs.png already. .* --output runs.png"):
        main(["diagnose", "--runs", "a=progress.csv"])
    assert (tmp_path / "runs.png").read_text() == "mine"


def test_a_log_without_diagnoses_is_refused(tmp_path):
    (tmp_path / "progress.csv").write_text("time/total_timesteps\n100\n")
    with pytest.raises(ValueError, match="has no column 'diagnose/value': train with DiagnosticsCallback"):
        read_run(tmp_path)
