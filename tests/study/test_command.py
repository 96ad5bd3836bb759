"""Whole studies with real worker processes, and what may happen to them."""

import contextlib
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

import numpy as np
import pytest
import yaml

from sb3_span.cli import main
from sb3_span.study.command import open_study, run_study
from sb3_span.study.queue import Queue
from sb3_span.study.records import read_record, write_evaluations
from sb3_span.study.run import train
from sb3_span.study.training import Interrupted
from sb3_span.study.worker import work
from tests.study.runs import make_plan, ppo_run, sac_run
from tests.study.test_run import StopAt

ROOT = Path(__file__).parents[2]
QUICK = {"heartbeat": 1, "grace": 4}


@pytest.fixture
def start(tmp_path):
    """Write a study's file and return what runs it."""

    def start_study(*runs, storage=None, n_workers=1, **timing):
        file = tmp_path / "study.yml"
        if runs:
            file.write_text(yaml.safe_dump(make_plan(*runs, name=uuid.uuid4().hex).resolved))
        return run_study(file, tmp_path / "out", storage, n_workers, **{**QUICK, **timing})

    return start_study


def assert_complete(folder, *runs):
    """Every run is there with every evaluation, once."""
    for run in runs:
        record = read_record(folder / "runs" / run.key)
        assert list(record.steps) == list(range(200, run.steps + 1, 200)), run.key
        assert (folder / "runs" / run.key / "model.zip").exists()
    assert {path.name for path in (folder / "runs").iterdir()} == {run.key for run in runs}


def without_seconds(text):
    return [line.split(",")[:1] + line.split(",")[2:] for line in text.splitlines()]


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
    assert "killed by the signal SIGKILL" in output and "goes on from its checkpoint" in output
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
    assert "saved, goes on with the same command" in capsys.readouterr().out
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
        time.sleep(6)
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
    assert "2 failed runs wait again" in capsys.readouterr().out
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
        with pytest.raises(SystemExit, match=r"The queue of this study is in sqlite.*elsewhere.db: give that with --storage"):
            main(["study", command, "--folder", str(folder)])
    with pytest.raises(ValueError, match="give that with --storage"):
        start()
    assert not (folder / "study.db").exists()


def test_looking_at_records_leaves_no_database(tmp_path, capsys):
    run = ppo_run(200)
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(run).resolved))
    train(run, tmp_path / "runs" / run.key)
    main(["study", "status", "--folder", str(tmp_path)])
    main(["study", "retry", "--folder", str(tmp_path)])
    assert "0 failed runs wait again" in capsys.readouterr().out
    assert not (tmp_path / "study.db").exists()


def test_an_error_without_a_message_is_an_error(tmp_path, monkeypatch):
    def fail(*args):
        raise ValueError

    monkeypatch.setattr("sb3_span.study.worker.train", fail)
    run = ppo_run(200)
    with Queue(make_plan(run), f"sqlite:///{tmp_path / 'study.db'}") as queue:
        work(queue, tmp_path, threading.Event(), lambda event, details: None)
        assert queue.states()[run.key].error == "ValueError: "


def test_an_idle_worker_takes_over_what_a_dead_one_had(tmp_path, storage, monkeypatch):
    """Also when it comes before the dead one is missed."""
    monkeypatch.setattr("sb3_span.study.worker.train", lambda run, folder, watcher: read_record(trained))
    run, trained = ppo_run(200), tmp_path / "trained"
    train(run, trained)
    stop = threading.Event()
    too_late = threading.Timer(60, stop.set)
    too_late.start()
    with Queue(make_plan(run, name=uuid.uuid4().hex), storage, **QUICK) as queue:
        queue.refill()
        dead = queue.claim()
        work(queue, tmp_path, stop, lambda event, details: None)
        too_late.cancel()
        assert not queue.is_running(dead.trial_id) and queue.states()[run.key].name == "done"


def test_a_study_that_was_changed(start, tmp_path):
    assert start(ppo_run(200))
    file = tmp_path / "study.yml"
    study = yaml.safe_load(file.read_text())
    study["methods"]["span"]["hyperparams"]["CartPole-v1"]["n_epochs"] = 9
    file.write_text(yaml.safe_dump(study))
    with pytest.raises(ValueError, match=r"hyperparams.n_epochs of the run .* is 9, but the study was started with 2"):
        start()


