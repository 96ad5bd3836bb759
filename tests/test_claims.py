"""docs/claims.md is what the records say, and its numbers are those of the records."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.report.studies import rising, write_run

REPOSITORY = Path(__file__).parents[1]
RESULTS, PAGE = REPOSITORY / "results", REPOSITORY / "docs" / "claims.md"
VERDICTS = ("holds", "does not hold", "inside the noise", "too few seeds", "not run yet", "cannot be tested here")


@pytest.fixture(scope="module")
def claims():
    """The modules behind docs/claims.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PAGE.parent)
        return {name: importlib.import_module(f"claims.{name}") for name in ("page", "records", "rules", "arrival", "returns")}


@pytest.fixture(scope="module")
def rows():
    """The page's claims: the cells after the claim, by heading and claim."""
    found, heading = {}, ""
    for line in PAGE.read_text().splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 7 and cells[0] not in ("claim", "---") and heading != "Rules" and heading:
            found[heading, cells[0]] = cells[1:]
    return found


def evaluations(folder, env, method):
    """Step and mean return of every evaluation of each seed, read without the package."""
    table = pd.read_csv(folder / "evaluations.csv.gz")
    table["mean"] = table.filter(regex=r"^return_\d+$").mean(axis=1)
    runs = table[table.run.str.fullmatch(rf"{re.escape(env)}__{method}__seed\d+")]
    return [group[["step", "mean"]].to_numpy() for _, group in runs.groupby("run")]


def test_the_page_is_what_the_records_give(claims):
    assert PAGE.read_text() == claims["page"].build(claims["records"].Records(RESULTS)), "docs/claims.md is old: make claims"


def test_every_claim_has_a_verdict_and_a_command(rows):
    assert len(rows) >= 25
    for (heading, claim), (paper, _, _, _, verdict, command) in rows.items():
        assert verdict.strip("*") in VERDICTS, (heading, claim)
        assert re.match("`(study run|speed|hvac train|offline train|make claims)", command), (heading, claim)
        assert paper != "-", (heading, claim)


def test_no_verdict_on_fewer_than_five_seeds(rows):
    few = [cells for cells in rows.values() if (seeds := re.match(r"([\d /]+) seeds", cells[3])) and _least(seeds[1]) < 5]
    assert {cells[4].strip("*") for cells in few} <= {"too few seeds", "not run yet"}


def _least(seeds):
    return min(int(count) for count in seeds.split(" / "))


def test_the_summary_counts_the_rows(rows):
    last = next(line for line in PAGE.read_text().splitlines() if line.startswith("| **all"))
    total, *counts = (int(number) for number in re.findall(r"\d+", last))
    assert total == len(rows)
    verdicts = [cells[4].strip("*") for cells in rows.values()]
    assert counts == [verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts]


def test_steps_and_success_of_cartpole(rows):
    cell = rows["Steps to a share of the expert's score", "CartPole, 100 %: SPAN first"][1]
    texts = []
    for method in ("span", "mlp"):
        runs = evaluations(RESULTS / "evidence", "CartPole-v1", method)
        fifths = []
        for run in runs:
            in_a_row = np.convolve(run[:, 1] >= 500, np.ones(5), mode="valid")
            fifths += [run[4 + int(np.argmax(in_a_row == 5)), 0]] if 5 in in_a_row else []
        texts.append(f"{np.median(fifths) / 1000:g}k ({100 * len(fifths) / len(runs):.0f} %)")
    assert cell == " / ".join(texts)


def test_returns_and_significance_of_acrobot(rows):
    ours, detail, *_ = rows["Differences of final returns", "Acrobot: SPAN higher"][1:]
    span, mlp = (
        np.array([run[-1, 1] for run in evaluations(RESULTS / "evidence", "Acrobot-v1", method)]) for method in ("span", "mlp")
    )
    p = stats.ttest_ind(span, mlp, equal_var=False).pvalue
    d = (span.mean() - mlp.mean()) / np.sqrt((span.var(ddof=1) + mlp.var(ddof=1)) / 2)  # as many seeds of both
    shown = re.fullmatch(r"p (<?)([\d.]+), d (-?[\d.]+)", ours)
    assert p < 1e-4 if shown[1] else float(shown[2]) == pytest.approx(p, rel=0.5, abs=6e-4)
    assert float(shown[3]) == pytest.approx(d, abs=0.006)
    assert [float(text) for text in re.findall(r"-\d+\.\d+", detail)] == pytest.approx([span.mean(), mlp.mean()], abs=0.06)


def test_offline_scores(rows):
    """With D4RL's references of the door."""
    cell = rows["Offline data", "door, expert data: SPAN higher"][1]
    table = pd.read_csv(RESULTS / "offline" / "evaluations.csv.gz")
    door = table[table.run.str.contains("door-expert") & (table.step == table.step.max())]
    returns = door.filter(regex=r"^return_\d+$").mean(axis=1)
    scores = 100 * (returns + 56.512833) / (2880.569309 + 56.512833)
    means = [scores[door.run.str.contains(f"__{method}__")].mean() for method in ("span", "mlp")]
    assert [float(text.split(" ± ")[0]) for text in cell.split(" / ")] == pytest.approx(means, abs=0.06)


