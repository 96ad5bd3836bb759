"""What is kept in results is enough to recompute what is said about it."""

import importlib
import re
from pathlib import Path

import pytest

from sb3_span.report.load import load_study
from sb3_span.report.scores import final_returns, iqm
from sb3_span.report.sections import progress

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", ["hopper", "slope"])
def test_a_report_is_made_again_from_its_table(name, monkeypatch):
    monkeypatch.syspath_prepend(RESULTS.parent / "docs")
    page = importlib.import_module("reports").page(RESULTS / name)
    assert page.count("\n|") > 30
    assert page == (RESULTS / name / "report" / "report.md").read_text(), "the report is old: make reports"


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*/report/report.md")), ids=lambda path: path.parents[1].name)
def test_reports_link_to_what_is_kept(page):
    for link in re.findall(r"\]\((figures/[^)]+|tables/[^)]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_verdicts_of_the_evidence():
    """The numbers that the documentation cites, from 160 runs."""
    study = load_study(RESULTS / "evidence")
    assert progress(study) == "The study is finished: all of its 160 runs are in this report."
    page = (RESULTS / "evidence" / "report" / "report.md").read_text()
    for row in final_returns(study).itertuples():
        line = next(line for line in page.splitlines() if line.startswith(f"| {row.env} |") and row.verdict in line)
        assert f"{row.first_mean:.1f}" in line or f"{row.first_mean:,.0f}" in line, line
    aggregate = iqm(study).query("env == 'aggregate'").set_index("method")
    assert all(f"{value:.3f}" in page or f"{value:.2f}" in page for value in aggregate["iqm"])


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in RESULTS.glob("*/evaluations.csv.gz")), ids=lambda path: path.name
)
def test_every_table_can_be_read(folder):
    study = load_study(folder)
    assert study.runs and not study.broken and not study.unplanned
    assert all(run.finished for run in study.runs)
