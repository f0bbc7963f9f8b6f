"""A report as plain values, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from lab.metrics import Measurement
from lab.report.recorded import Asked, Recording
from lab.report.statistics import Estimate, estimate
from lab.report.units import MISSING, unit_of

T = TypeVar("T")
STUDIES = Path(__file__).with_name("studies")
SPREAD = ("Mean", "Std. deviation", "95 % interval", "n")

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


@dataclass(frozen=True)
class Page:
    title: str
    study: Study
    verdict: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    steps: Table | None
    overview: Table | None
    """The verdict as a table."""
    remarks: Sequence[tuple[str, str]]
    """Remarks about single steps or environments: subject and text."""
    differences: Sequence[tuple[str, str]]
    """The study's setup, and ours."""
    asked: Sequence[Asked]
    """The queries of the run: its measurements, and facts about it."""


@cache
def load_study(name: str) -> Study:
    found: Study = yaml.safe_load((STUDIES / f"{name}.yml").read_text())
    return found


def page(
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
) -> Page:
    """The page of a recording.

    steps: every value if None; platform: selects the differences from the study if its file has them by platform.
    """
    study = load_study(recording.study)
    differences = study.get("differences", ())
    done, planned = recording.finished_steps, recording.planned_steps
    incomplete = [f"The run is not complete: {done} of its {planned} steps are recorded."] if done < planned else []
    emulation = "runs on emulated hardware: its values show that it works, and no more"
    return Page(
        recording.title,
        study,
        [*verdict, *incomplete],
        [(name, text) for name, text in {**recording.facts, **(facts or {})}.items() if text],
        [section for section in sections if section.table is None or section.table.rows],
        steps or every_value(recording.measurements),
        overview,
        [*remarks, *((name, emulation) for name in dict.fromkeys(emulated))],
        tuple(map(tuple, differences[platform] if platform else differences)),
        recording.asked,
    )


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


def three_digits(value: float | None) -> str:
    """A ratio with three decimals; empty if there is none."""
    return "" if value is None else f"{value:.3f}"


def interval(of: Estimate | None, written: Callable[[float], str] = three_digits) -> str:
    """The ends of an interval; empty without one."""
    return "" if of is None or of.low is None or of.high is None else f"{written(of.low)} to {written(of.high)}"


def spread(of: Estimate | None, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    if of is None:
        return MISSING, "", "", ""
    deviation = "" if of.deviation is None else written(of.deviation)
    return written(of.value), deviation, interval(of, written), str(of.n)


def label(name: str, *, emulated: bool) -> str:
    return f"{name} (emulated)" if emulated else name


def every_value(measurements: Sequence[Measurement]) -> Table:
    """Every test in every environment, the basis of everything else."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in measurements:
        where = label(one.environment, emulated=one.emulated)
        found.setdefault((where, one.test, one.unit), []).append(one.value)
    rows = (
        (where, test, *spread(estimate(values), unit_of(unit).write))
        for (where, test, unit), values in sorted(found.items())
    )
    return Table(("Environment", "Test", *SPREAD), tuple(rows))