def test_the_time_of_a_step(rows):
    table = pd.read_csv(RESULTS / "speed" / "training.csv").set_index("environment")
    cells = rows["Time of a step of training", "Hopper: a step takes longer"]
    ratio, low, high = (table[name]["Hopper-v5"] for name in ("ratio", "ratio_lower", "ratio_upper"))
    assert cells[1:3] == [f"{ratio:.2f}", f"{low:.2f} to {high:.2f}"]
    assert cells[4].strip("*") == ("does not hold" if high < 1 else "holds" if low > 1 else "inside the noise")


@pytest.fixture
def results(tmp_path):
    """Five seeds of both at less than the paper's budget, SPAN at the expert's score early, the MLP late; no plan's runs."""
    for seed in range(5):
        write_run(tmp_path / "evidence", "CartPole-v1", "span", seed, rising(20, 500, 20, 2 + seed))
        write_run(tmp_path / "evidence", "CartPole-v1", "mlp", seed, rising(20, 500, 20, 10 + seed))
    _name(tmp_path / "evidence")
    return tmp_path


def _name(folder):
    """A study's file makes the folder a study; what it plans is left open."""
    settings = "{policy: MlpPolicy, n_timesteps: 1000}"
    methods = "\n".join(f"  {name}: {{hyperparams: {{CartPole-v1: {settings}}}}}" for name in ("span", "mlp"))
    (folder / "study.yml").write_text(
        f"environments:\n  CartPole-v1: {{algo: ppo}}\nmethods:\n{methods}\nseeds: [100]\nname: {folder.name}\n"
    )


def test_longer_runs_of_the_same_settings_take_the_place_of_shorter_ones(claims, results):
    before = claims["records"].Records(results).pair("CartPole-v1")
    assert (before.steps, before.has_paper_steps, before.seeds) == (100_000, False, 5)
    for seed in range(5):
        write_run(results / "later", "CartPole-v1", "span", seed, rising(20, 500, 100, 3))
        write_run(results / "later", "CartPole-v1", "mlp", seed, [20] * 100)
        # Other settings do not count, however long.
        for method in ("span", "mlp"):
            path = write_run(results / "other", "CartPole-v1", method, seed, [500] * 120)
            run = json.loads((path / "run.json").read_text())
            run["hyperparams"]["learning_rate"] = 1e-3
            (path / "run.json").write_text(json.dumps(run))
    _name(results / "later")
    _name(results / "other")
    after = claims["records"].Records(results).pair("CartPole-v1")
    assert (after.steps, after.has_paper_steps, after.mlp[0].final) == (500_000, True, 20)


def test_a_claim_about_the_end_waits_for_the_papers_budget(claims, results):
    records = claims["records"].Records(results)
    final = claims["returns"].at_the_end("CartPole-v1", False, records)
    assert (final.verdict, final.basis) == ("not run yet", "5 seeds, 100k of 500k")
    sooner = claims["arrival"].arrive("CartPole-v1", 100, "SPAN", [0.95, 0.75], records)
    assert (sooner.ours, sooner.verdict) == ("45k (100 %) / 85k (100 %)", "holds")
    other_way = claims["arrival"].arrive("CartPole-v1", 100, "MLP", [0.95, 0.75], records)
    assert other_way.verdict == "does not hold"


def test_rules(claims):
    rules = claims["rules"]
    assert rules.by_test(4, 0.001, 1.0) == "too few seeds"
    assert rules.by_test(5, 0.001, 1.0) == "holds"
    assert rules.by_test(5, 0.001, -1.0) == "does not hold"
    assert rules.by_test(5, float("nan"), 1.0) == rules.by_test(5, 0.05, 1.0) == "inside the noise"
    assert rules.no_difference(20, 20, 0.04) == "does not hold"
    assert rules.no_difference(20, 20, 0.4) == "holds"
    assert rules.no_difference(5, 20, 0.4) == "inside the noise"
    assert rules.reaches(5, 0.1, 0.5, 0.4, none=0) == "holds"
    assert rules.reaches(5, 0.1, 0.3, 0.4, none=0) == "does not hold"
    assert rules.reaches(5, -0.1, 0.5, 0.4, none=0) == "inside the noise"
    assert rules.all_of(["holds", "inside the noise"]) == "inside the noise"
    assert rules.all_of(["holds", "not run yet", "does not hold"]) == "does not hold"
    assert rules.rank_test(np.array([1.0, 2, np.inf]), np.array([np.inf] * 3))[1] < 0


def test_a_median_that_is_never_reached(claims):
    never, late = np.array([100.0, np.inf, np.inf]), np.array([200.0, 300, 400])
    assert claims["arrival"].times_sooner(never, late) == 0
    assert claims["arrival"].times_sooner(late, never) == np.inf
    assert claims["arrival"].times_sooner(never, never) == 1
