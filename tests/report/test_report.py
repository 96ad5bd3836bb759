"""``sb3-span report``: what is written, and how it reads."""

import io
import math
import re
import shutil
import sys

import pandas as pd
import pytest

from sb3_span.cli import main
from sb3_span.report import statistics
from tests.report.studies import write_run

TABLES = [
    "ablations",
    "after_arrival",
    "anytime",
    "cost_ratios",
    "equal_time",
    "expected_cost",
    "final_returns",
    "iqm",
    "minutes",
    "auc",
    "overview",
    "profiles",
    "sample_efficiency",
    "throughput",
]


@pytest.fixture(scope="module", autouse=True)
def _few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "IQM_RESAMPLES", 100)
        patch.setattr(statistics, "PROFILE_RESAMPLES", 100)
        yield


def report(folder):
    """
    :return: What was written, by its path
    """
    main(["report", str(folder)])
    return {path.relative_to(folder / "report").as_posix(): path.read_bytes() for path in (folder / "report").rglob("*.*")}


@pytest.fixture(scope="module")
def whole(study_folder, tmp_path_factory):
    """A study with an ablation, and its report."""
    folder = shutil.copytree(study_folder, tmp_path_factory.mktemp("whole") / "study")
    for seed in range(2):
        base, cell = {"span_arch.nmodes": 1}, {"span_arch.nmodes": 3}
        write_run(folder, "CartPole-v1", "span", seed, [200 + 10 * seed] * 10, base=base, cell=cell)
    return folder, report(folder)


def test_everything_is_written(whole):
    _, files = whole
    names = ["iqm", "ablation_CartPole-v1_span_nmodes", "profile_Classic-Control"]
    names += [f"{what}_{env}" for what in ("curves", "time", "profile") for env in ("CartPole-v1", "Acrobot-v1")]
    expected = {"report.md", "report.html"} | {f"tables/{name}.csv" for name in TABLES}
    assert set(files) == expected | {f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")}


def test_the_same_records_give_the_same_report(whole, capsys):
    folder, files = whole
    stale = folder / "report" / "figures" / "curves_Hopper-v5.png"
    stale.touch()
    assert report(folder) == files
    assert "Found: 26 finished runs, 0 unfinished." in capsys.readouterr().out


def test_page_needs_nothing_else(whole):
    page = whole[1]["report.html"].decode()
    references = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
    assert references
    assert {reference.split(",")[0].split("#")[0] for reference in references} == {"", "data:text/csv;base64"}
    assert "<script" not in page and "@import" not in page
    assert "prefers-color-scheme: dark" in page and "width=device-width" in page
    # Methods have the page's colours, which differ between light and dark.
    assert "#1b6ca8" not in page[page.index("<main") :] and "var(--method-0)" in page


def test_markdown_has_the_papers_figures_beside_ours(whole):
    text = whole[1]["report.md"].decode()
    assert "| CartPole-v1 | SPAN | 37.5k (100 %)<br>*paper 36k (100 %)* |" in text
    assert "![Learning curves on CartPole-v1 over environment steps](figures/curves_CartPole-v1.png)" in text
    assert "SPAN against MLP, by final returns in 2 environments: better in 2." in text
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) == len(TABLES)
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_tables_say_how_many_seeds_and_steps_are_behind_them(whole):
    folder, _ = whole
    for name in set(TABLES) - {"final_returns", "cost_ratios", "ablations"}:
        frame = pd.read_csv(folder / "report" / "tables" / f"{name}.csv")
        if name == "equal_time":  # at 10 % of the time the slower method had no evaluation yet
            assert set(frame.loc[frame.time_pct == 10, "seeds"]) == {0, 6}
            frame = frame[frame.time_pct > 10]
        assert set(frame["seeds"]) == {6} and set(frame["steps"]) == {50000}, name


def test_one_seed_is_reported_and_nothing_is_concluded(tmp_path):
    write_run(tmp_path, "CartPole-v1", "span", 0, [500] * 10)
    write_run(tmp_path, "CartPole-v1", "mlp", 0, [20] * 10)
    files = report(tmp_path)
    text = files["report.md"].decode()
    assert "too few seeds in 1" in text
    assert "| CartPole-v1 | SPAN | 1.000<br>*paper 1.000 [1.000, 1.000]* |" in text  # an interval needs two seeds
    assert pd.read_csv(io.BytesIO(files["tables/profiles.csv"]))[["low", "high"]].isna().all(axis=None)
    assert "better" not in text.replace("Nothing is called better or worse", "").replace("higher is better", "")


def test_returns_that_are_no_numbers(tmp_path):
    for seed in range(5):
        write_run(tmp_path, "CartPole-v1", "span", seed, [500, math.nan if seed == 4 else 500])
        write_run(tmp_path, "CartPole-v1", "mlp", seed, [20 + seed, 20 + seed])
    text = report(tmp_path)["report.md"].decode()
    assert "- Has returns that are not finite: CartPole-v1__span__seed4" in text
    assert "by final returns in 1 environment: not a number in 1." in text
    assert "inside the noise" not in text
    assert not re.search(r"\bnan\b", text)


