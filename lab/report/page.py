"""A report's page and tables, as text."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import yaml

from lab.report.comparison import Values
from lab.report.recorded import Asked, Recording
from lab.report.statistics import Estimate, interval
from lab.report.units import MISSING, unit_of

T = TypeVar("T")
STUDIES = Path(__file__).with_name("studies")
CHARTS = "charts"  # the folder of Markdown's
SPREAD = ("Mean", "Std. deviation", "95 % interval", "n")
TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("lab.report"),
    autoescape=jinja2.select_autoescape(["html.j2"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters["cell"] = lambda text: text.replace("|", "\\|").replace("\n", " ")
TEMPLATES.filters["base64"] = lambda svg: base64.b64encode(svg.encode()).decode()

Study = Mapping[str, Any]
"""A file of `studies`: the repeated publication, its numbers, and the report's texts."""


@dataclass(frozen=True)
class Table:
    """Cells as text, under a head; every row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A section of the page. Title and text are in the study's file by `key`."""

    key: str
    table: Table | None
    """If the table has no rows, the section is left out."""
    figure: str | None = None
    """An SVG file's text; without it, `absent` is the reason."""
    absent: str = ""
    asked: Sequence[Asked] = ()
    """More queries than those of the run."""


@cache
def load_study(name: str) -> Study:
    found: Study = yaml.safe_load((STUDIES / f"{name}.yml").read_text())
    return found


class Page:
    """The page of a recording: one self-contained HTML page, and Markdown with its charts in a folder."""

    def __init__(
        self,
        recording: Recording,
        verdict: Iterable[str],
        sections: Iterable[Section],
        *,
        steps: Table | None = None,
        facts: Mapping[str, str] | None = None,
        overview: Table | None = None,
        remarks: Iterable[tuple[str, str]] = (),
        emulated: Iterable[str] = (),
        platform: str = "",
    ) -> None:
        """
        steps: every value if None.
        overview: the verdict as a table.
        remarks: about single steps or environments, as subject and text.
        platform: selects the differences from the study if its file has them by platform.
        """
        self.title, self.asked, self.overview = recording.title, recording.asked, overview
        self.study = load_study(recording.study)
        done, planned = recording.finished_steps, recording.planned_steps
        incomplete = [f"The run is not complete: {done} of its {planned} steps are recorded."] if done < planned else []
        self.verdict = [*verdict, *incomplete]
        self.facts = [(name, text) for name, text in {**recording.facts, **(facts or {})}.items() if text]
        self.sections = [section for section in sections if section.table is None or section.table.rows]
        self.steps = steps or _every_value(Values(recording.measurements))
        emulation = "runs on emulated hardware: its values show that it works, and no more"
        self.remarks = [*remarks, *((name, emulation) for name in dict.fromkeys(emulated))]
        differences = self.study.get("differences", ())
        self.differences = differences[platform] if platform else differences

    def write(self, folder: Path) -> Path:
        """Write both formats into the folder, which is created if necessary; returns the HTML page."""
        charts = folder / CHARTS
        charts.mkdir(parents=True, exist_ok=True)
        for section in self.sections:
            if section.figure is not None:
                (charts / f"{section.key}.svg").write_text(section.figure)
        (folder / "report.md").write_text(self.markdown())
        (folder / "report.html").write_text(self.html())
        return folder / "report.html"

    def html(self) -> str:
        """The page with inline style and charts; it needs no network access."""
        return TEMPLATES.get_template("report.html.j2").render(page=self)

    def markdown(self) -> str:
        """The same text and tables; charts are files, as GitHub and others don't show embedded ones."""
        return TEMPLATES.get_template("report.md.j2").render(page=self, charts=CHARTS)


Columns = Sequence[tuple[str, Callable[[T], str]]]
"""Heads, and the text in a row."""


def table(rows: Iterable[T], columns: Columns[T], unless_same: str = "") -> Table:
    """A table without empty columns, and without the column `unless_same` if it is the same in every row."""
    head, cells = tuple(name for name, _ in columns), [tuple(write(row) for _, write in columns) for row in rows]
    if not cells:
        return Table(head, ())
    found = [(name, *of) for name, of in zip(head, zip(*cells, strict=True), strict=True) if any(of)]
    first, *rest = zip(*(of for of in found if of[0] != unless_same or len(set(of[1:])) > 1), strict=True)
    return Table(first, tuple(rest))


def spread(of: Estimate | None, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    if of is None:
        return MISSING, "", "", ""
    deviation = "" if of.deviation is None else written(of.deviation)
    return written(of.value), deviation, interval(of, written), str(of.n)


def _every_value(of: Values) -> Table:
    """Every test in every environment, the basis of everything else."""
    rows = (
        (of.label(where), test, *spread(of.mean(where, test), unit_of(of.units[test][0]).write))
        for where, tests in sorted(of.tests.items())
        for test in sorted(tests)
    )
    return Table(("Environment", "Test", *SPREAD), tuple(rows))
