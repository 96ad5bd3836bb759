"""Whole studies with real worker processes, and what may happen to them."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml

from sb3_span.cli import main
from sb3_span.study.command import open_study, run_study
from sb3_span.study.queue import GRACE, Queue
from sb3_span.study.records import read_record
from sb3_span.study.run import train
from sb3_span.study.training import Interrupted
from sb3_span.study.worker import work
from tests.study.clock import Clock, StopAfter, make_older
from tests.study.runs import make_plan, ppo_run, sac_run
from tests.study.test_run import StopAt

ROOT = Path(__file__).parents[2]
QUICK = {"heartbeat": 1, "grace": 4}


@pytest.fixture
def start(tmp_path):
    """Write a study's file and return what runs it."""

    def start_study(*runs, storage=None, n_workers=1, trust=False, **timing):
        file = tmp_path / "study.yml"
        if runs:
            file.write_text(yaml.safe_dump(make_plan(*runs, name=uuid.uuid4().hex).resolved))
        return run_study(file, tmp_path / "out", storage, n_workers, trust, **{**QUICK, **timing})

    return start_study


def assert_complete(folder, *runs):
    """Every run is there with every evaluation, once."""
    for run in runs:
        record = read_record(folder / "runs" / run.key)
        assert list(record.steps) == list(range(200, run.steps + 1, 200)), run.key
        assert (folder / "runs" / run.key / "model.zip").exists()
    assert {path.name for path in (folder / "runs").iterdir()} == {run.key for run in runs}


def without_seconds(text):
    return [line.split(",")[:1] + line.split(",")[3:] for line in text.splitlines()]


def wait_for(condition, what, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def evaluations(folder, run):
    with contextlib.suppress(ValueError):
        return len(read_record(folder / "runs" / run.key).steps)
    return 0


def in_the_middle(folder, run, action):
    """Call something when a run has its second evaluation."""

    def wait_and_act():
        wait_for(lambda: evaluations(folder, run) >= 2, "the second evaluation")
        action()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_a_killed_worker_is_replaced_and_its_run_goes_on(start, tmp_path, storage, capsys):
    run, folder = sac_run(1000), tmp_path / "out"
    found = {}

    def kill():
        found["rows"] = (folder / "runs" / run.key / "evaluations.csv").read_text().splitlines()
        owner = json.loads((folder / "runs" / run.key / "owner.json").read_text())
        os.kill(owner["pid"], signal.SIGKILL)

    saboteur = in_the_middle(folder, run, kill)
    assert start(run, storage=storage)
    saboteur.join()
    assert_complete(folder, run)
    output = capsys.readouterr().out
    assert "killed by the signal SIGKILL" in output and "continues from its checkpoint" in output
    # What was there before is still there: the run did not start over.
    rows = (folder / "runs" / run.key / "evaluations.csv").read_text().splitlines()
    assert rows[: len(found["rows"])] == found["rows"]
    with Queue(open_study(folder), storage) as queue:
        assert queue.states()[run.key].name == "done"


def test_everything_killed_and_the_command_given_again(start, tmp_path):
    run, folder = sac_run(1000), tmp_path / "out"
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(run).resolved))
    script = f"from sb3_span.study.command import run_study; from pathlib import Path; p = Path({str(tmp_path)!r}); "
    script += "run_study(p / 'study.yml', p / 'out', None, 1, heartbeat=1, grace=4)"
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.DEVNULL)
    wait_for(lambda: evaluations(folder, run) >= 2, "the second evaluation")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = read_record(folder / "runs" / run.key)
    assert not before.finished
    with Queue(open_study(folder), f"sqlite:///{folder / 'study.db'}") as queue:
        make_older(queue, 60)
    assert start()
    assert_complete(folder, run)
    after = read_record(folder / "runs" / run.key)
    np.testing.assert_array_equal(after.returns[: len(before.steps)], before.returns)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: what a shell starts in the background ignores it, these tests perhaps too."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, previous)


def test_ctrl_c_saves_and_the_same_command_goes_on(start, tmp_path, capsys, ctrl_c):
    run, folder = sac_run(1000), tmp_path / "out"
    saboteur = in_the_middle(folder, run, ctrl_c)
    assert not start(run)
    saboteur.join()
    assert "saved; the same command continues it" in capsys.readouterr().out
    assert list((folder / "runs" / run.key).glob("checkpoint-*")) and not (folder / "runs" / run.key / "owner.json").exists()
    assert start()
    assert_complete(folder, run)


