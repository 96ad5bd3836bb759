"""What executes code says so and asks; reading records executes nothing."""

import dataclasses
import json
import pickle
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch as th
import yaml
from stable_baselines3 import HerReplayBuffer

from sb3_span.cli import main
from sb3_span.study.plan import read_plan
from sb3_span.study.run import StudyManager, train
from sb3_span.study.trust import check_runnable, foreign_code
from sb3_span.study.zoo_strings import NotPlainError, read_zoo_string
from tests.study.runs import make_plan, ppo_run
from tests.study.test_folders import write_record

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dict(norm_obs=True, norm_reward=False)", {"norm_obs": True, "norm_reward": False}),
        (
            "dict(net_arch=dict(pi=[4, 3], vf=[4, 4]), activation_fn=nn.Tanh, ortho_init=False)",
            {"net_arch": {"pi": [4, 3], "vf": [4, 4]}, "activation_fn": th.nn.Tanh, "ortho_init": False},
        ),
        ("dict(log_std_init=-2, optimizer_class=th.optim.Adam)", {"log_std_init": -2, "optimizer_class": th.optim.Adam}),
        ("{'a': (1, 2.5e-3), 'b': None}", {"a": (1, 2.5e-3), "b": None}),
        ("HerReplayBuffer", HerReplayBuffer),
        ("  dict()  ", {}),
    ],
)
def test_strings_of_the_zoo(text, value):
    assert read_zoo_string(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "dict(a=open('x'))",
        "dict(**{'a': 1})",
        "[x for x in (1, 2)]",
        "nn.Module.__subclasses__()",
        "nn.init.os",
        "nn.functional.relu",
        "th.load",
        "f'{1}'",
        "2 ** 3 ** 9",
        "dict(",
        "-" * 5000 + "1",
        "dict" * 5000,
        "b'bytes'",
    ],
)
def test_strings_that_only_python_could_evaluate(text):
    with pytest.raises(NotPlainError, match="is more than plain data"):
        read_zoo_string(text)


@pytest.mark.parametrize("path", sorted((ROOT / "zoo_configs").rglob("*.yml")), ids=lambda path: path.stem)
def test_shipped_studies_need_no_trust(path):
    assert not [what for run in read_plan(path).runs for what in foreign_code(run)]


