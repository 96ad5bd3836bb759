"""Folders of studies, without workers: gather, status, retry, and the databases in them."""

import contextlib
import json
import os
import shutil
import subprocess

import pytest
import yaml

from sb3_span.cli import main
from sb3_span.study.folder import read_stored
from sb3_span.study.queue import Queue
from sb3_span.study.records import Evaluation, write_evaluations
from sb3_span.study.run import train
from sb3_span.study.status import remaining_seconds
from sb3_span.study.training import Interrupted
from tests.study.runs import make_plan, ppo_run, sac_run
from tests.study.test_command import assert_complete, evaluations
from tests.study.test_run import StopAt


def write_record(folder, run, rows):
    path = folder / "runs" / run.key
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.zip").touch()
    (path / "run.json").write_text(json.dumps(run.settings()))
    write_evaluations(path, [Evaluation(step, seconds, 0.5 * seconds, [1, 2, 3]) for step, seconds in rows])
    return path


def write_study(folder, *runs):
    """A study's folder in which every run has its first evaluation."""
    folder.mkdir(exist_ok=True)
    (folder / "study.yml").write_text(yaml.safe_dump(make_plan(*runs).resolved))
    return [write_record(folder, run, [(200, 30.0)]) for run in runs]


def test_looking_at_records_leaves_no_database(tmp_path, capsys):
    run = ppo_run(200)
    (tmp_path / "study.yml").write_text(yaml.safe_dump(make_plan(run).resolved))
    train(run, tmp_path / "runs" / run.key)
    main(["study", "status", "--folder", str(tmp_path)])
    main(["study", "retry", "--folder", str(tmp_path)])
    assert "0 failed runs are queued again" in capsys.readouterr().out
    assert not (tmp_path / "study.db").exists()


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


def test_gathering_runs_that_go_on_meanwhile(tmp_path, monkeypatch, capsys):
    """Their checkpoints come and go: a file that vanishes is tried again, and then costs one run, not all of them."""
    runs = [ppo_run(400, seed=seed) for seed in range(2)]
    _, under_way = write_study(tmp_path / "one", *runs)
    gather = ["study", "gather", str(tmp_path / "one"), "--folder", str(tmp_path / "together")]
    vanished = under_way / "agent.zip"
    vanished.symlink_to("gone")  # listed, and not there when it is opened
    with pytest.raises(SystemExit):
        main(gather)
    output = capsys.readouterr().out
    assert f"Left out: {under_way} could not be copied: [Errno 2] No such file or directory: '{vanished}'" in output
    assert "1 runs gathered" in output and "1 left out" in output
    assert {path.name for path in (tmp_path / "together" / "runs").iterdir()} == {runs[0].key}
    copytree = shutil.copytree

    def copy_too_late(*arguments, **options):
        try:
            return copytree(*arguments, **options)
        finally:
            vanished.unlink(missing_ok=True)

    monkeypatch.setattr(shutil, "copytree", copy_too_late)
    main(gather)
    assert "1 runs gathered" in capsys.readouterr().out
    assert evaluations(tmp_path / "together", runs[1]) == 1


def test_gathering_folders_with_seeds_of_their_own(tmp_path, capsys):
    runs = [ppo_run(400, seed=seed) for seed in range(4)]
    machines, together = [tmp_path / "one", tmp_path / "other"], tmp_path / "together"
    for machine, own in zip(machines, (runs[:2], runs[2:]), strict=True):
        write_study(machine, *own)
    gather = ["study", "gather", *map(str, machines), "--folder", str(together)]
    with pytest.raises(SystemExit) as error:
        main(gather)
    assert f"put a study.yml with the seeds of all folders into {together}" in str(error.value)
    assert "Put it back" not in str(error.value)
    # Told what to do, the user does it.
    together.mkdir()
    (together / "study.yml").write_text(yaml.safe_dump(make_plan(*runs).resolved))
    main(gather)
    assert "4 runs gathered" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a%20b", "what?folder", "{here}"])
