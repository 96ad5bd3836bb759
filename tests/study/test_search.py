"""A search: the same number of trials for each method, and a search that was stopped goes on."""

import csv
import dataclasses
import math

import numpy as np
import optuna
import pytest
import yaml

from sb3_span.cli import main
from sb3_span.scores.references import area_under_curve
from sb3_span.study import search
from sb3_span.study.plan import read_plan
from sb3_span.study.queue import sqlite_url
from sb3_span.study.records import read_record
from tests.study.runs import PPO, SPAN

STUDY = {
    "environments": {"CartPole-v1": {"algo": "ppo", "steps": 256}},
    "methods": {
        "span": {"hyperparams": {"CartPole-v1": {**PPO, **SPAN, "learning_rate": 0.001}}},
        "mlp": {"hyperparams": {"CartPole-v1": {**PPO, "policy": "MlpPolicy", "policy_kwargs": {"net_arch": [4]}}}},
    },
    "seeds": [100, 101],
    "evaluation": {"every": 128, "episodes": 2},
    "search": {
        "span": {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "span_arch.nmodes": {"low": 1, "high": 3}},
        "mlp": {"n_epochs": [1, 2], "policy_kwargs.activation_fn": ["torch.nn.Tanh", "torch.nn.ReLU"]},
    },
}


def write(folder, **changes):
    file = folder / "search.yml"
    file.write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False))
    return file


