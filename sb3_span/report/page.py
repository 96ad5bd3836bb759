"""A report as Markdown, and as one HTML page that needs nothing else."""

import base64
from pathlib import Path

import jinja2

from sb3_span.report.sections import Section
from sb3_span.report.style import css_variables
from sb3_span.report.tables import Table


def markdown(title: str, sections: list[Section]) -> str:
    """
    :return: The report's text and tables, with its figures beside it in ``figures``
    """
    return _templates().get_template("report.md").render(title=title, sections=sections)


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
    environment.filters["md_cell"] = lambda text: text.replace("|", "\\|")
    return environment


def _csv_link(table: Table) -> str:
    return "data:text/csv;base64," + base64.b64encode(table.csv().encode()).decode()
