"""The benchmark runs and writes what it says. How fast anything is, is not tested."""

import csv
import importlib.util

import pytest

from sb3_span.cli import main
from sb3_span.speed import networks, studies, training
from sb3_span.speed.timing import Timing, take_turns
from tests.test_hyperparams import HYPERPARAMS


def test_turns_are_taken_back_and_forth():
    order = []
    timings = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3)
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"
    assert all(len(timing.seconds) == 3 for timing in timings.values())


def test_ratios_are_those_within_a_round():
    mine, other = Timing("mine", [1.0, 20.0, 3.0]), Timing("other", [2.0, 10.0, 3.0])
    assert mine.ratios(other) == [0.5, 1.0, 2.0]
    assert mine.quartiles(other) == (0.75, 1.0, 1.5)
    assert mine.median == 3.0


@pytest.mark.filterwarnings("ignore")  # torch's profiler, and pykan where it is installed
def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "ENVIRONMENTS", ("CartPole-v1", "InvertedPendulum-v5"))
    monkeypatch.setattr(training, "WITH_DEFAULTS", ("InvertedPendulum-v5",))
    monkeypatch.setattr(training, "VECTORISED", ("CartPole-v1", (8, 16)))
    monkeypatch.setattr(networks, "BATCHES", (8, 128))
    monkeypatch.setattr(networks, "GROWTH", {"batch": ((8, 16), networks.GROWTH["batch"][1])})
    monkeypatch.setattr(studies, "RUNS", (("CartPole-v1", "ppo", 1024, {}),))
    monkeypatch.setattr(studies, "N_EPISODES", 2)
    names = [
        "critics",
        "defaults",
        "growth",
        "machine",
        "memory",
        "predict",
        "training",
        "vectorised",
        "studies",
        "evaluation",
    ]
    if importlib.util.find_spec("d3rlpy") is not None:
        from sb3_span.offline import benchmark as offline

        monkeypatch.setattr(offline, "ENVIRONMENTS", ("AdroitHandDoor-v1",))
        monkeypatch.setattr(offline, "N_EPISODES", 2)
        names += ["offline", "offline_evaluation"]
    main(["speed", "--rounds", "2", "--hyperparams", str(HYPERPARAMS), "--output", str(tmp_path / "out")])
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"{name}.csv" for name in names} | {"speed.png", "networks.png", "tables.md"}
    with (tmp_path / "out" / "training.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["environment"] for row in rows] == ["CartPole-v1", "InvertedPendulum-v5"]
    assert all(float(row["ratio"]) > 0 for row in rows)
    assert all(float(row[f"{prefix}ratio"]) > 0 for row in rows for prefix in ("native_", "native_mlp_"))
    assert all(float(row["env_us"]) > 0 for row in rows)
    printed = " ".join(capsys.readouterr().out.split())  # without the line breaks of a narrow screen
    assert "SPAN relative to MLP" in printed
    tables = (tmp_path / "out" / "tables.md").read_text()
    assert "| InvertedPendulum-v5, SAC |" in tables and f"**{float(rows[1]['native_ratio']):.2f}**" in tables
    assert "With the default settings of each" in tables and "## Studies" in tables
    has_sbx = importlib.util.find_spec("sbx") is not None
    assert has_sbx == ("sbx_us" in rows[0]) == ("SBX, MLP" in tables) and has_sbx != ("SBX is not installed" in printed)

    has_rltools = importlib.util.find_spec("rltools") is not None
    assert has_rltools == bool(rows[1].get("rltools_us")) == ("RLtools, MLP" in tables)
    assert has_rltools != ("RLtools is not installed" in printed)

    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "speed.png").unlink()
    arguments = ["speed", "--rounds", "2", "--hyperparams", str(HYPERPARAMS), "--output", str(tmp_path / "out")]
    main([*arguments, "--only", "training", "predict"])
    changed = {path.name for path in (tmp_path / "out").iterdir() if path.read_bytes() != before[path.name]}
    again = {"training.csv", "predict.csv", "speed.png", "tables.md"}
    assert again <= changed <= again | {"machine.csv", "networks.png"}  # which is drawn from the same numbers as read again


def test_errors(tmp_path):
    with pytest.raises(SystemExit, match=r"There is no .*span.yml. Name a folder"):
        main(["speed", "--hyperparams", str(tmp_path), "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"--rounds is 1; a spread needs at least 2"):
        main(["speed", "--rounds", "1"])
    with pytest.raises(SystemExit, match=r"--only is 'trainings'; choose from training, defaults, vectorised, predict"):
        main(["speed", "--only", "trainings", "--hyperparams", str(HYPERPARAMS), "--output", str(tmp_path)])
