"""A study as one table: everything that a report needs, complete or refused."""

import gzip
import json
import shutil

import numpy as np
import pytest
import yaml

from sb3_span.cli import main
from sb3_span.report.load import load_study
from sb3_span.study.folder import read_stored
from sb3_span.study.packed import PACKED
from tests.study.runs import make_plan, ppo_run, sac_run
from tests.study.test_folders import drop_row, write_record, write_study

RUNS = [ppo_run(600, seed=0), ppo_run(600, seed=1), sac_run(400, seed=0), sac_run(400, seed=1)]


@pytest.fixture
def live(tmp_path):
    """Finished, unfinished, just begun, and from before evaluations were timed."""
    folder = tmp_path / "live"
    write_study(folder, *RUNS)
    write_record(folder, RUNS[0], [(200, 30.0), (400, 60.0), (600, 90.125)])
    (folder / "runs" / RUNS[1].key / "evaluations.csv").unlink()
    old = folder / "runs" / RUNS[2].key / "evaluations.csv"
    old.write_text("step,train_seconds,return_0,return_1,return_2\n200,30.000,-1234.568,1e-05,3\n")
    return folder


def assert_same(one, other):
    assert one.records.keys() == other.records.keys() and not one.broken and not other.broken
    for key, record in one.records.items():
        assert record.settings == other.records[key].settings
        for name in ("steps", "train_seconds", "eval_seconds", "returns"):
            np.testing.assert_array_equal(getattr(record, name), getattr(other.records[key], name), strict=True)


def test_what_is_packed_is_read(live, tmp_path, capsys):
    packed = tmp_path / "packed"
    main(["study", "pack", "--folder", str(live), "--output", str(packed)])
    assert {path.name for path in packed.iterdir()} == {"study.yml", PACKED}
    assert_same(read_stored(live), read_stored(packed))
    assert "4 runs are in" in capsys.readouterr().out
    for folder in (live, packed):
        main(["report", str(folder)])
    pages = [(folder / "report" / "report.md").read_text() for folder in (live, packed)]
    assert pages[0] == pages[1] and "Finished: 1 of 4 runs; unfinished: 2; no evaluation yet: 1" in pages[0]
    main(["study", "status", "--folder", str(packed)])  # models are not asked for
    assert "Pendulum-v1" in capsys.readouterr().out


def test_the_same_records_give_the_same_file(live, tmp_path):
    for name in ("a", "b"):
        main(["study", "pack", "--folder", str(live), "--output", str(tmp_path / name)])
    assert (tmp_path / "a" / PACKED).read_bytes() == (tmp_path / "b" / PACKED).read_bytes()


def test_the_runs_may_go(live):
    before = read_stored(live)
    main(["study", "pack", "--folder", str(live)])
    assert_same(before, read_stored(live))
    shutil.rmtree(live / "runs")
    assert_same(before, read_stored(live))


def test_a_study_with_a_hole_is_not_packed(live, tmp_path):
    drop_row(live / "runs" / RUNS[0].key / "evaluations.csv")
    with pytest.raises(SystemExit, match=r"Nothing was packed: .*evaluations.csv lacks the evaluation at step 400"):
        main(["study", "pack", "--folder", str(live), "--output", str(tmp_path / "packed")])
    assert not (tmp_path / "packed").exists()


def edit(folder, change):
    path = folder / PACKED
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(change(lines)).encode()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [line for line in lines if ",,400,60" not in line], "lacks the evaluation at step 400"),
        (lambda lines: [line.replace(",90.125,", ",x,") for line in lines], "could not convert string to float: 'x'"),
        (
            lambda lines: [line.replace('""steps"": 600', '""steps"": 400') for line in lines],
            "which the run's settings do not ask",
        ),
        (
            lambda lines: [line.replace(",90.125,45.062,1,2,3", ",90.125,45.062,1,2") for line in lines],
            "does not have 3 returns",
        ),
    ],
)
def test_a_table_with_a_hole_is_not_reported_as_whole(live, change, message):
    main(["study", "pack", "--folder", str(live)])
    shutil.rmtree(live / "runs")
    edit(live, change)
    study = load_study(live)
    assert message in study.broken[RUNS[0].key] and PACKED in study.broken[RUNS[0].key]
    assert RUNS[2].key in {run.key for run in study.runs}


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: b"not a table", lambda data: gzip.compress(b"a,b\n")]
)
def test_a_damaged_table(live, damage):
    main(["study", "pack", "--folder", str(live)])
    shutil.rmtree(live / "runs")
    (live / PACKED).write_bytes(damage((live / PACKED).read_bytes()))
    with pytest.raises(SystemExit, match=rf"{PACKED} is damaged or not a table of evaluations"):
        main(["report", str(live)])


def test_a_packed_study_does_not_go_on(live, tmp_path):
    """Its runs would start over."""
    main(["study", "pack", "--folder", str(live)])
    shutil.rmtree(live / "runs")
    file = tmp_path / "study.yml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(make_plan(*RUNS).resolved))))
    for command in (["run", str(file)], ["gather", str(tmp_path / "other")], ["pack"]):
        with pytest.raises(SystemExit, match="is packed: it has the records of its runs"):
            main(["study", *command, "--folder", str(live)])