def test_the_database_is_only_a_convenience(start, tmp_path):
    runs, folder = [ppo_run(400, seed=seed) for seed in range(2)], tmp_path / "out"
    assert start(*runs)
    before = {path: path.read_text() for path in folder.rglob("evaluations.csv")}
    (folder / "study.db").unlink()
    assert start()
    shutil.rmtree(folder / "runs" / runs[1].key)
    assert start()
    assert_complete(folder, *runs)
    # The first run was taken from its folder, the second was run again, with the same seed.
    for path, content in before.items():
        again = path.read_text()
        assert again == content if path.parent.name == runs[0].key else without_seconds(again) == without_seconds(content)


def test_postgresql_goes_away_and_comes_back(start, tmp_path, postgresql_server):
    runs, folder = [ppo_run(6000, seed=seed) for seed in range(2)], tmp_path / "out"

    def outage():
        postgresql_server.stop()
        before = evaluations(folder, runs[0])
        wait_for(lambda: evaluations(folder, runs[0]) >= before + 3, "evaluations without a database")
        postgresql_server.start()

    saboteur = in_the_middle(folder, runs[0], outage)
    assert start(*runs, storage=postgresql_server.url, n_workers=2, grace=60)
    saboteur.join()
    assert_complete(folder, *runs)
    plan = open_study(folder)
    with Queue(plan, postgresql_server.url) as queue:
        trials = queue._study.get_trials()
    assert len(trials) == 2  # nothing was run twice
    for trial in trials:
        assert list(trial.intermediate_values) == list(range(200, 6001, 200))


def test_damaged_runs_fail_by_name_and_the_rest_goes_on(start, tmp_path, capsys):
    half, truncated, healthy = (ppo_run(600, seed=seed) for seed in range(3))
    folder = tmp_path / "out"
    for run in (half, truncated):
        with contextlib.suppress(Interrupted):
            train(run, folder / "runs" / run.key, StopAt(500))
    path = folder / "runs" / half.key / "evaluations.csv"
    path.write_text(path.read_text()[:-9])
    agent = next((folder / "runs" / truncated.key).glob("checkpoint-*/agent.zip"))
    agent.write_bytes(agent.read_bytes()[:3000])
    assert not start(half, truncated, healthy)
    output = " ".join(capsys.readouterr().out.split())
    assert "evaluations.csv, line 3: half written or damaged" in output
    assert f"{agent.parent.name} is damaged" in output
    assert read_record(folder / "runs" / healthy.key).finished
    # Told what to do, the user does it.
    shutil.rmtree(folder / "runs" / half.key)
    shutil.rmtree(agent.parent)
    main(["study", "retry", "--folder", str(folder)])
    assert "2 failed runs are queued again" in capsys.readouterr().out
    assert start()
    assert_complete(folder, half, truncated, healthy)


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "out"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk(start, tmp_path, small_disk, capsys):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(5_300_000))
    big = sac_run(400, policy_kwargs={"span_arch": {"nmodes": 200, "nelems": 50}})
    small = ppo_run(400)
    # With the database on the same disk the workers would wait until there is room again.
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    assert not start(big, small, storage=storage)
    output = "".join(capsys.readouterr().out.split())
    assert "Nospaceleftondevice" in output and str(small_disk / "runs" / big.key) in output
    assert read_record(small_disk / "runs" / small.key).finished
    ballast.unlink()
    main(["study", "retry", "--folder", str(small_disk), "--storage", storage])
    assert start(storage=storage)
    assert_complete(small_disk, big, small)


def test_a_queue_that_is_elsewhere(start, tmp_path, capsys):
    folder, elsewhere = tmp_path / "out", f"sqlite:///{tmp_path / 'elsewhere.db'}"
    assert start(ppo_run(200), storage=elsewhere)
    for command in ("status", "retry"):
        with pytest.raises(SystemExit, match=r"The queue of this study is in sqlite.*elsewhere.db: pass that with --storage"):
            main(["study", command, "--folder", str(folder)])
    with pytest.raises(ValueError, match="pass that with --storage"):
        start()
    assert not (folder / "study.db").exists()


