"""``sb3-span export``, as people call it."""

import re
import sys

import pytest
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import sb3_span
from sb3_span.cli import main
from sb3_span.deploy import report
from sb3_span.deploy.device import missing_tools
from sb3_span.study.run import train
from tests.deploy.models import lively
from tests.study.runs import ppo_run, sac_run


def test_zip(tmp_path, capsys):
    lively(PPO, actions="discrete").save(tmp_path / "model.zip")
    main(["export", str(tmp_path / "model.zip"), "--format", "c", "--output", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "random observations only" in printed and "10,000 observations" in printed
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["policy.c", "policy.h"]


def test_vecnormalize_and_environment(tmp_path, capsys):
    model = lively(SAC, env=VecNormalize(make_vec_env("Pendulum-v1")))
    model.save(tmp_path / "model.zip")
    model.env.save(str(tmp_path / "normal.pkl"))
    options = ["--vecnormalize", str(tmp_path / "normal.pkl"), "--env", "Pendulum-v1"]
    main(["export", str(tmp_path / "model.zip"), *options, "--output", str(tmp_path / "out")])
    out = capsys.readouterr().out
    assert f"observations normalised with {tmp_path / 'normal.pkl'}: 10,000 observations, 5,000 of them recorded" in out


def test_normalisation_is_in_the_code(tmp_path, capsys, monkeypatch):
    """Statistics beside a model are exported with it, whatever their file is called; a model that lacks its own is refused."""
    monkeypatch.chdir(tmp_path)
    model = sb3_span.PPO("SPANPolicy", VecNormalize(make_vec_env("Pendulum-v1")), n_steps=64, device="cpu").learn(64)
    model.save("vn2.zip")
    with pytest.raises(
        SystemExit, match=r"vn2.zip was trained with VecNormalize, and there are no statistics .*--vecnormalize FILE"
    ):
        main(["export", "vn2.zip"])
    assert not list(tmp_path.glob("vn2-c/*"))
    model.env.save("vn2.pkl")
    main(["export", "vn2.zip", "--env", "Pendulum-v1"])
    assert "observations normalised with vn2.pkl: 10,000 observations" in capsys.readouterr().out
    assert "VecNormalize" in (tmp_path / "vn2-c" / "policy.h").read_text()
    main(["export", "vn2.zip", "--output", "raw", "--vecnormalize", "none"])
    assert "observations not normalised" in capsys.readouterr().out


def test_an_agent_of_the_repository(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["export", "cartpole"])
    assert "5,000 of them recorded from the environment" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "CartPole-v1-c").iterdir()) == ["policy.c", "policy.h"]
    with pytest.raises(SystemExit, match=r"There is a CartPole-v1-c already.*--output CartPole-v1-c"):
        main(["export", "cartpole"])


def test_a_module_in_this_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_plant.py").write_text(
        "import gymnasium\ngymnasium.register('Plant-v0', 'gymnasium.envs.classic_control:PendulumEnv', max_episode_steps=9)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    lively(SAC, env=make_vec_env("Pendulum-v1")).save("plant")
    with pytest.raises(SystemExit, match=r"Plant-v0 cannot be made here: .*If your module registers it, write module:id"):
        main(["export", "plant", "--output", "out", "--env", "Plant-v0"])
    main(["export", "plant", "--output", "out", "--env", "my_plant:Plant-v0"])
    assert "5,000 of them recorded from the environment" in capsys.readouterr().out


def test_a_run_of_a_study(tmp_path, capsys):
    run = ppo_run()
    train(run, tmp_path / "runs" / "one")
    main(["export", str(tmp_path / "runs" / "one"), "--output", str(tmp_path / "out")])
    assert "10,000 observations, 5,000 of them recorded from the environment" in capsys.readouterr().out


def test_actions_of_another_kind(tmp_path, capsys):
    """A LunarLander that is steered continuously, by an option that only its run's settings know."""
    train(sac_run(env="LunarLander-v3", env_kwargs={"continuous": True}), tmp_path / "one")
    main(["export", str(tmp_path / "one"), "--output", str(tmp_path / "out")])
    assert "5,000 of them recorded from the environment" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"actions are Box.*, and LunarLander-v3 has Discrete\(4\)"):
        main(["export", str(tmp_path / "one"), "--output", str(tmp_path / "out"), "--env", "LunarLander-v3"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.zip"], "'none.zip' is neither a file nor the name of an agent"),
        (["model.zip", "--name", "2nd"], "name is '2nd'; it must be a name in C"),
        (["model.zip", "--format", "onnx", "--name", "left"], "--name is for --format c"),
        ([], "Name a model to export"),
        (["model.zip", "--report"], "Name a model to export or give --report"),
        (["model.zip", "--format", "onnx", "--int8"], "--int8 is for --format c"),
        (["model.zip", "--env", "CartPole-v1"], "--env CartPole-v1: The agent observes"),
        (["model.zip", "--env", "NoSuch-v0"], "--env NoSuch-v0: NoSuch-v0 cannot be made"),
    ],
)
def test_errors(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lively().save("model.zip")
    with pytest.raises(SystemExit, match=re.escape(f"sb3-span export: {message}")):
        main(["export", *arguments, "--output", "out"])
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))
def test_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "ENVIRONMENTS", ("CartPole-v1",))
    main(["export", "--report", "--output", str(tmp_path)])
    rows = [line.split(",") for line in (tmp_path / "deploy.csv").read_text().splitlines()]
    assert rows[0] == ["environment", "network", "flash", "ram", "instructions", "ns", "difference"]
    span, mlp, span_int8, mlp_int8 = (dict(zip(rows[0], row, strict=True)) for row in rows[1:])
    assert [span["network"], mlp_int8["network"]] == ["SPAN", "MLP int8"]
    assert float(span["difference"]) == float(mlp["difference"]) == 0
    assert span_int8["flash"] != span["flash"] and span_int8["difference"] != span["difference"]
    # 44 and 43 floats; what else is in the flash is code.
    assert 44 * 4 < int(span["flash"]) < 1_000 and 43 * 4 < int(mlp["flash"]) < 1_000
    assert int(span["instructions"]) < 2 * int(mlp["instructions"])
    assert "sb3-span export --report" in (tmp_path / "deploy.md").read_text()
    assert "SPAN / MLP" in capsys.readouterr().out