def test_the_papers_figures_only_beside_their_like(tmp_path):
    """Hopper-v5 is SAC's in the paper, and its aggregate is over seven environments."""
    for env in ("Hopper-v5", "CartPole-v1"):
        for method in ("span", "mlp"):
            write_run(tmp_path, env, method, 0, [400] * 10)
        base = {"span_arch.nmodes": 8, "learning_rate": 0.001}
        write_run(tmp_path, env, "span", 0, [300] * 10, base=base, cell={"span_arch.nmodes": 6})
    text = report(tmp_path)["report.md"].decode()
    assert "flat at 500" in text and "better median, fewer failures" not in text  # what the paper saw in its ablations
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert any("*paper" in row for row in rows if row.startswith("| CartPole-v1"))
    others = [row for row in rows if row.startswith(("| Hopper-v5", "| aggregate"))]
    assert others and not any("*paper" in row for row in others)
    assert "The paper trained Hopper-v5 with another algorithm: its figures are left out there." in text


def test_what_is_left_out_of_aggregates(folder):
    for method in ("span", "mlp"):
        write_run(folder, "InvertedPendulum-v5", method, 0, [1000] * 10)
    text = report(folder)["report.md"].decode()
    assert (
        "Aggregates are over Acrobot-v1, CartPole-v1: they include the environments in which every method has a finished run "
        "and, where two or more have 5 seeds of every method, only those." in text
    )


def test_budgets_are_those_of_all_methods(tmp_path):
    for seed in range(5):
        write_run(tmp_path, "CartPole-v1", "span", seed, [500] * 20)
        write_run(tmp_path, "CartPole-v1", "mlp", seed, [20] * 10)
    text = report(tmp_path)["report.md"].decode()
    assert "SPAN against MLP, by final returns in 1 environment: different budgets in 1." in text
    assert "Budgets differ from the paper's (CartPole-v1 50k to 100k instead of" in text
    ratios, finals = (text.split(f"### {title}")[1].split("###")[0] for title in ("Ratio of expected costs", "Final returns"))
    assert ratios.count("| 50k to 100k |") == finals.count("| 50k to 100k |") == 1


def test_cells_in_which_several_options_differ(tmp_path):
    base = {"span_arch.nmodes": 3, "learning_rate": 0.001}
    write_run(tmp_path, "CartPole-v1", "span", 0, [400], base=base)
    write_run(tmp_path, "CartPole-v1", "span", 0, [300], base=base, cell={"span_arch.nmodes": 1, "learning_rate": 0.01})
    text = report(tmp_path)["report.md"].decode()
    assert "when one option, or several joined by +, is changed" in text and "| nmodes + learning_rate |" in text


def test_a_report_that_fails_leaves_the_old_one(folder, monkeypatch):
    old = folder / "report" / "tables" / "iqm.csv"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    monkeypatch.setattr("sb3_span.report.command.build_sections", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(folder)
    assert list((folder / "report").rglob("*.*")) == [old] and old.read_text() == "old"


def test_one_method_alone(tmp_path):
    for seed in range(5):
        write_run(tmp_path, "CartPole-v1", "span", seed, [500] * 10)
    files = report(tmp_path)
    assert "figures/curves_CartPole-v1.png" in files
    assert "against" not in files["report.md"].decode().split("## Learning curves")[0]


def test_environment_without_an_expert_score(tmp_path):
    for seed in range(5):
        for method, score in (("span", -150 - seed), ("mlp", -200 - seed)):
            write_run(tmp_path, "Pendulum-v1", method, seed, [-1000, score])
    files = report(tmp_path)
    text = files["report.md"].decode()
    assert "No expert score is known for Pendulum-v1: thresholds are left out there." in text
    assert "SPAN against MLP, by final returns in 1 environment: better in 1." in text
    assert {"figures/curves_Pendulum-v1.png", "figures/time_Pendulum-v1.png", "tables/anytime.csv"} <= set(files)
    assert "tables/sample_efficiency.csv" not in files and "tables/iqm.csv" not in files


def test_nothing_finished_yet(tmp_path, capsys):
    for method in ("span", "mlp"):
        write_run(tmp_path, "CartPole-v1", method, 0, [30, 30], steps=100000)
    text = report(tmp_path)["report.md"].decode()
    assert "Found: 0 finished runs, 2 unfinished." in text
    assert "Found: 0 finished runs, 2 unfinished." in capsys.readouterr().out
    # 10 % of the budget was reached, 25 % was not.
    assert "| CartPole-v1 | SPAN | 30<br>*paper 247 ± 141* | -<br>*paper 359 ± 153* |" in text


def test_damaged_records_and_several_machines_are_pointed_out(tmp_path, capsys):
    for seed in range(3):
        path = write_run(tmp_path, "CartPole-v1", "span", seed, [500] * 10)
    (path / "evaluations.csv").write_text("step,train")
    settings = tmp_path / "runs" / "CartPole-v1__span__seed0" / "run.json"
    settings.write_text(settings.read_text().replace("a processor", "another one"))
    page = report(tmp_path)["report.html"].decode()
    assert "runs/CartPole-v1__span__seed2/evaluations.csv, line 1: half written or damaged" in page
    assert "CartPole-v1__span__seed2 could not be read" in capsys.readouterr().out
    assert "These times are from 2 different machines: do not compare them." in page
    assert "processor another one, cores 2, instructions avx2, kernel native (1 run)" in page


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"sb3-span report: There are no records in"):
        main(["report", str(tmp_path)])
    monkeypatch.setitem(sys.modules, "sb3_span.report.command", None)
    with pytest.raises(SystemExit, match=r"extra 'zoo'"):
        main(["report", str(tmp_path)])


def test_pictures_have_room_for_many_methods(tmp_path):
    """Matplotlib warns, which is an error here, when labels and legends leave none for the axes."""
    for i in range(6):
        for seed in range(2):
            write_run(tmp_path, "InvertedPendulum-v5", f"span-with-a-name-{i}", seed, [100 * i + seed] * 3)
    assert "figures/iqm.png" in report(tmp_path)
