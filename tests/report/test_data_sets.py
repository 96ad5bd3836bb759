"""The table of offline scores, from records made by hand."""

import json

import numpy as np
import pytest

from sb3_span.cli import main
from sb3_span.report import data_sets
from sb3_span.report.load import load_study
from tests.report.studies import write_run

DOOR = {"evaluation_env": "AdroitHandDoor-v1", "reference_scores": [-56.512833, 2880.5693087298737]}


def write_offline(folder, dataset, method, seed, final, facts, **options):
    path = write_run(folder, dataset, method, seed, [final], **options)
    settings = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**settings, "algo": "iql", **facts}))


@pytest.fixture
def folder(tmp_path):
    for seed, final in enumerate((2880.5693087298737, -56.512833, 1412.0282378649369)):
        write_offline(tmp_path, "D4RL/door/expert-v2", "span", seed, final, DOOR)
    write_offline(tmp_path, "D4RL/door/expert-v2", "mlp", 0, -56.512833, DOOR)
    write_offline(tmp_path, "D4RL/door/expert-v2", "mlp", 1, 2880.0, DOOR, steps=10_000)  # not finished
    write_offline(tmp_path, "mine/thing-v0", "span", 0, 12.0, {"evaluation_env": "Thing-v3", "reference_scores": None})
    return tmp_path


def test_scores(folder):
    frame = data_sets.scores(load_study(folder)).set_index(["env", "method"])
    span = frame.loc[("D4RL/door/expert-v2", "span")]
    assert (span.task, span.dataset, span.seeds) == ("door", "expert", 3)
    assert span.score == pytest.approx(50) and span.score_std == pytest.approx(50)
    assert (span.paper_score, span.paper_std) == (8.0, 11.6)
    mlp = frame.loc[("D4RL/door/expert-v2", "mlp")]
    assert mlp.seeds == 1 and mlp.score == pytest.approx(0, abs=1e-6) and np.isnan(mlp.score_std)
    assert (mlp.paper_score, mlp.paper_std) == (0.4, 0.0)
    other = frame.loc[("mine/thing-v0", "span")]
    assert np.isnan(other.score) and other.mean_return == 12 and np.isnan(other.paper_score)


def test_table(folder):
    table = data_sets.table(data_sets.scores(load_study(folder)))
    assert table.columns[:4] == ["task", "data set", "SPAN", "MLP"]
    (door, thing) = table.rows
    assert [cell.text for cell in door[:4]] == ["door", "D4RL/door/expert-v2", "50.0 ± 50.0", "0.0"]
    assert [cell.paper for cell in door[2:4]] == ["8.0 ± 11.6", "0.4 ± 0.0"]
    assert [cell.text for cell in thing[:4]] == ["Thing-v3", "mine/thing-v0", "return 12.0", ""]


def test_steps_are_those_of_all_methods(folder):
    path = write_run(folder, "mine/thing-v0", "mlp", 0, [10.0, 12.0])
    settings = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**settings, "algo": "iql", "evaluation_env": "Thing-v3"}))
    table = data_sets.table(data_sets.scores(load_study(folder)))
    assert [row[table.columns.index("steps")].text for row in table.rows] == ["5k", "5k to 10k"]


def test_in_the_report_and_in_the_terminal(folder, monkeypatch, capsys):
    main(["report", str(folder)])
    assert (
        "| door | D4RL/door/expert-v2 | 50.0 ± 50.0<br>*paper 8.0 ± 11.6* |" in (folder / "report" / "report.md").read_text()
    )
    assert "Learning curves" not in (folder / "report" / "report.md").read_text()  # one evaluation is no curve
    assert (folder / "report" / "tables" / "offline_scores.csv").read_text().startswith("env,method,seeds")
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "160")
    main(["offline", "table", str(folder)])
    out = capsys.readouterr().out
    assert "50.0 ± 50.0" in out and "paper 8.0 ± 11.6" in out


def test_a_study_without_offline_runs(tmp_path):
    write_run(tmp_path, "CartPole-v1", "span", 0, [500.0])
    with pytest.raises(SystemExit, match=r"has no finished offline runs yet. Start them with: sb3-span offline train"):
        main(["offline", "table", str(tmp_path)])
    main(["report", str(tmp_path)])
    assert "Offline" not in (tmp_path / "report" / "report.md").read_text()
