"""The report of years that are made by hand: what it says and shows, without EnergyPlus."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from sb3_span.cli import main
from sb3_span.hvac.buildings import DATA_CENTER, DEFAULT
from sb3_span.hvac.years import read_year, write_year, year_file
from sb3_span.study.records import Evaluation, write_evaluations

YEAR = 8760  # a step an hour


def make_year(warm_share, power, reward):
    """A year in which so much of every month is too warm."""
    hours = pd.date_range("1991-01-01 01:00", periods=YEAR, freq="h")
    temperature = np.where(hours.day <= round(warm_share * 30), 28.0, 24.0)
    return pd.DataFrame(
        {
            "month": hours.month,
            "day": hours.day,
            "hour": hours.hour,
            "outdoor_temperature": 12 - 12 * np.cos(2 * np.pi * np.arange(YEAR) / YEAR),
            **dict.fromkeys(DATA_CENTER.zones, temperature),
            "power": power,
            "set_cooling_setpoint": 24.0,
            "reward": reward,
        }
    )


@pytest.fixture
def folder(tmp_path):
    for method, seed, power in (("span", 0, 9000.0), ("span", 1, 11000.0), ("mlp", 0, 12500.0)):
        key = f"{DEFAULT}__{method}__seed{seed}"
        run = tmp_path / "runs" / key
        run.mkdir(parents=True)
        settings = {"key": key, "env": DEFAULT, "method": method, "seed": seed, "steps": 2 * YEAR}
        settings |= {
            "algo": "sac",
            "eval_freq": YEAR,
            "n_eval_episodes": 1,
            "n_parameters": 15859,
            "machine": {"processor": "a slow one"},
        }
        (run / "run.json").write_text(json.dumps(settings))
        write_evaluations(run, [Evaluation(YEAR, 60.0, 30.0, [-1000.0]), Evaluation(2 * YEAR, 360.0, 60.0, [-500.0])])
        write_year(make_year(0.1, power, -0.1), run / year_file(DEFAULT))
    for name, power in (("rule", 10000.0), ("fixed", 20000.0)):
        write_year(make_year(0.0, power, -0.2), tmp_path / "references" / name / year_file(DEFAULT))
    return tmp_path


def table(folder, name):
    return pd.read_csv(folder / "report" / "tables" / f"{name}.csv")


def test_report(folder):
    main(["hvac", "report", str(folder)])
    returns = table(folder, "returns")
    # Fixed set points have -0.2 an hour.
    expected = 1 + returns["return"] / (0.2 * YEAR)
    assert list(returns["normalised_return"]) == pytest.approx(list(expected))
    violations = table(folder, f"violations_{DEFAULT}")
    year = violations[violations.month == "year"].set_index(["controller", "seed"])["outside"]
    assert year["span", 0] == pytest.approx(0.1, abs=0.005) and year["rule", 0] == 0
    assert list(violations[violations.controller == "mlp"]["month"]) == [*map(str, range(1, 13)), "year"]
    power = table(folder, f"power_{DEFAULT}").set_index("month")
    assert power.loc["5", "span"] == 10000
    assert power.loc["5", "saving_span_mlp_pct"] == pytest.approx(20)
    assert power.loc["year", "saving_span_fixed_pct"] == pytest.approx(50)
    cost = table(folder, "cost").set_index("method")
    assert cost.loc["span", "ten_years_hours"] == pytest.approx((60 + 9 * 300) / 3600)
    text = (folder / "report" / "report.md").read_text()
    assert "*paper 9.32*" in text and "*paper 8.1*" in text  # May's violations, April's savings
    figures = {path.name for path in (folder / "report" / "figures").glob("*.png")}
    assert figures == {"returns.png", *(f"{name}_{DEFAULT}.png" for name in ("temperatures", "violations", "power"))}


def test_further_methods(folder):
    key = f"{DEFAULT}__mlp-large__seed0"
    shutil.copytree(folder / "runs" / f"{DEFAULT}__mlp__seed0", folder / "runs" / key)
    settings = json.loads((folder / "runs" / key / "run.json").read_text())
    (folder / "runs" / key / "run.json").write_text(json.dumps({**settings, "key": key, "method": "mlp-large"}))
    main(["hvac", "report", str(folder)])
    assert "MLP-large" in (folder / "report" / "report.md").read_text()


def test_a_month_is_not_compared_with_years(folder):
    file = folder / "runs" / f"{DEFAULT}__mlp__seed0" / year_file(DEFAULT)
    year = read_year(file)
    write_year(year[year["month"] == 7], file)
    with pytest.raises(SystemExit, match=r"have other days \(31 and 365 of them\), so they cannot be compared"):
        main(["hvac", "report", str(folder)])


def test_another_climate_is_no_measure_of_the_returns_in_training(folder):
    """Controlled years may all be on other sites than that of training."""
    for path in folder.rglob(year_file(DEFAULT)):
        path.rename(path.with_name(year_file("SPANDataCenterHot-v0")))
    main(["hvac", "report", str(folder)])
    assert table(folder, "returns")["normalised_return"].isna().all()
    page = (folder / "report" / "report.md").read_text()
    assert f"| {DEFAULT} | fixed |" not in page and "A year on SPANDataCenterHot-v0" in page
    assert not list((folder / "report" / "figures").glob("returns*"))


def test_a_report_without_years_has_the_training(folder):
    for path in folder.glob("*/*/year-*"):
        path.unlink()
    main(["hvac", "report", str(folder)])
    assert list(table(folder, "returns")["return"]) == [-1000, -500] * 3
    assert not list((folder / "report" / "figures").iterdir())


def test_a_damaged_year_is_named(folder, capsys):
    path = folder / "references" / "rule" / year_file(DEFAULT)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SystemExit) as ended:
        main(["hvac", "report", str(folder)])
    assert str(path) in str(ended.value) and "damaged" in str(ended.value)


def test_years_are_read_as_they_were_written(tmp_path):
    year = make_year(0.1, 1234.5, -0.12345)
    for name in ("one", "other"):
        write_year(year, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    write_year(year, tmp_path / year_file(DEFAULT))
    pd.testing.assert_frame_equal(read_year(tmp_path / year_file(DEFAULT)), year, check_dtype=False)