@pytest.mark.parametrize("path", sorted((ROOT / "hyperparams").glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_hyperparameters_need_no_trust(path):
    entries = yaml.safe_load(path.read_text())
    assert entries
    for env, entry in entries.items():
        run = dataclasses.replace(ppo_run(), env=env, hyperparams=entry)
        assert not list(foreign_code(run))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"gym_packages": ("local_module",)}, "gym_packages imports the module 'local_module'"),
        ({"gym_packages": ("os",)}, "gym_packages imports the module 'os'"),
        ({"policy_kwargs": "dict(a=print())"}, "policy_kwargs for CartPole-v1: 'dict\\(a=print"),
        ({"callback": {"subprocess.Popen": {"args": "true", "shell": True}}}, "callback .* names 'subprocess.Popen'"),
        ({"env_wrapper": ["gymnasium.wrappers.TimeLimit", "local_module.Wrapper"]}, "env_wrapper .* 'local_module.Wrapper'"),
        ({"policy": "torch.hub.load"}, "policy .* names 'torch.hub.load', which is no BasePolicy"),
        ({"policy_kwargs": {"activation_fn": "os.system"}}, "activation_fn .* names 'os.system'"),
        ({"vec_env_wrapper": "local.Wrapper"}, "vec_env_wrapper .* names 'local.Wrapper'"),
    ],
)
def test_what_needs_trust(tmp_path, change, what):
    run = ppo_run(200)
    if "gym_packages" in change:
        run = dataclasses.replace(run, **change)
    else:
        run = dataclasses.replace(run, hyperparams={**run.hyperparams, **change})
    with pytest.raises(ValueError, match=f"executes code.*{what}.*--trust"):
        train(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"env_wrapper": [{"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 7}}]},
        {"callback": ["stable_baselines3.common.callbacks.EveryNTimesteps", "rl_zoo3.callbacks.RawStatisticsCallback"]},
        {"vec_env_wrapper": "stable_baselines3.common.vec_env.VecMonitor"},
        {"policy_kwargs": {"activation_fn": "torch.nn.Tanh"}},
        {"learning_rate": "lin_0.0045"},
    ],
)
def test_what_needs_none(change):
    run = ppo_run(200)
    assert not list(foreign_code(dataclasses.replace(run, hyperparams={**run.hyperparams, **change})))


def test_python_in_a_string_with_trust():
    """Then it is the Zoo that evaluates it."""
    run = ppo_run(policy_kwargs="dict(span_arch=dict(nmodes=1 + 1, nelems=3))")
    with pytest.raises(NotPlainError):
        StudyManager(run).make_agent()
    manager = StudyManager(run, trust=True)
    agent = manager.make_agent()
    assert agent.policy_kwargs["span_arch"] == {"nmodes": 2, "nelems": 3}
    agent.env.close()


CODE = """
from pathlib import Path
Path({marker!r}).touch()
import gymnasium
if "Local-v0" not in gymnasium.registry:
    gymnasium.register("Local-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A study's folder with code in every place where some was once executed, and the working folder beside it."""
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    marker = tmp_path / "executed"
    for module in ("local_module", "psycopg2", "sinergym"):
        (tmp_path / f"{module}.py").write_text(CODE.format(marker=str(marker)))
    run = dataclasses.replace(ppo_run(400), env="Local-v0", gym_packages=("local_module",))
    run.hyperparams["policy_kwargs"] = f"dict(a=open({str(marker)!r}, 'w'))"
    study = {**make_plan(run).resolved, "gym_packages": ["local_module"]}
    folder = tmp_path / "folder"
    path = write_record(folder, run, [(200, 30.0), (400, 60.0)])
    (folder / "study.yml").write_text(yaml.safe_dump(study))
    for name in ("vecnormalize.pkl", "model.zip"):
        (path / name).write_bytes(pickle.dumps(Bomb(marker)))
    yield folder
    sys.modules.pop("local_module", None)


def test_reading_a_downloaded_folder_executes_nothing(downloaded, tmp_path, capsys):
    main(["study", "status", "--folder", str(downloaded)])
    assert "Local-v0" in capsys.readouterr().out
    main(["study", "retry", "--folder", str(downloaded)])
    main(["study", "gather", str(downloaded), "--folder", str(tmp_path / "together")])
    main(["report", str(downloaded)])
    assert "all of its 1 run are" in (downloaded / "report" / "report.md").read_text()
    assert not (tmp_path / "executed").exists()
    with pytest.raises(SystemExit, match=r"study.yml: The study executes code .*'local_module'.*--trust"):
        main(["study", "run", str(downloaded / "study.yml"), "--folder", str(tmp_path / "other")])
    assert not (tmp_path / "executed").exists() and not (tmp_path / "other").exists()


def test_a_local_module_with_trust(downloaded, tmp_path):
    plan = dataclasses.replace(read_plan(downloaded / "study.yml"), trusted=True)
    sys.path.append(str(tmp_path))
    check_runnable(plan, downloaded / "study.yml")
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gym_packages": ["sb3_span.no_such_part"]}, "gym_packages: No module named 'sb3_span.no_such_part'"),
        ({}, "environments.Nowhere-v7: Gymnasium does not know it .* under gym_packages"),
    ],
)
def test_environments_that_are_not_there(tmp_path, change, message):
    run = dataclasses.replace(ppo_run(200), env="Nowhere-v7")
    file = tmp_path / "study.yml"
    file.write_text(yaml.safe_dump({**json.loads(json.dumps(make_plan(run).resolved)), **change}))
    with pytest.raises(ValueError, match=rf"study.yml: {message}"):
        check_runnable(read_plan(file), file)