def rows(folder):
    with (folder / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def test_trials_of_each_method(tmp_path, capsys):
    arguments = ["study", "search", str(write(tmp_path)), "--folder", str(tmp_path / "found")]
    main([*arguments, "--trials", "1"])
    main([*arguments, "--trials", "3"])
    found = rows(tmp_path / "found")
    assert [row["method"] for row in found] == ["span"] * 3 + ["mlp"] * 3
    assert {row["state"] for row in found} == {"complete"}
    # What the file has comes first.
    assert float(found[0]["learning_rate"]) == 0.001 and found[0]["span_arch.nmodes"] == "2"
    assert len({row["learning_rate"] for row in found[:3]}) == 3
    best = yaml.safe_load((tmp_path / "found" / "best.yml").read_text())
    scores = [float(row["score"]) for row in found]
    assert best["span"]["score"] == pytest.approx(max(scores[:3]), abs=1e-4)
    assert best["mlp"]["score"] == pytest.approx(max(scores[3:]), abs=1e-4)
    assert set(best["mlp"]) == {"score", "n_epochs", "policy_kwargs.activation_fn"}
    assert "The best of each method" in capsys.readouterr().out
    # A trial trains with its settings, and its score is what its records say.
    folders = [tmp_path / "found" / "runs" / f"CartPole-v1__span__trial=2__seed{seed}" for seed in (100, 101)]
    records = [read_record(folder) for folder in folders]
    assert records[0].settings["hyperparams"]["learning_rate"] == float(found[2]["learning_rate"])
    assert str(records[0].settings["hyperparams"]["policy_kwargs"]["span_arch"]["nmodes"]) == found[2]["span_arch.nmodes"]
    assert float(found[2]["score"]) == pytest.approx(
        np.mean([area_under_curve("CartPole-v1", record.returns.mean(axis=1)) for record in records]), abs=1e-4
    )


@pytest.mark.parametrize("begins", ["badly", "well"])
def test_bad_trials_are_given_up_on(begins, tmp_path, monkeypatch):
    """After the first trials, one that does worse than the others' median on all environments gets no second seed."""
    trained = []

    def train(run, folder, **_):
        trained.append(run.key)
        is_bad = len(trained) > 4 * search.N_RANDOM and (run.env == "Acrobot-v1" or begins == "badly")
        returns = np.full((2, 2), (20.0 if is_bad else 400.0) if run.env == "CartPole-v1" else -500.0 if is_bad else -100.0)
        return dataclasses.make_dataclass("Record", ["returns"])(returns)

    monkeypatch.setattr(search, "train", train)
    environments = {env: {"algo": "ppo", "steps": 256} for env in ("CartPole-v1", "Acrobot-v1")}
    methods = {"span": {"hyperparams": dict.fromkeys(environments, STUDY["methods"]["span"]["hyperparams"]["CartPole-v1"])}}
    file = write(tmp_path, environments=environments, methods=methods, search={"span": STUDY["search"]["span"]})
    search.run_search(file, tmp_path / "found", search.N_RANDOM + 1)
    found = rows(tmp_path / "found")
    assert [row["state"] for row in found] == ["complete"] * search.N_RANDOM + ["pruned"]
    assert len(trained) == 4 * search.N_RANDOM + 2


def test_settings_that_break_and_an_interruption(tmp_path, monkeypatch):
    """Training that breaks is a trial's result; one that was interrupted is not, and is repeated with its runs."""
    outcomes = iter([KeyboardInterrupt(), ValueError("broke"), math.nan, 100.0, KeyboardInterrupt(), 100.0, 100.0])
    keys = []

    def train(run, folder, **_):
        keys.append(run.key)
        outcome = next(outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return dataclasses.make_dataclass("Record", ["returns"])(np.full((2, 2), outcome))

    monkeypatch.setattr(search, "train", train)
    file = write(tmp_path, search={"span": STUDY["search"]["span"]})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search.run_search(file, tmp_path / "found", 3)
    search.run_search(file, tmp_path / "found", 3)
    found = rows(tmp_path / "found")
    assert [row["state"] for row in found] == ["fail", "fail", "fail", "fail", "complete"]
    assert found[3]["learning_rate"] == found[4]["learning_rate"]
    assert keys == [
        f"CartPole-v1__span__trial={i}__seed{seed}"
        for i, seed in [(0, 100)] * 2 + [(2, 100), (3, 100), (3, 101)] + [(3, 100), (3, 101)]
    ]
    assert not found[0]["error"] and "seed100: ValueError('broke')" in found[1]["error"] and "not finite" in found[2]["error"]
    # The file's own settings come first, and were interrupted: they come again.
    assert found[0]["learning_rate"] == found[1]["learning_rate"] == "0.001" != found[2]["learning_rate"]


def test_a_method_whose_trials_all_fail(tmp_path, monkeypatch):
    def train(run, folder, **_):
        raise ValueError("broke")

    monkeypatch.setattr(search, "train", train)
    with pytest.raises(ValueError, match=r"All trials of span, mlp have failed; the reasons are in .*trials.csv"):
        search.run_search(write(tmp_path), tmp_path / "found", 2)
    assert all("ValueError('broke')" in row["error"] for row in rows(tmp_path / "found"))


def test_a_misspelt_option(tmp_path):
    with pytest.raises(ValueError, match=r"CartPole-v1__span__seed100: .*nmode"):
        search.run_search(write(tmp_path, search={"span": {"span_arch.nmode": [1, 2]}}), tmp_path / "found", 2)
    assert not (tmp_path / "found").exists()


def test_another_process_has_the_last_trial(tmp_path, monkeypatch):
    """It is waited for, not made up for: no method gets more trials than the others."""
    monkeypatch.setattr(search, "train", lambda *_, **__: pytest.fail("there was nothing left to do"))
    file = write(tmp_path, search={"span": STUDY["search"]["span"]})
    (tmp_path / "found").mkdir()
    storage = f"sqlite:///{tmp_path / 'found' / 'search.db'}"
    elsewhere = optuna.create_study(study_name="search-span", storage=storage, direction="maximize")
    elsewhere.enqueue_trial({"learning_rate": 0.001, "span_arch.nmodes": 2}, user_attrs={search.BASE: True})
    trial = elsewhere.ask()
    waited = []

    def finish(seconds):
        waited.append(seconds)
        elsewhere.tell(trial, 0.5)

    monkeypatch.setattr("time.sleep", finish)
    search.run_search(file, tmp_path / "found", 1)
    assert len(waited) == 1
    assert [row["state"] for row in rows(tmp_path / "found")] == ["complete"]


def test_what_is_printed_is_the_trial_that_was_run(tmp_path, monkeypatch, capsys):
    """Another process may begin one meanwhile. The folder has a name that addresses do not have."""
    folder = tmp_path / "what?folder"
    record = dataclasses.make_dataclass("Record", ["returns"])(np.full((2, 2), 500.0))

    def train(run, *_, **__):
        storage = optuna.storages.RDBStorage(sqlite_url(folder / "search.db"))
        if run.seed == 100:
            optuna.load_study(study_name="search-span", storage=storage).add_trial(
                optuna.trial.create_trial(user_attrs={search.ERROR: "of another process"}, state=optuna.trial.TrialState.FAIL)
            )
        storage.engine.dispose()
        return record

    monkeypatch.setattr(search, "train", train)
    search.run_search(write(tmp_path, search={"span": STUDY["search"]["span"]}), folder, 1)
    output = capsys.readouterr().out
    assert "span 0: 1.000" in output and "of another process" not in output
    assert {path.name for path in tmp_path.iterdir()} == {"search.yml", "what?folder"}


def test_a_search_that_was_changed(tmp_path, monkeypatch):
    record = dataclasses.make_dataclass("Record", ["returns"])(np.full((2, 2), 100.0))
    monkeypatch.setattr(search, "train", lambda *_, **__: record)
    wanted = STUDY["search"]["span"]
    search.run_search(write(tmp_path, search={"span": wanted}), tmp_path / "found", 1)
    for change in ({"seeds": [100]}, {"search": {"span": {**wanted, "n_epochs": [1, 2]}}}):
        with pytest.raises(ValueError, match=r"but the search was started with .*searched.yml\). Put it back"):
            search.run_search(write(tmp_path, **{"search": {"span": wanted}, **change}), tmp_path / "found", 2)


def test_returns_on_different_scales(tmp_path):
    environments = {env: {"algo": "ppo", "steps": 256} for env in ("CartPole-v1", "Pendulum-v1")}
    methods = {"span": {"hyperparams": dict.fromkeys(environments, STUDY["methods"]["span"]["hyperparams"]["CartPole-v1"])}}
    file = write(tmp_path, environments=environments, methods=methods, search={"span": STUDY["search"]["span"]})
    with pytest.raises(ValueError, match=r"returns of Pendulum-v1 cannot be put on the scale .*'CartPole-v1'"):
        search.run_search(file, tmp_path / "found", 1)


@pytest.mark.parametrize(
    "wanted, message",
    [
        ({"no": {}}, r"search has an unknown key 'no'; allowed are \['mlp', 'span'\]"),
        ({"mlp": {"span_arch.nmodes": [1]}}, "have no 'span_arch' to vary"),
        ({"span": {"learning_rate": 0.1}}, "search.span.learning_rate is 0.1; a list of choices is needed, or a range"),
        ({"span": {"learning_rate": {"low": 1, "high": 2, "step": 1}}}, "a list of choices is needed, or a range"),
        ({"span": {"learning_rate": {"low": 2, "high": 1}}}, "goes from 2 to 1; two numbers are needed, the lower one first"),
        ({"span": {"learning_rate": {"low": "1e-4", "high": 1}}}, "two numbers are needed"),
        ({"span": {"learning_rate": {"low": 0, "high": 1, "log": True}}}, "on a logarithmic scale; it must begin above 0"),
        (
            {"span": {"learning_rate": {"low": 1, "high": 2, "log": "yes"}}},
            "learning_rate.log is 'yes'; allowed are true and false",
        ),
    ],
)
def test_errors_in_the_file(wanted, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_plan(write(tmp_path, search=wanted))


def test_nothing_to_search(tmp_path):
    with pytest.raises(ValueError, match="has no key 'search'"):
        search.run_search(write(tmp_path, search={}), tmp_path / "found", 1)
    with pytest.raises(ValueError, match="--trials is 0; at least 1 is needed"):
        search.run_search(write(tmp_path), tmp_path / "found", 0)


def test_a_trial_that_another_process_took_for_dead(tmp_path, monkeypatch, capsys):
    """As after a suspend: the result comes too late, the trial is repeated and the search goes on."""
    record = dataclasses.make_dataclass("Record", ["returns"])(np.full((2, 2), 100.0))
    times = []

    def train(run, folder, **_):
        if not times:
            storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'found' / 'search.db'}")
            (trial,) = optuna.load_study(study_name="search-span", storage=storage).trials
            storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
        times.append(run.key)
        return record

    monkeypatch.setattr(search, "train", train)
    search.run_search(write(tmp_path, search={"span": STUDY["search"]["span"]}), tmp_path / "found", 1)
    assert [row["state"] for row in rows(tmp_path / "found")] == ["fail", "complete"]
    assert "another process counted a trial as dead" in capsys.readouterr().out
