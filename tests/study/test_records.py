"""Records are written whole, and a damaged one is told from a whole one."""

import json

import numpy as np
import pytest

from sb3_span.atomic_files import written_whole
from sb3_span.study.records import Evaluation, planned_steps, read_record, run_folders, write_evaluations

ROWS = [Evaluation(200, 1.5, 0.25, [10.0, 20.0, 30.0]), Evaluation(400, 3.0, 0.75, [-1234.56789, 1e-3, 500.0])]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "runs" / "a-run"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"steps": 400, "eval_freq": 200, "n_eval_episodes": 3, "env": "CartPole-v1"}))
    write_evaluations(folder, ROWS)
    return folder


def test_what_was_written_is_read(folder):
    record = read_record(folder)
    assert record.settings["env"] == "CartPole-v1"
    np.testing.assert_array_equal(record.steps, [200, 400])
    np.testing.assert_array_equal(record.train_seconds, [1.5, 3.0])
    np.testing.assert_array_equal(record.eval_seconds, [0.25, 0.75])
    np.testing.assert_allclose(record.returns, [row.returns for row in ROWS], rtol=1e-6)
    assert record.finished
    header = (folder / "evaluations.csv").read_text().splitlines()[0]
    assert header == "step,train_seconds,eval_seconds,return_0,return_1,return_2"
    assert run_folders(folder.parents[1]) == [folder]


def test_a_run_is_finished_with_its_last_evaluation(folder):
    write_evaluations(folder, ROWS[:1])
    assert not read_record(folder).finished
    (folder / "evaluations.csv").unlink()
    record = read_record(folder)
    assert not record.finished and record.returns.shape == (0, 3)


def test_a_record_from_before_evaluations_were_timed(folder):
    path = folder / "evaluations.csv"
    whole = read_record(folder)
    path.write_text(
        path.read_text().replace(",eval_seconds", "").replace("1.500,0.250", "1.500").replace("3.000,0.750", "3.000")
    )
    record = read_record(folder)
    assert np.isnan(record.eval_seconds).all() and record.finished
    np.testing.assert_array_equal(record.train_seconds, whole.train_seconds)
    np.testing.assert_array_equal(record.returns, whole.returns)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda text: text[:-7], 3),  # the end is missing
        (lambda text: text[:-2], 3),  # within a number: 50 for 500
        (lambda text: text.replace("400,", "100,"), 3),  # out of order
        (lambda text: text.replace("20,", "twenty,"), 2),
        (lambda text: text.replace("0.250,", ""), 2),
        (lambda text: text.replace(",eval_seconds", ""), 2),
        (lambda text: text.replace("return_1", "return_7"), 1),
        (lambda text: "", 1),
    ],
)
def test_a_half_written_record_names_file_and_line(folder, damage, line):
    path = folder / "evaluations.csv"
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match=f"evaluations.csv, line {line}: half written or damaged"):
        read_record(folder)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([200, 600, 800, 1000], "lacks the evaluation at step 400; needed is one every 200 steps up to 1100, each once"),
        ([1000], r"lacks the evaluation at step 200, 400, 600, \.\.\.; needed"),
        ([200, 300, 400], "has an evaluation at step 300, which the run's settings do not ask for"),
        ([200, 400, 600, 800, 1000, 1100, 1200], "has an evaluation at step 1200"),
    ],
)
def test_a_hole_is_refused_with_its_file(folder, steps, message):
    (folder / "run.json").write_text(json.dumps({"steps": 1100, "eval_freq": 200, "n_eval_episodes": 3}))
    write_evaluations(folder, [ROWS[0]._replace(step=step) for step in steps])
    with pytest.raises(ValueError, match=f"evaluations.csv {message}.*Restore it, or delete it"):
        read_record(folder)


def test_the_evaluations_that_settings_ask_for():
    assert planned_steps({"steps": 1100, "eval_freq": 200}) == [200, 400, 600, 800, 1000, 1100]
    assert planned_steps({"steps": 400, "eval_freq": 200}) == [200, 400]
    assert planned_steps({"steps": 100, "eval_freq": 200}) == [100]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"steps": 3}', '{"steps": "many", "n_eval_episodes": 3}'])
def test_damaged_settings_name_the_file(folder, text):
    (folder / "run.json").write_text(text)
    with pytest.raises(ValueError, match=r"run.json is not a run's settings"):
        read_record(folder)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), written_whole(path) as temporary:
        temporary.write_text("half of the n")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
