"""``sb3-span report``: from a study's folder to tables, figures and a page."""

import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from sb3_span.report.load import load_study
from sb3_span.report.page import html, markdown
from sb3_span.report.sections import build_sections, progress

PARTS = ("tables", "figures")


def write_report(folder: Path) -> Path:
    """
    Write ``report.html``, ``report.md``, ``tables`` and ``figures`` into the study's subfolder ``report``.

    The same records give the same files. The two folders are made anew.

    :param folder: The study's folder
    :return: The page
    """
    console = Console()
    study = load_study(folder)
    output = folder / "report"
    output.mkdir(exist_ok=True)
    # Made beside the old one, which stays if this fails.
    with tempfile.TemporaryDirectory(dir=output) as name:
        new = Path(name)
        for part in PARTS:
            (new / part).mkdir()
        with console.status("Tables and figures ..."):
            sections = build_sections(study, new / "figures")
        for section in sections:
            for table in section.tables:
                (new / "tables" / f"{table.name}.csv").write_text(table.csv())
        title = f"Report of the study {study.name}"
        (new / "report.md").write_text(markdown(title, sections))
        (new / "report.html").write_text(html(title, sections))
        for part in PARTS:
            shutil.rmtree(output / part, ignore_errors=True)
        for path in new.iterdir():
            path.replace(output / path.name)

    console.print(progress(study))
    for name, error in study.broken.items():
        console.print(f"{name} could not be read: {error}", markup=False)
    console.print(f"Written: {output / 'report.html'}", markup=False, soft_wrap=True)
    return output / "report.html"