def test_gathering_from_several_machines(tmp_path, capsys):
    runs = [ppo_run(400, seed=seed) for seed in range(3)]
    machines = [tmp_path / "one", tmp_path / "other"]
    for machine in machines:
        machine.mkdir()
        (machine / "study.yml").write_text(yaml.safe_dump(make_plan(*runs).resolved))
    train(runs[0], machines[0] / "runs" / runs[0].key)
    with contextlib.suppress(Interrupted):
        train(runs[1], machines[0] / "runs" / runs[1].key, StopAt(300))
    train(runs[1], machines[1] / "runs" / runs[1].key)
    train(runs[2], machines[1] / "runs" / runs[2].key)
    together = tmp_path / "together"
    main(["study", "gather", *map(str, machines), "--folder", str(together)])
    assert_complete(together, *runs)
    main(["study", "gather", str(machines[0]), "--folder", str(together)])
    assert "0 runs gathered" in capsys.readouterr().out
    # One that is damaged does not keep the others from being gathered.
    path = machines[0] / "runs" / runs[0].key / "evaluations.csv"
    path.write_text(path.read_text()[:-5])
    shutil.rmtree(together / "runs" / runs[1].key)
    with pytest.raises(SystemExit):
        main(["study", "gather", *map(str, machines), "--folder", str(together)])
    output = capsys.readouterr().out
    assert "evaluations.csv, line 3: half written" in output and "1 left out" in output
    assert_complete(together, *runs)
    # One that is damaged where they are gathered is replaced.
    path = together / "runs" / runs[2].key / "evaluations.csv"
    path.write_text(path.read_text()[:-5])
    main(["study", "gather", str(machines[1]), "--folder", str(together)])
    assert_complete(together, *runs)


def test_gathering_a_study_that_has_grown(tmp_path, capsys):
    """In whichever order its folders are named; folders of another study are refused before anything is copied."""
    runs = [ppo_run(200, seed=seed) for seed in range(2)]
    for name, own in (("small", runs[:1]), ("grown", runs), ("other", [ppo_run(200, seed=0, n_epochs=9)])):
        folder = tmp_path / name
        (folder / "runs").mkdir(parents=True)
        (folder / "study.yml").write_text(yaml.safe_dump(make_plan(*own).resolved))
    train(runs[1], tmp_path / "grown" / "runs" / runs[1].key)
    for i, names in enumerate((["small", "grown"], ["grown", "small"])):
        main(["study", "gather", *(str(tmp_path / name) for name in names), "--folder", str(tmp_path / f"together{i}")])
        assert "1 runs gathered" in capsys.readouterr().out
        main(["study", "gather", str(tmp_path / "small"), "--folder", str(tmp_path / f"together{i}")])
    with pytest.raises(SystemExit, match=r"other and .*grown are not folders of the same study"):
        main(["study", "gather", str(tmp_path / "grown"), str(tmp_path / "other"), "--folder", str(tmp_path / "mixed")])
    assert not (tmp_path / "mixed").exists()


def test_errors_with_brackets(tmp_path, capsys):
    """What looks like markup is printed as it is."""
    run = ppo_run(200)
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(run).resolved))
    with Queue(make_plan(run), f"sqlite:///{tmp_path / 'study.db'}") as queue:
        queue.refill()
        queue.fail(queue.claim().trial_id, "[enforce fail at a.cpp:1] bad [/tmp/x]")
    main(["study", "status", "--folder", str(tmp_path)])
    assert "[enforce fail at a.cpp:1] bad [/tmp/x]" in capsys.readouterr().out


def test_status(tmp_path, capsys):
    runs = [ppo_run(400, seed=seed) for seed in range(2)]
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(*runs).resolved))
    folder = tmp_path / "runs" / runs[0].key
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(runs[0].settings()))

    def status():
        main(["study", "status", "--folder", str(tmp_path)])
        lines = capsys.readouterr().out.splitlines()
        return next(line for line in lines if "CartPole-v1" in line).replace("│", " ").split()

    write_evaluations(folder, [[200, 30.0, 1, 2, 3]])
    # 200 steps took 30 seconds, 600 are left.
    assert status() == ["CartPole-v1", "span", "2", "1", "min", "30", "s"]
    # The database has not heard of it yet.
    write_evaluations(folder, [[200, 30.0, 1, 2, 3], [400, 60.0, 1, 2, 3]])
    assert status() == ["CartPole-v1", "span", "1", "1", "1", "min", "00", "s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "gone.yml"], "gone.yml: No such file"),
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
