"""``sb3-span hvac`` on real EnergyPlus, with years of one day."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from sb3_span.cli import main
from sb3_span.hvac.training import train
from sb3_span.hvac.years import read_year
from sb3_span.study.records import read_record
from tests.hvac.sites import N_STEPS, ONE_DAY, needs_energyplus, processes_with, simulations
from tests.hvac.test_energyplus import make_installation

pytestmark = needs_energyplus
ROOT = Path(__file__).parents[2]
DAYS = ["--first-day", ONE_DAY["first_day"], "--last-day", ONE_DAY["last_day"]]
SITE = "SPANDataCenter-v0"


@pytest.fixture
def hyperparams(tmp_path):
    """The paper's, but they learn from the first day."""
    folder = tmp_path / "hyperparams"
    folder.mkdir()
    entries = yaml.safe_load((ROOT / "hyperparams" / "span.yml").read_text())
    entry = {**entries[SITE], "learning_starts": 100, "buffer_size": 2000}
    (folder / "span.yml").write_text(yaml.safe_dump({SITE: entry}))
    return folder


def test_train_evaluate_report(hyperparams, tmp_path, capfd):
    folder = tmp_path / "records"
    command = ["hvac", "train", "--method", "span", "--years", "2", "--seeds", "0", "--folder", str(folder), *DAYS]
    command += ["--hyperparams", str(hyperparams), "--evaluate-on", "Eplus-datacenter_cw-hot-continuous-v1"]
    main(command)
    run = folder / "runs" / f"{SITE}__span__seed0"
    record = read_record(run)
    assert list(record.steps) == [N_STEPS, 2 * N_STEPS]  # an evaluation after each training year
    assert record.settings["n_parameters"] == 15859
    hot = read_year(run / "year-SPANDataCenterHot-v0.csv.gz")
    assert {path.name for path in (folder / "references").iterdir()} == {"rule", "fixed"}
    fixed = read_year(folder / "references" / "fixed" / "year-SPANDataCenterHot-v0.csv.gz")
    assert set(fixed["set_cooling_setpoint"]) == {23.0}
    main(command)  # all done: nothing is trained or simulated again
    assert capfd.readouterr().out.count("Written") == 3

    main(["hvac", "evaluate", str(run)])  # on the site and the days of training
    year = read_year(run / f"year-{SITE}.csv.gz")
    assert len(year) == N_STEPS
    # The last evaluation of training was of the same agent.
    assert year["reward"].sum() == pytest.approx(record.returns[-1, 0], rel=1e-4)
    assert set(zip(year["month"], year["day"], strict=True)) == {(7, 1)}
    with pytest.raises(SystemExit, match=r"not the days that the agent was trained on.*--output"):
        main(["hvac", "evaluate", str(run), "--first-day", "07-01", "--last-day", "07-02"])
    assert hot["outdoor_temperature"].mean() > year["outdoor_temperature"].mean() + 3
    main(["hvac", "report", str(folder)])
    assert "SPANDataCenterHot-v0" in (folder / "report" / "report.md").read_text()
    out = capfd.readouterr().out
    assert "ENVIRONMENT" not in out and "Simulation Progress" not in out  # neither log lines nor bars of the simulation
    assert not simulations()


