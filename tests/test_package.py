"""The package as people get it."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sb3_span

ROOT = Path(__file__).parents[1]
EXTRAS = [
    "rl_zoo3",
    "optuna",
    "mujoco",
    "Box2D",
    "minari",
    "d3rlpy",
    "sinergym",
    "pcgym",
    "casadi",
    "onnx",
    "matplotlib.pyplot",
    "rich",
    "pandas",
    "rliable",
]


def run(*command, **kwargs):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_prints_nothing():
    env = {**os.environ, "SB3_SPAN_KERNEL": "torch"}  # where the native kernel was not built, it says so
    done = subprocess.run([sys.executable, "-c", "import sb3_span"], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == done.stderr == ""


def test_import_needs_and_loads_none_of_the_extras():
    script = "import sys, stable_baselines3; before = set(sys.modules); import sb3_span; "
    script += f"print(set({EXTRAS}) & set(sys.modules) - before)"
    assert run("-c", script).strip() == "set()"


def test_works_without_sb3_contrib():
    """Only asking for what is made for it is an error, which says what to install."""
    script = """
import sys
sys.modules["sb3_contrib"] = None  # as if it were not installed
from stable_baselines3 import A2C
import sb3_span
from sb3_span import *
A2C("SPANPolicy", "CartPole-v1")
for name in ("SPANMaskableActorCriticPolicy", "SPANQRDQNPolicy", "SPANRecurrentActorCriticPolicy", "SPANTQCPolicy"):
    try:
        exec(f"from sb3_span import {name}")
    except ImportError as error:
        print(error)
print(hasattr(sb3_span, "SPANNoSuchPolicy"))
"""
    *errors, last = run("-c", script).strip().splitlines()
    assert len(errors) == 4
    assert all("need sb3-contrib" in error and "pip install 'sb3_span[contrib]'" in error for error in errors)
    assert last == "False"


def test_offline_says_what_it_needs():
    script = """
import sys
sys.modules["d3rlpy"] = None  # as if it were not installed
try:
    import sb3_span.offline
except ImportError as error:
    print(error)
from sb3_span.cli import main
main(["offline", "train", "--dataset", "D4RL/door/expert-v2", "--method", "span"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    for text in (done.stdout, done.stderr):
        assert "pip install 'sb3_span[offline]'" in text
    assert "sb3-span offline: Offline learning needs d3rlpy" in done.stderr


@pytest.mark.parametrize("first, second", [("sb3_span", "sb3_contrib"), ("sb3_contrib", "sb3_span")])
def test_algorithms_of_sb3_contrib_know_the_alias_in_any_order(first, second):
    script = f"import {first}, {second}; print(sb3_contrib.TQC.policy_aliases['SPANPolicy'] is sb3_span.SPANTQCPolicy)"
    assert run("-c", script).strip() == "True"


def test_rooms_do_not_import_those_above_them():
    """Scores are below studies, studies below their report."""
    above = {"scores": ("study", "report", "hvac"), "saved": ("study", "report", "hvac"), "study": ("report", "hvac")}
    for room, others in above.items():
        for file in (ROOT / "sb3_span" / room).rglob("*.py"):
            for other in others:
                assert not re.search(rf"^\s*(from|import) sb3_span\.{other}\b", file.read_text(), re.MULTILINE), (file, other)


def test_offline_learning_has_one_room():
    """Everybody else does without d3rlpy and Minari, and asks for the room only when there is something to do in it."""
    package = ROOT / "sb3_span"
    doors = set()
    for file in package.rglob("*.py"):
        name, text = str(file.relative_to(package)), file.read_text()
        if not name.startswith("offline/"):
            assert not re.search(r"^\s*(from|import) (d3rlpy|minari|gymnasium_robotics)\b", text, re.MULTILINE), name
            assert not re.search(r"^(from|import) sb3_span\.offline\b", text, re.MULTILINE), name
            doors |= {name} if re.search(r"^\s+from sb3_span\.offline\b", text, re.MULTILINE) else set()
    assert doors == {"cli/offline.py", "study/run.py", "speed/command.py"}


def test_nn_imports_torch_only():
    script = "import sys, torch; before = set(sys.modules); sys.modules['sb3_span'] = type(sys)('sb3_span'); "
    script += f"sys.modules['sb3_span'].__path__ = [{str(ROOT / 'sb3_span')!r}]; import sb3_span.nn.budget; "
    script += "print({'gymnasium', 'stable_baselines3'} & set(sys.modules))"
    assert run("-c", script).strip() == "set()"


@pytest.mark.parametrize("kernel", ["native", "torch"])
def test_wheel_works_outside_the_repository(kernel, tmp_path):
    """With a C compiler the wheel has the native kernel; without one it is built all the same."""
    if kernel == "native" and not (shutil.which("gcc") or shutil.which("clang")):
        pytest.skip("there is no C compiler here")
    source = tmp_path / "source"  # a copy: a build leaves files behind that the next one would pick up
    shutil.copytree(ROOT / "sb3_span", source / "sb3_span", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("hyperparams", "zoo_configs", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    compiler = {} if kernel == "native" else {"CC": "false"}
    environment = {**os.environ, "SB3_SPAN_KERNEL": "auto", **compiler}
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"sb3_span-{sb3_span.__version__}-" in wheel.name
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    assert "sb3_span/py.typed" in names
    assert {f"sb3_span/report/templates/report.{form}" for form in ("html", "md")} <= set(names)
    assert {f"sb3_span/scores/data/{name}.csv" for name in ("random_scores", "paper/anytime")} <= set(names)
    assert {"sb3_span/deploy/c/harness.c", "sb3_span/nn/native/span_spline.h"} <= set(
        names
    )  # exported policies are made of these
    assert {"sb3_span/hvac/data/observations.csv", "sb3_span/scores/data/paper/hvac_monthly.csv"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "examples")) or name.endswith("agents/train.py")]
    # What is beside the package in a clone.
    for path in (
        *ROOT.glob("hyperparams/*.yml"),
        *ROOT.glob("zoo_configs/**/*.yml"),
        *ROOT.glob("examples/agents/*.safetensors"),
    ):
        assert f"sb3_span/shipped_files/{path.relative_to(ROOT)}" in names
    if kernel == "native":  # one for this version of Python and all later ones
        assert "-cp311-abi3-" in wheel.name and "sb3_span/nn/native/_native.abi3.so" in names
    # The wheel's own files, not the checkout that an editable install points to.
    script = f"import sys; sys.path.insert(0, {str(site)!r}); import sb3_span; print(sb3_span.__file__); "
    script += "from sb3_span.nn import kernel_info; print(kernel_info()['kernel']); "
    script += "from stable_baselines3 import PPO; PPO('SPANPolicy', 'CartPole-v1', n_steps=64).learn(64)"
    script += "; from sb3_span.shipped import find_study; print(find_study('smoke')); from sb3_span.cli import main; "
    script += "main(['watch', 'cartpole', '--episodes', '1'])"
    environment.pop("DISPLAY", None)
    out = run("-c", script, cwd=tmp_path, env=environment).splitlines()
    assert out[0].startswith(str(site))
    assert out[1] == kernel
    assert out[2] == str(site / "sb3_span" / "shipped_files" / "zoo_configs" / "smoke.yml")
    assert "CartPole-v1: return 500.0" in out[-1]
