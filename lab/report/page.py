"""A report as plain values, independent of the output format, and sections that all studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lab.metrics import Measurement
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate
from lab.report.units import MISSING, unit_of

STUDIES = Path(__file__).with_name("studies")
SPREAD = ("Mean", "Std. deviation", "95 % interval", "n")
# Labels of lab_run_info, and the programs whose versions they are.
SOFTWARE = {"os": "", "kernel": "Linux", "apache": "Apache", "php": "PHP", "mariadb": "MariaDB", "telegraf": "Telegraf"}
SOFTWARE |= {"lmbench": "lmbench", "stress_ng": "stress-ng"}

Study = Mapping[str, Any]
"""A file of `studies`: the repeated publication, its numbers, and the report's texts."""


@dataclass(frozen=True)
class Table:
    """Cells as text, under a head; every row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Asked:
    """The queries for one value in one step; `at` names the step and its time."""

    at: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A section of the page. Title and text are in the study's file by `key`; `more` follows the text."""

    key: str
    table: Table | None
    """If the table has no rows, the section is left out."""
    figure: str | None = None
    """An SVG file's text; without it, `absent` is the reason."""
    absent: str = ""
    more: str = ""
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
    overview: Table | None = None
    """The verdict as a table."""
    remarks: Sequence[tuple[str, str]] = ()
    """Remarks about single steps or environments: subject and text."""
    differences: Sequence[tuple[str, str]] = ()
    """The study's setup, and ours."""
    asked: Sequence[Asked] = ()
    """The queries of the run: its measurements, and facts about it."""


@cache
def load_study(name: str) -> Study:
    found: Study = yaml.safe_load((STUDIES / f"{name}.yml").read_text())
    return found


def page(
    study: Study,
    recording: Recording | None,
    verdict: Iterable[str],
    sections: Iterable[Section],
    steps: Table | None = None,
    *,
    title: str = "",
    facts: Iterable[tuple[str, str]] = (),
    overview: Table | None = None,
    remarks: Iterable[tuple[str, str]] = (),
    emulated: Iterable[str] = (),
    platform: str = "",
) -> Page:
    """The page of a run, or, without a recording, of results from files.

    facts: shown at the top, replacing facts of the same name; platform: selects the differences from the study if its
    file has them by platform.
    """
    rows = study.get("differences", ())
    asked: tuple[Asked, ...] = ()
    if recording:
        run = recording.run
        title = f"Run {run.name}: scenario {run.scenario}"
        facts = (_facts(recording) | dict(facts)).items()
        if recording.finished_steps < recording.planned_steps:
            done = f"{recording.finished_steps} of its {recording.planned_steps} steps are recorded"
            verdict = [*verdict, f"The run is not complete: {done}."]
        at = f"the whole run, {time(run.start)} to {time(run.end)}"
        asked = (Asked(at, tuple(recording.asked.values())),)
    emulation = "runs on emulated hardware: its values show that it works, and no more"
    return Page(
        title,
        study,
        tuple(verdict),
        [(name, text) for name, text in facts if text],
        [section for section in sections if section.table is None or section.table.rows],
        steps,
        overview,
        [*remarks, *((name, emulation) for name in dict.fromkeys(emulated))],
        tuple(map(tuple, rows[platform] if platform else rows)),
        asked,
    )


def _facts(of: Recording) -> dict[str, str]:
    info, run = of.info, of.run
    repetitions = count(max((one.repetition for one in of.measurements), default=0), "repetition")
    cpu = f", {info.get('cpus', '?')} CPUs, {info['cpu']}" if info.get("cpu") else ""
    software = [f"{name} {info[label]}".strip() for label, name in SOFTWARE.items() if info.get(label)]
    emulated = ", emulated" if info.get("emulated") == "yes" else ""
    guests = f"of {info.get('target')} ({info.get('virtualization')}{emulated}); the machine below is the lab's own"
    return {
        "When": f"{time(run.start)} to {time(run.end)}",
        "What": f"{count(of.finished_steps, 'step')}, {repetitions} of each; without warm-up",
        "Guests": guests if info.get("target") else "",
        "Machine": f"{run.host}{cpu}",
        "Software": ", ".join(software) or "not recorded",
        "Seed": info.get("seed", ""),
        "Skipped": info.get("skipped", ""),
        "virtscope": info.get("version") or "not recorded",
        "Asked": f"{of.url} at {time(of.asked_at)}",
    }


def compact(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], unless_same: str = "") -> Table:
    """A table without empty columns, and without the column `unless_same` if it is the same in every row."""
    if not rows:
        return Table(head, ())
    columns = [(name, *cells) for name, cells in zip(head, zip(*rows, strict=True), strict=True) if any(cells)]
    first, *found = zip(*(of for of in columns if of[0] != unless_same or len(set(of[1:])) > 1), strict=True)
    return Table(first, tuple(found))


def time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, thing: str) -> str:
    """A number of things, in words.

    >>> count(1, "instance"), count(4, "instance")
    ('1 instance', '4 instances')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def three_digits(value: float | None) -> str:
    """A ratio with three decimals; empty if there is none."""
    return "" if value is None else f"{value:.3f}"


def interval(of: Estimate, written: Callable[[float], str] = three_digits) -> str:
    """The ends of an interval; empty without one."""
    return "" if of.low is None or of.high is None else f"{written(of.low)} to {written(of.high)}"


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
