"""What people run first runs as it is: the examples, the quickstart, the README's code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(*command, cwd):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "COLUMNS": "120"}
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    if str(command[0]).endswith(".py"):  # an example; code in the documentation begins with SB3, whose import of gym tells
        assert "Gym has been unmaintained" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script, at_least",
    [
        ("ppo", 400),
        ("sac", -200),
        ("dict_observations", 400),
        ("features_extractor", 400),
        ("own_start", -500),
        ("mixed", -400),
    ],
)
def test_example(script, at_least, tmp_path):
    out = run(EXAMPLES / f"{script}.py", cwd=tmp_path)
    returns = re.findall(r"return (-?\d+)", out)
    assert returns and all(int(each) >= at_least for each in returns), out
    assert not list(tmp_path.iterdir())


def test_suspension_example(tmp_path):
    """On roads and a car that it has not seen, SPAN is softer than no force: A, B, E, the bump."""
    rows = {line.split()[0]: line.split()[1:] for line in run(EXAMPLES / "suspension.py", cwd=tmp_path).splitlines()}
    for span, passive in zip(rows["SPAN"], rows["passive"], strict=True):
        assert float(span) < 0.85 * float(passive), rows
    assert not list(tmp_path.iterdir())


def test_notebook(tmp_path, monkeypatch):
    """Top to bottom, with what it says it does; what is stored has no output."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLES / "first_steps.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    match = re.search(r"return (\d+) \+- \d+ with 1\d\d parameters", text)
    assert match and int(match[1]) >= 450, text
    assert "10,000 observations" in text and (tmp_path / "cartpole_c" / "policy.c").is_file()
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_offline_example(minari_folder, tmp_path):
    pytest.importorskip("d3rlpy", reason="the extra 'offline' is not installed")
    from tests.offline.datasets import write_random

    write_random("pendulum/random-v0")
    options = ["--dataset", "pendulum/random-v0", "--steps", 20, "--episodes", 2]
    out = run(EXAMPLES / "offline_iql.py", *options, cwd=tmp_path)
    assert re.search(r"return -\d+ \+- \d+ over 2 episodes", out), out
    assert [path.name for path in tmp_path.iterdir()] == ["minari"]


def test_process_example(tmp_path):
    pytest.importorskip("pcgym", reason="the extra 'process' is not installed")
    out = run(EXAMPLES / "process_control.py", cwd=tmp_path)
    returns = {name: float(value) for name, value in re.findall(r"(\w+) +return (-?[\d.]+)", out)}
    assert returns["NMPC"] > returns["SPAN"] > 2 * returns["NMPC"] - 1 and list(returns) == ["SPAN", "PID", "NMPC"], out


def test_policy_on_a_simulated_board(tmp_path):
    """From training to a loop in C that balances the pole."""
    out = run(EXAMPLES / "export_to_c.py", cwd=tmp_path)
    assert "10,000 observations" in out
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    board = [EXAMPLES / "microcontroller" / name for name in ("controller.c", "board_simulated.c")]
    folders = ["-I", "cartpole", "-I", EXAMPLES / "microcontroller"]
    command = ["cc", *strict, *folders, *board, "cartpole/policy.c", "-lm", "-o", "controller"]
    subprocess.run(command, cwd=tmp_path, check=True)
    out = subprocess.run(["./controller"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    match = re.search(r"stood for (\d+) steps", out)
    assert match and int(match[1]) >= 200, out


def test_quickstart(tmp_path):
    options = ["--seeds", 0, 1, "--steps", 12_000, "--eval-every", 2_000, "--eval-episodes", 2]
    out = run(EXAMPLES / "quickstart.py", *options, cwd=tmp_path)
    rows = {line.split()[1]: line for line in out.splitlines() if line.startswith("│")}
    assert "86" in rows["SPAN"] and "88" in rows["MLP"]
    assert (tmp_path / "quickstart" / "cartpole.png").stat().st_size > 10_000
    lines = (tmp_path / "quickstart" / "evaluations.csv").read_text().splitlines()
    assert lines[0] == "method,seed,step,mean_return"
    assert len(lines) == 1 + 2 * 2 * 6


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start.md"])
def test_code_in_the_documentation(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        short, n = re.subn(r"\.learn\([\d_]+", ".learn(64", block)
        assert n == 1
        run("-W", "ignore", "-c", short, cwd=tmp_path)