def test_an_error_without_a_message_is_an_error(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError

    monkeypatch.setattr("sb3_span.study.worker.train", fail)
    run = ppo_run(200)
    with Queue(make_plan(run), f"sqlite:///{tmp_path / 'study.db'}") as queue:
        work(queue, tmp_path, threading.Event(), lambda event, details: None)
        assert queue.states()[run.key].error == "ValueError: "


def test_the_error_of_an_earlier_attempt_goes_when_a_run_is_begun_again(tmp_path, monkeypatch):
    """A report lists as failed what has one."""
    errors = []

    def stop(run, folder, *_, **__):
        errors.append((folder / "error.txt").exists())
        raise Interrupted

    monkeypatch.setattr("sb3_span.study.worker.train", stop)
    run, stopped = ppo_run(200), threading.Event()
    (tmp_path / "runs" / run.key).mkdir(parents=True)
    (tmp_path / "runs" / run.key / "error.txt").write_text("ValueError: no such thing\n")
    with Queue(make_plan(run), f"sqlite:///{tmp_path / 'study.db'}") as queue:
        work(queue, tmp_path, stopped, lambda event, details: stopped.set() if event == "stopped" else None)
    assert errors == [False]


DEADLY = """
import os
import gymnasium as gym

class Deadly(gym.Env):
    def __init__(self):
        os._exit(9)

gym.register("Deadly-v0", Deadly)
"""


def test_a_run_in_which_three_workers_die_has_failed(start, tmp_path, monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    (tmp_path / "deadly_env.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    run = dataclasses.replace(ppo_run(200), env="Deadly-v0", gym_packages=("deadly_env",))
    study = {**make_plan(run, name=uuid.uuid4().hex).resolved, "gym_packages": ["deadly_env"]}
    (tmp_path / "study.yml").write_text(yaml.safe_dump(study))
    assert not start(trust=True)
    error = (tmp_path / "out" / "runs" / run.key / "error.txt").read_text()
    assert error == "its worker ended with the exit code 9; 3 have ended in this run\n"


def test_an_idle_worker_takes_over_what_a_dead_one_had(tmp_path, storage, monkeypatch):
    """Also when it comes before the dead one is missed."""
    monkeypatch.setattr("sb3_span.study.worker.train", lambda *_, **__: read_record(trained))
    run, trained = ppo_run(200), tmp_path / "trained"
    train(run, trained)
    clock = Clock(monkeypatch)
    with Queue(make_plan(run, name=uuid.uuid4().hex), storage) as queue:
        queue.refill()
        dead = queue.claim()
        work(queue, tmp_path, StopAfter(clock, queue, 2 * GRACE), lambda event, details: None)
        assert not queue.is_running(dead.trial_id) and queue.states()[run.key].name == "done"


def test_a_study_that_was_changed(start, tmp_path):
    assert start(ppo_run(200))
    file = tmp_path / "study.yml"
    study = yaml.safe_load(file.read_text())
    study["methods"]["span"]["hyperparams"]["CartPole-v1"]["n_epochs"] = 9
    file.write_text(yaml.safe_dump(study))
    with pytest.raises(ValueError, match=r"hyperparams.n_epochs of the run .* is 9, but the study was started with 2"):
        start()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "gone.yml"], "There is no study 'gone.yml'. Name a file, or one of the package's studies"),
        (["run", str(ROOT / "zoo_configs/smoke.yml"), "--workers", "0"], "--workers is 0"),
        (["run", str(ROOT / "zoo_configs/smoke.yml"), "--storage", "nonsense"], "--storage nonsense"),
        (["status"], "has no study.yml"),
        (["retry"], "has no study.yml"),
    ],
)
def test_mistakes(tmp_path, arguments, message):
    with pytest.raises(SystemExit) as error:
        main(["study", *arguments, "--folder", str(tmp_path / "out")])
    assert message in str(error.value)


def test_the_readmes_study_and_its_report(tmp_path):
    folder = tmp_path / "smoke"
    main(["study", "run", str(ROOT / "zoo_configs/smoke.yml"), "--folder", str(folder), "--workers", "2"])
    main(["report", str(folder)])
    text = (folder / "report" / "report.md").read_text()
    assert "all of its 8 runs are in this report" in text
    assert "CartPole-v1" in text and "InvertedPendulum-v5" in text
    assert (folder / "report" / "report.html").stat().st_size > 100_000
