"""A page as files: one self-contained HTML page, and Markdown with its charts in a folder."""

from __future__ import annotations

import base64
from pathlib import Path

import jinja2

from lab.report.page import Page

CHARTS_NAME = "charts"


def write(page: Page, folder: Path) -> Path:
    """Write both formats into the folder, which is created if necessary; returns the HTML page."""
    charts = folder / CHARTS_NAME
    charts.mkdir(parents=True, exist_ok=True)
    for section in page.sections:
        if section.figure is not None:
            (charts / f"{section.key}.svg").write_text(section.figure)
    (folder / "report.md").write_text(markdown(page))
    (folder / "report.html").write_text(html(page))
    return folder / "report.html"


def html(page: Page) -> str:
    """The page with inline style and charts; it needs no network access."""
    return TEMPLATES.get_template("report.html.j2").render(page=page)


def markdown(page: Page) -> str:
    """The same text and tables; charts are files in `CHARTS_NAME`, as GitHub and others don't show embedded ones."""
    return TEMPLATES.get_template("report.md.j2").render(page=page, charts=CHARTS_NAME)


def cell(text: str) -> str:
    """Text for a cell of a Markdown table.

    >>> cell("a|b")
    'a\\\\|b'
    """
    return text.replace("|", "\\|").replace("\n", " ")


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("lab.report"),
    autoescape=jinja2.select_autoescape(["html.j2"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters["cell"] = cell
TEMPLATES.filters["base64"] = lambda svg: base64.b64encode(svg.encode()).decode()
