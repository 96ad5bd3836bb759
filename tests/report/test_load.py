"""What is read from a study's folder: plans, records, and records that are damaged."""

import json
import re
import shutil

import pytest
import yaml

from sb3_span.report.command import write_report
from sb3_span.report.load import load_study
from sb3_span.report.sections import progress, status_section
from tests.report.studies import EPISODES, EVERY, write_run

HYPERPARAMS = {"policy": "MlpPolicy", "n_timesteps": 50000}


def write_plan(folder, methods, seeds):
    envs = ["CartPole-v1", "Acrobot-v1"]
    plan = {
        "name": "a study",
        "environments": {env: {"algo": "ppo", "steps": 50000} for env in envs},
        "methods": {method: {"hyperparams": dict.fromkeys(envs, HYPERPARAMS)} for method in methods},
        "seeds": seeds,
        "evaluation": {"every": EVERY, "episodes": EPISODES},
    }
    (folder / "study.yml").write_text(yaml.safe_dump(plan, sort_keys=False))


def test_without_a_plan_everything_found_is_the_study(folder):
    study = load_study(folder)
    assert study.methods == ["span", "mlp"]
    assert progress(study) == "Found: 24 finished runs, 0 unfinished."
    assert "no study.yml" in study.remarks[0]


def test_the_plan_gives_order_and_what_is_missing(folder):
    write_plan(folder, ["mlp", "span", "mlp-large"], seeds=6)
    study = load_study(folder)
    assert (study.name, study.methods, study.envs) == ("a study", ["mlp", "span", "mlp-large"], ["CartPole-v1", "Acrobot-v1"])
    assert study.planned["CartPole-v1", "mlp-large"] == 6
    assert "not finished. Finished: 24 of 36 runs; unfinished: 0; no evaluation yet: 12." in progress(study)


def test_unfinished_and_just_started_runs(folder):
    write_plan(folder, ["span", "mlp"], seeds=8)
    write_run(folder, "CartPole-v1", "span", 6, [20] * 3, steps=50000)
    write_run(folder, "CartPole-v1", "span", 7, [], steps=50000)
    study = load_study(folder)
    assert len(study.runs) == 25
    assert "Finished: 24 of 32 runs; unfinished: 1; no evaluation yet: 7." in progress(study)


def test_damaged_records_are_listed_and_the_others_reported(folder):
    runs = folder / "runs"
    evaluations = runs / "CartPole-v1__span__seed0" / "evaluations.csv"
    evaluations.write_text(evaluations.read_text() + "55000,1.0,3")
    (runs / "CartPole-v1__mlp__seed1" / "run.json").write_text(
        '{"env": "CartPole-v1", "steps": 50000, "eval_freq": 5000, "n_eval_episodes": 4}'
    )
    study = load_study(folder)
    assert len(study.runs) == 22
    assert "runs/CartPole-v1__span__seed0/evaluations.csv, line 12" in study.broken["CartPole-v1__span__seed0"]
    assert str(folder) not in study.broken["CartPole-v1__span__seed0"]
    assert "run.json has no key, not a word" in study.broken["CartPole-v1__mlp__seed1"]


@pytest.mark.parametrize("name, value", [("seed", "3"), ("algo", 3)])
def test_settings_of_the_wrong_kind(folder, name, value):
    file = folder / "runs" / "CartPole-v1__span__seed0" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    study = load_study(folder)
    assert len(study.runs) == 23
    assert re.search(rf"run.json has .*{name}, not a", study.broken["CartPole-v1__span__seed0"])


def test_a_hole_is_not_reported_as_whole(folder):
    """One evaluation is missing from the middle of a run, one run is cut short, one is a copy of another."""
    write_plan(folder, ["span", "mlp"], seeds=6)
    hole, short, copy = (folder / "runs" / f"CartPole-v1__span__seed{seed}" for seed in (0, 1, 2))
    lines = (hole / "evaluations.csv").read_text().splitlines(keepends=True)
    (hole / "evaluations.csv").write_text("".join(lines[:3] + lines[4:]))
    (short / "evaluations.csv").write_text("".join(lines[:6]))
    shutil.copytree(folder / "runs" / "CartPole-v1__span__seed3", copy, dirs_exist_ok=True)
    study = load_study(folder)
    assert "runs/CartPole-v1__span__seed0/evaluations.csv lacks the evaluation at step 15000" in study.broken[hole.name]
    assert "is that of another run, CartPole-v1__span__seed3" in study.broken[copy.name]
    assert "not finished. Finished: 21 of 24 runs; unfinished: 1; no evaluation yet: 0." in progress(study)


