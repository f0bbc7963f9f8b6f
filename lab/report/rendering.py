"""A document as files: one HTML page that needs nothing else, and Markdown with its figures beside it."""

from __future__ import annotations

from pathlib import Path

import jinja2

from lab.report.document import Document

HTML_NAME, MARKDOWN_NAME, FIGURES_NAME = "report.html", "report.md", "figures"


def write(document: Document, folder: Path) -> Path:
    """Write both forms into the folder, which is made if need be; returns the HTML page."""
    figures = folder / FIGURES_NAME
    figures.mkdir(parents=True, exist_ok=True)
    for part in document.parts:
        # GitHub and others show no figures that stand in the Markdown itself.
        if part.figure is not None:
            (figures / f"{part.key}.svg").write_text(part.figure)
    (folder / MARKDOWN_NAME).write_text(markdown(document))
    page = folder / HTML_NAME
    page.write_text(html(document))
    return page


def html(document: Document) -> str:
    """The page: its style and figures are in it, and it asks nothing of the network."""
    return _TEMPLATES.get_template("report.html.j2").render(document=document)


def markdown(document: Document) -> str:
    """The same text and tables; figures are files of `FIGURES_NAME`."""
    return _TEMPLATES.get_template("report.md.j2").render(document=document, figures=FIGURES_NAME)


def cell(text: str) -> str:
    """Text for a cell of a Markdown table.

    >>> cell("a|b")
    'a\\\\|b'
    """
    return text.replace("|", "\\|").replace("\n", " ")


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("lab.report"),
    autoescape=jinja2.select_autoescape(["html.j2"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.filters["cell"] = cell
