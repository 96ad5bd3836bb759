"""The command prints what to build, and it can be pasted."""

import re

import gymnasium as gym
import pytest
from stable_baselines3 import SAC

from sb3_span.cli import main
from sb3_span.policies.budget import count_parameters


def run(capsys, *arguments):
    main(["budget", *arguments])
    return capsys.readouterr().out


def test_by_number(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = run(capsys, "--env", "Hopper-v5", "--algo", "sac", "--params", "3744")
    assert "SAC on Hopper-v5: about 3,744 trainable parameters" in out
    rows = re.findall(r"│ (SPAN|MLP) +│ (.*?) +│ +([\d,]+) │ +([+-][\d.]+) %", out)
    assert rows[0] == ("SPAN", "12 x 4 modes of 3 dimensions, 4 elements", "3,740", "-0.1")
    assert ("SPAN", "10 modes, 8 elements, kernel", "3,799", "+1.5") in rows
    assert len({row for row in rows if "bspline, degree 1" in row[1]}) == 2
    assert all(float(difference) <= 2 for *_, difference in rows)
    assert rows[-1][:2] == ("MLP", "pi 28 x 28, qf 27 x 27")
    # The lines to paste build what the table says.
    lines = re.findall(r"^policy_kwargs=(.*)$", out, flags=re.MULTILINE)
    env = gym.make("Hopper-v5")
    for policy, line, row in zip(("SPANPolicy", "MlpPolicy"), lines, (rows[0], rows[-1]), strict=True):
        model = SAC(policy, env, policy_kwargs=eval(line), buffer_size=1, device="cpu")
        assert f"{count_parameters(model.policy):,}" == row[2]


def test_by_layers(capsys):
    out = run(capsys, "--env", "CartPole-v1", "--algo", "ppo", "--net-arch", "64", "64")
    assert "about 9,155 trainable parameters" in out  # SB3's default policy on CartPole


def test_small_budgets_name_the_latent_dimensions(capsys):
    assert "latent_dim 1" in run(capsys, "--env", "CartPole-v1", "--algo", "a2c", "--params", "30")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--env", "CartPole-v1", "--algo", "ars", "--params", "90"], r"no SPAN policy for the algorithm 'ars'; choose one"),
        (["--env", "CartPole-v1", "--algo", "sac", "--params", "90"], r"sac cannot be trained on CartPole-v1"),
        (["--env", "Unheard-v1", "--algo", "sac", "--params", "90"], r"There is no environment 'Unheard-v1'"),
        (["--env", "CartPole-v1", "--algo", "ppo", "--params", "3"], r"The budget is 3 parameters; the smallest .* have 22"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(SystemExit, match=f"sb3-span budget: .*{message}"):
        main(["budget", *arguments])