def test_folders_with_names_that_addresses_do_not_have(name, tmp_path):
    folder = tmp_path / name
    write_study(folder, ppo_run(200))
    (folder / "study.db").touch()
    main(["study", "retry", "--folder", str(folder)])
    assert (folder / "study.db").read_bytes().startswith(b"SQLite")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_damaged_database(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    write_study(tmp_path, ppo_run(200))
    (tmp_path / "study.db").write_text("garbage" * 100)
    with pytest.raises(SystemExit) as error:
        main(["study", "status", "--folder", str(tmp_path)])
    assert f"{tmp_path / 'study.db'} cannot be opened (" in str(error.value)
    assert "If it is damaged, delete it: the study continues from the records." in str(error.value)
    assert "--storage" not in str(error.value)
    (tmp_path / "study.db").unlink()
    main(["study", "status", "--folder", str(tmp_path)])
    assert "CartPole-v1" in capsys.readouterr().out


@pytest.fixture
def read_only(tmp_path):
    """Makes a folder read only: by its mode, and for root, to whom modes are nothing, by a mount."""
    mounted = []

    def protect(folder):
        if os.geteuid():
            folder.chmod(0o555)
            (folder / "study.db").chmod(0o444)
            return
        for options in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
            if subprocess.run(["mount", *options], capture_output=True).returncode:
                pytest.skip("a folder cannot be mounted read-only here")
            mounted[:] = [folder]

    yield protect
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_status_of_a_read_only_folder(tmp_path, read_only, capsys):
    folder, run = tmp_path / "out", ppo_run(200)
    write_study(folder, run)
    with Queue(make_plan(run), f"sqlite:///{folder / 'study.db'}") as queue:
        queue.refill()
        queue.fail(queue.claim().trial_id, "it broke")
    (folder / "runs" / run.key / "evaluations.csv").unlink()
    read_only(folder)
    with pytest.raises(OSError, match=r"Read-only|Permission"):
        (folder / "file").touch()
    main(["study", "status", "--folder", str(folder)])
    assert "it broke" in capsys.readouterr().out


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

    def status():
        main(["study", "status", "--folder", str(tmp_path)])
        lines = capsys.readouterr().out.splitlines()
        return next(line for line in lines if "CartPole-v1" in line).replace("│", " ").split()

    write_record(tmp_path, runs[0], [(200, 30.0)])
    # 200 steps took 30 seconds and their evaluation 15, 600 are left.
    assert status() == ["CartPole-v1", "span", "2", "2", "min", "15", "s"]
    # The database has not heard of it yet.
    write_record(tmp_path, runs[0], [(200, 30.0), (400, 60.0)])
    assert status() == ["CartPole-v1", "span", "1", "1", "1", "min", "30", "s"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: drop_row(path / "evaluations.csv"), "evaluations.csv lacks the evaluation at step 400"),
        (lambda path: (path / "model.zip").unlink(), "has every evaluation but no model.zip: the run is not done"),
        (lambda path: (path / "run.json").write_text("{"), "run.json is not a run's settings"),
    ],
)
def test_a_hole_is_not_done(tmp_path, capsys, damage, message):
    """Status says so, with the file; gather leaves a record with a hole out."""
    runs = [ppo_run(600, seed=seed) for seed in range(2)]
    write_study(tmp_path / "one", *runs)
    paths = [write_record(tmp_path / "one", run, [(200, 30.0), (400, 60.0), (600, 90.0)]) for run in runs]
    with Queue(make_plan(*runs), f"sqlite:///{tmp_path / 'one' / 'study.db'}") as queue:  # which says that they are done
        queue.refill()
        for _ in runs:
            queue.complete(queue.claim().trial_id, 2.0)
    damage(paths[0])
    with pytest.raises(SystemExit, match="1"):
        main(["study", "status", "--folder", str(tmp_path / "one")])
    output = capsys.readouterr().out
    assert message in output and str(paths[0]) in output
    row = next(line for line in output.splitlines() if "CartPole-v1" in line).replace("│", " ").split()
    assert row[:4] == ["CartPole-v1", "span", "1", "1"]  # one done, one failed
    with contextlib.suppress(SystemExit):
        main(["study", "gather", str(tmp_path / "one"), "--folder", str(tmp_path / "together")])
    assert ("1 left out" in capsys.readouterr().out) == ("model.zip" not in message)


def test_of_two_finished_runs_the_one_with_its_model_is_gathered(tmp_path, capsys):
    run, rows = ppo_run(200), [(200, 30.0)]
    for name in ("with", "without"):
        write_study(tmp_path / name, run)
        write_record(tmp_path / name, run, rows)
    (tmp_path / "without" / "runs" / run.key / "model.zip").unlink()
    for name in ("without", "with"):
        main(["study", "gather", str(tmp_path / name), "--folder", str(tmp_path / "together")])
        assert "1 runs gathered" in capsys.readouterr().out
    assert (tmp_path / "together" / "runs" / run.key / "model.zip").exists()


def test_a_study_that_keeps_no_models(tmp_path, capsys):
    run = ppo_run(200)
    (tmp_path / "study.yml").write_text(yaml.safe_dump({**make_plan(run).resolved, "keep_models": False}))
    (write_record(tmp_path, run, [(200, 30.0)]) / "model.zip").unlink()
    main(["study", "status", "--folder", str(tmp_path)])
    assert "failed" not in capsys.readouterr().out.replace("failed ┃", "")


def drop_row(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))


def test_the_time_left_is_judged_by_the_last_evaluations(tmp_path):
    """SAC's first steps are random: they take a tenth of the time here, and say nothing about the others."""
    run = sac_run(4000)
    seconds = [*range(2, 12, 2), *range(30, 130, 20)]
    write_record(tmp_path, run, [(200 * i, second) for i, second in enumerate(seconds, start=1)])
    plan = make_plan(run)
    left = remaining_seconds(plan, read_stored(tmp_path, plan).records)
    assert left == {("Pendulum-v1", "span"): pytest.approx(2000 * 1.5 * 20 / 200)}
