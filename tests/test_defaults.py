"""The tables of docs/evidence/defaults.md are those of the records."""

import importlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

REPOSITORY = Path(__file__).parents[1]
RESULTS, PAGE = REPOSITORY / "results", REPOSITORY / "docs" / "evidence" / "defaults.md"
FOLDERS = sorted(file.parent for file in RESULTS.glob("*/tables.md") if "docs/defaults.py" in file.read_text())


def finals(folder, env, method):
    """Mean return of the last evaluation of each seed, read without the package."""
    table = pd.read_csv(folder / "evaluations.csv.gz")
    runs = table[table.run.str.fullmatch(rf"{re.escape(env)}__{method}__seed\d+")]
    last = runs[runs.step == runs.groupby("run").step.transform("max")]
    return last.filter(regex=r"^return_\d+$").mean(axis=1).to_numpy()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_tables_are_what_the_records_give(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(REPOSITORY / "docs")
        tables = importlib.import_module("defaults").tables
    command = f"python docs/defaults.py {folder.relative_to(REPOSITORY)}"
    assert (folder / "tables.md").read_text() == tables(folder), f"{folder.name}/tables.md is old: {command}"


def test_the_page_shows_every_table():
    included = re.findall(r"\{include\} \.\./\.\./results/(\w+)/tables\.md", PAGE.read_text())
    assert sorted(included) == [folder.name for folder in FOLDERS]


def test_returns_and_significance_on_pendulum():
    folder = RESULTS / "untuned"
    text = (folder / "tables.md").read_text().replace("\N{NO-BREAK SPACE}", " ").replace("*", "")
    row = next(line for line in text.splitlines() if line.startswith("| Pendulum-v1"))
    _, _, span, mlp, p, *_ = (cell.strip() for cell in row.strip("|").split(" | "))
    own, sb3 = finals(folder, "Pendulum-v1", "span"), finals(folder, "Pendulum-v1", "mlp-64")
    assert len(own) == len(sb3) == 5
    for cell, returns in ((span, own), (mlp, sb3)):
        mean, std = (float(number.replace(",", "")) for number in cell.split(" ± "))
        assert (mean, std) == pytest.approx((returns.mean(), np.std(returns, ddof=1)), abs=0.51)
    assert p == "< 0.0001" and stats.ttest_ind(own, sb3, equal_var=False).pvalue < 1e-4
