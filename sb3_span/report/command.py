"""``sb3-span report``: from a study's folder to tables, figures and a page."""

from pathlib import Path

from rich.console import Console

from sb3_span.report.load import load_study
from sb3_span.report.page import write_pages
from sb3_span.report.sections import build_sections, progress


def write_report(folder: Path) -> Path:
    """
    Write ``report.html``, ``report.md``, ``tables`` and ``figures`` into the study's subfolder ``report``.

    The same records give the same files. The two folders are replaced.

    :param folder: The study's folder
    :return: The page
    """
    console = Console()
    study = load_study(folder)
    output = folder / "report"
    with console.status("Tables and figures ..."):
        write_pages(output, f"Report of the study {study.name}", lambda figures: build_sections(study, figures))
    console.print(progress(study))
    for name, error in study.broken.items():
        console.print(f"{name} could not be read: {error}", markup=False)
    console.print(f"Written: {output / 'report.html'}", markup=False, soft_wrap=True)
    return output / "report.html"
