"""What is kept in results is enough to recompute what is said about it."""

from pathlib import Path

import pytest

from sb3_span.report.load import load_study
from sb3_span.report.page import markdown
from sb3_span.report.scores import final_returns, iqm
from sb3_span.report.sections import build_sections, progress

RESULTS = Path(__file__).parents[2] / "results"


def rows(text, envs):
    """Of a report's tables, those with numbers."""
    return [line for line in text.splitlines() if line.startswith(tuple(f"| {env} |" for env in envs))]


@pytest.mark.parametrize("name", ["hopper", "slope"])
def test_a_report_is_made_again_from_its_table(name, tmp_path):
    folder = RESULTS / name
    study = load_study(folder)
    page = markdown(f"Report of the study {study.name}", build_sections(study, tmp_path))
    assert len(rows(page, study.envs)) > 10
    assert rows(page, study.envs) == rows((folder / "report" / "report.md").read_text(), study.envs)


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
