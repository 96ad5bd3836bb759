"""A report as Markdown, and as one self-contained HTML page."""

import base64
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import jinja2

from sb3_span.report.sections import Section
from sb3_span.report.style import css_variables
from sb3_span.report.tables import Table

PARTS = ("tables", "figures")


def write_pages(output: Path, title: str, build: Callable[[Path], list[Section]]) -> None:
    """
    Write ``report.html``, ``report.md``, ``tables`` and ``figures``, made next to the old ones, which remain if that fails.

    :param output: The report's folder
    :param build: From the folder for figures to the sections
    """
    output.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as name:
        new = Path(name)
        for part in PARTS:
            (new / part).mkdir()
        sections = build(new / "figures")
        for section in sections:
            for table in section.tables:
                (new / "tables" / f"{table.name}.csv").write_text(table.csv())
        (new / "report.md").write_text(markdown(title, sections))
        (new / "report.html").write_text(html(title, sections))
        for part in PARTS:
            shutil.rmtree(output / part, ignore_errors=True)
        for path in new.iterdir():
            path.replace(output / path.name)


def markdown(title: str, sections: list[Section], only_text: str = "") -> str:
    """
    :param only_text: For a page alone, without the folders ``figures`` and ``tables``: where these are, in a sentence
    :return: The report's text and tables, with links to both folders
    """
    return _templates().get_template("report.md").render(title=title, sections=sections, only_text=only_text)


def html(title: str, sections: list[Section]) -> str:
    """
    :return: The whole report with its figures and, for download, its tables
    """
    template = _templates().get_template("report.html")
    colors = {"light": css_variables(dark=False), "dark": css_variables(dark=True)}
    return template.render(title=title, sections=sections, colors=colors, csv_link=_csv_link)


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["slug"] = lambda title: title.lower().replace(" ", "-")
    environment.filters["md"] = _plain
    environment.filters["md_cell"] = lambda text: _plain(text).replace("|", "\\|")
    return environment


def _plain(text: str) -> str:
    """Markdown in which a name or an error is neither HTML nor a link."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(")


def _csv_link(table: Table) -> str:
    return "data:text/csv;base64," + base64.b64encode(table.csv().encode()).decode()