def test_a_record_with_a_smaller_budget_than_the_plans(folder):
    write_plan(folder, ["span", "mlp"], seeds=6)
    path = folder / "runs" / "CartPole-v1__span__seed0"
    settings = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**settings, "steps": 10000}))
    lines = (path / "evaluations.csv").read_text().splitlines(keepends=True)
    (path / "evaluations.csv").write_text("".join(lines[:3]))
    study = load_study(folder)
    assert "run.json: steps is 10000, but the study has 50000" in study.broken[path.name]
    assert "Finished: 23 of 24 runs" in progress(study)


def test_runs_outside_the_plan_do_not_count_for_it(folder):
    write_plan(folder, ["span", "mlp", "mlp-large"], seeds=4)
    study = load_study(folder)
    assert len(study.runs) == 24 and len(study.unplanned) == 8
    assert "not finished. Finished: 16 of 24 runs; unfinished: 0; no evaluation yet: 8." in progress(study)
    assert "Not in the plan, but reported too: CartPole-v1__span__seed5" in status_section(study).points


def test_a_damaged_run_outside_the_plan_is_not_missed_in_it(folder):
    write_plan(folder, ["span", "mlp"], seeds=5)
    broken = ["CartPole-v1__span__seed0", "CartPole-v1__span__seed5"]  # one of the plan, and one that is not in it
    for name in broken:
        (folder / "runs" / name / "evaluations.csv").write_text("step,train")
    study = load_study(folder)
    assert "Finished: 19 of 20 runs; unfinished: 0; no evaluation yet: 0." in progress(study)
    points = status_section(study).points
    assert [point.split(": ")[:2] for point in points[:2]] == [["Cannot be read and is left out", name] for name in broken]
    assert not any(name in point for name in broken for point in points if "reported too" in point)


def test_failed_runs_are_listed_with_their_error(folder):
    path = write_run(folder, "CartPole-v1", "span", 6, [20] * 3, steps=50000)
    (path / "error.txt").write_text("Traceback (most recent call last):\n  ...\nValueError: no such thing\n")
    assert load_study(folder).failed == {"CartPole-v1__span__seed6": "ValueError: no such thing"}


def test_a_plan_that_cannot_be_read_does_not_hide_the_records(folder):
    plan = "environments: {Nowhere-v0: {algo: ppo}}\nmethods: {span: {hyperparams: {}}}\nseeds: 1\n"
    (folder / "study.yml").write_text(plan)
    study = load_study(folder)
    assert len(study.runs) == 24
    assert "The plan could not be read" in study.remarks[0] and "Nowhere-v0" in study.remarks[0]


def test_names_are_text(folder):
    """In both pages: neither HTML nor links, whatever a study calls its methods and its errors say."""
    name = "<script>alert(1)</script> [a](javascript:b)"
    for seed in range(5):
        write_run(folder, "CartPole-v1", name, seed, [20] * 3)
    path = write_run(folder, "CartPole-v1", "span", 6, [20] * 3, steps=50000)
    (path / "error.txt").write_text("<img src=x onerror=alert(1)>")
    write_report(folder)
    markdown, html = ((folder / "report" / f"report.{form}").read_text() for form in ("md", "html"))
    assert "&lt;script>alert(1)&lt;/script>" in markdown and "&lt;script&gt;alert(1)" in html
    for page in (markdown, html):
        assert "<script>alert" not in page and "<img src=x" not in page
    assert "](javascript" not in markdown


def test_folders_without_results(tmp_path):
    with pytest.raises(ValueError, match=r"There are no records in .*runs\. Give the folder of a study"):
        load_study(tmp_path)
    write_run(tmp_path, "CartPole-v1", "span", 0, [], steps=50000)
    with pytest.raises(ValueError, match=r"None of the 1 runs in .* has an evaluation yet"):
        load_study(tmp_path)


def test_nothing_that_can_be_read(tmp_path):
    path = write_run(tmp_path, "CartPole-v1", "span", 0, [500])
    (path / "run.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"No run in .*runs can be reported; 1 cannot be read, the first being CartPole-v1__span__seed0"
    ):
        load_study(tmp_path)
