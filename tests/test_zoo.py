"""The RL Zoo's own commands, typed as in the README, on our files."""

import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

ROOT = Path(__file__).parents[1]


def zoo(module, *arguments):
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", f"rl_zoo3.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(algo, env, conf, folder, *more):
    return zoo("train", "--algo", algo, "--env", env, "--conf", f"hyperparams/{conf}.yml", "-n", 300, "-f", folder, *more)


@pytest.mark.parametrize("conf", ["span", "mlp"])
def test_train_enjoy_and_plot(conf, tmp_path):
    out = train("sac", "Hopper-v5", conf, tmp_path, "-params", "learning_starts:100", "--eval-freq", 150, "--seed", 1)
    assert ("SPANPolicy" if conf == "span" else "ClippedMlpPolicy") in out
    saved = tmp_path / "sac" / "Hopper-v5_1"
    assert (saved / "Hopper-v5.zip").exists() and (saved / "best_model.zip").exists()
    out = zoo("enjoy", "--algo", "sac", "--env", "Hopper-v5", "-f", tmp_path, "--no-render", "-n", 200)
    assert "Mean reward" in out
    zoo("plots.plot_train", "-a", "sac", "-e", "Hopper-v5", "-f", tmp_path)
    zoo("plots.all_plots", "-a", "sac", "-e", "Hopper-v5", "-f", tmp_path, "-o", tmp_path / "all")
    assert (tmp_path / "all.pkl").exists()


def test_ppo(tmp_path):
    out = train("ppo", "CartPole-v1", "span", tmp_path, "--seed", 1)
    assert "SPANActorCriticPolicy" in out
    assert (tmp_path / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").exists()


@pytest.mark.parametrize("conf", ["span", "mlp"])
@pytest.mark.parametrize("algo, env", [("ppo", "CartPole-v1"), ("sac", "InvertedPendulum-v5")])
def test_search(algo, env, conf, tmp_path):
    """A search over SPAN draws SPAN's options, a search over the MLP draws the MLP's, and its result can be trained."""
    storage = f"sqlite:///{tmp_path}/study.db"
    # Random draws and no pruning, so that both trials are complete.
    search = ["-optimize", "--n-trials", 2, "--sampler", "random", "--pruner", "none", "--n-evaluations", 1, "--no-optim-plots"]
    train(algo, env, conf, tmp_path, *search, "--storage", storage, "--study-name", "search", "--seed", 1)
    study = optuna.load_study(study_name="search", storage=storage)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 2
    for trial in study.trials:
        assert "learning_rate" in trial.params
        assert ({"nmodes", "nelems", "basis"} <= set(trial.params)) == (conf == "span")
        assert ("degree" in trial.params) == (trial.params.get("basis") == "bspline")
        assert ("net_arch" in trial.params) == (conf == "mlp")
    out = train(algo, env, conf, tmp_path, "--storage", storage, "--study-name", "search", "--trial-id", 1, "--seed", 1)
    assert ("span_arch" in out) == (conf == "span")