def test_a_failed_simulation_goes_on_from_its_checkpoint(hyperparams, tmp_path, monkeypatch):
    """In training the second year's EnergyPlus dies; the same command goes on after the first."""
    folder = tmp_path / "records"
    options = {"folder": folder, "hyperparams": hyperparams, "days": ONE_DAY}
    marker = tmp_path / "site" / "failed"
    marker.parent.mkdir()
    # Read by every Python that starts: the second simulated year, that of training, dies at its 50th message.
    (marker.parent / "sitecustomize.py").write_text(
        "import sys, pathlib\n"
        "if any(part.endswith('year.py') for part in sys.orig_argv):\n"
        f"    started = pathlib.Path({str(marker)!r})\n"
        "    started.write_text((started.read_text() if started.exists() else '') + 'x')\n"
        "    if len(started.read_text()) == 2:\n"
        "        import os, multiprocessing.connection as c\n"
        "        receive, n = c.Connection.recv, [0]\n"
        "        def recv(self):\n"
        "            n[0] += 1\n"
        "            if n[0] == 50: os._exit(1)\n"
        "            return receive(self)\n"
        "        c.Connection.recv = recv\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{marker.parent}{os.pathsep}{ROOT}")
    assert not train(SITE, ["span"], 2, [0], **options)
    run = folder / "runs" / f"{SITE}__span__seed0"
    assert "SimulationError: EnergyPlus has ended before the year has" in (run / "error.txt").read_text()
    (before,) = (run / "evaluations.csv").read_text().splitlines()[1:]
    assert train(SITE, ["span"], 2, [0], **options)
    after = (run / "evaluations.csv").read_text().splitlines()[1:]
    assert len(after) == 2 and after[0] == before


def test_ctrl_c_leaves_no_energyplus(hyperparams, tmp_path):
    command = [sys.executable, "-m", "sb3_span.cli", "hvac", "train", "--method", "span", "--seeds", "0"]
    command += ["--folder", str(tmp_path / "records"), "--hyperparams", str(hyperparams)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # inherited by what is started
    try:
        process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, handler)
    while not list(tmp_path.glob("sb3-span-hvac-*/*/episode-1/output/eplusout.err")):
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 1 and "stopped" in out
    assert not list(tmp_path.glob("sb3-span-hvac-*"))
    assert not processes_with(f"TMPDIR={tmp_path}", "year.py")


def test_example():
    """It prints what it and both references made of three days."""
    command = [sys.executable, ROOT / "examples" / "datacenter.py"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    returns = dict(re.findall(r"^(\w+) +return +(-\d+)", done.stdout, flags=re.MULTILINE))
    assert list(returns) == ["SPAN", "rule", "fixed"]
    assert int(returns["SPAN"]) > 1.3 * int(returns["fixed"])


def test_a_zoo_folder_tells_the_climate_and_the_days(tmp_path, capfd):
    from stable_baselines3 import SAC

    from sb3_span.hvac import make_env

    folder = tmp_path / "SPANDataCenterHot-v0_1"
    (folder / "SPANDataCenterHot-v0").mkdir(parents=True)
    (folder / "SPANDataCenterHot-v0" / "config.yml").write_text(yaml.safe_dump({"env_kwargs": ONE_DAY}))
    model = SAC("SPANPolicy", make_env("SPANDataCenterHot-v0", **ONE_DAY), buffer_size=10, device="cpu")
    model.save(folder / "SPANDataCenterHot-v0.zip")
    main(["hvac", "evaluate", str(folder)])
    assert "on SPANDataCenterHot-v0: return" in capfd.readouterr().out
    assert len(read_year(folder / "year-SPANDataCenterHot-v0.csv.gz")) == N_STEPS


def test_another_version_of_energyplus_is_an_error_to_read(tmp_path, monkeypatch):
    monkeypatch.setenv("EPLUS_PATH", str(make_installation(tmp_path / "old", "24.1.0")))
    for command in (["train", "--folder", str(tmp_path / "records")], ["evaluate", "rule"]):
        with pytest.raises(SystemExit, match=r"is written for EnergyPlus .*, and .* has version 24.1"):
            main(["hvac", *command])
    assert not (tmp_path / "records").exists()


def test_a_model_of_another_building_is_refused(tmp_path, hyperparams):
    from stable_baselines3 import SAC

    from sb3_span.hvac import make_env

    model = SAC("SPANPolicy", make_env("SPANFiveZone-v0", **ONE_DAY), buffer_size=10, device="cpu")
    model.save(tmp_path / "office.zip")
    with pytest.raises(SystemExit, match="trained on 17 readings, and SPANDataCenter-v0 has 41"):
        main(["hvac", "evaluate", str(tmp_path / "office.zip"), "--evaluate-on", SITE, *DAYS])
