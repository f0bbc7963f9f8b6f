"""A report as plain values, independent of the output format, and the parts that reports of all studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from lab.measurements import METRIC, Measurement
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate
from lab.report.units import MISSING, write

STUDIES = Path(__file__).with_name("studies")
SPREAD = ("Mean", "Std. deviation", "95 % interval", "n")
UNKNOWN = "not recorded"
# Labels of lab_run_info, and the programs of which they have the versions.
SOFTWARE = {"os": "", "kernel": "Linux", "apache": "Apache", "php": "PHP", "mariadb": "MariaDB", "telegraf": "Telegraf"}
SOFTWARE |= {"lmbench": "lmbench", "stress_ng": "stress-ng"}


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
    """A section of the page. Its chart is an <svg> element; `absent` says why there is none."""

    key: str
    title: str
    text: str
    figure: str | None = None
    absent: str = ""
    table: Table | None = None
    study: str = ""
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class Study:
    """The publication that a study repeats: a file of `studies` with its numbers and the texts of the report."""

    short: str
    citation: str
    setting: str
    said: Mapping[str, str]
    """The publication's results in its own words, or nearly so, by section."""
    content: Mapping[str, Any]

    @classmethod
    def load(cls, name: str) -> Study:
        """Read the file of this study."""
        content = yaml.safe_load((STUDIES / f"{name}.yml").read_text())
        of = content["source"]
        return cls(of["short"], f"{of['title']}. {of['where']}.", content["setting"], content["said"], content)


class Asking(Protocol):
    """What was asked about a run: where, when, and the labels of lab_run_info."""

    @property
    def url(self) -> str: ...

    @property
    def asked_at(self) -> float: ...

    @property
    def info(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    verdict: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    overview: Table | None
    """The verdict as a table; None if there is none."""
    steps: Table
    remarks: tuple[tuple[str, str], ...]
    """Remarks about single steps or environments: which, and the remark."""
    study: Study


@dataclass(frozen=True)
class Builder:
    """Makes the parts of the page of a run; `recording` is None for results that come from files."""

    study: Study
    recording: Recording | None

    def section(
        self, key: str, table: Table | None, figure: str | None = None, *, absent: str = "", more: str = ""
    ) -> Section | None:
        """A section with the title and text of the study's file; None if its table is empty."""
        if table is None or not table.rows:
            return None
        of = self.study.content["sections"].get(key, {"title": key})
        said, text = self.study.said.get(key, ""), f"{of.get('text', '')}{more}".strip()
        return Section(key, of["title"], text, figure, "" if figure else absent, table, said, self._asked(METRIC))

    def page(
        self,
        verdict: Iterable[str],
        sections: Iterable[Section | None],
        steps: Table,
        *,
        title: str = "",
        facts: Iterable[tuple[str, str]] = (),
        overview: Table | None = None,
        emulated: Iterable[str] = (),
        differences: str | None = None,
    ) -> Page:
        """The page; `differences` names the platform if the study's file has them by platform."""
        of = self.recording
        rows = self.study.content["differences"]
        table = Table(("The study", "Here"), tuple(map(tuple, rows[differences] if differences else rows)))
        text = "Read the study's numbers as shapes, not as targets."
        run = "Where the facts at the top of this page come from."
        queries = [name for name in (of.asked if of else ()) if name != METRIC]
        more = [Section("run", "Machine and plan", run, asked=self._asked(*queries))] if queries else []
        more.append(Section("differences", "What differs from the study", text, table=table))
        return Page(
            title or (f"Run {of.run.name}: scenario {of.run.scenario}" if of else ""),
            (*verdict, *(incomplete(of.finished_steps, of.planned_steps) if of else ())),
            (*(_run_facts(of) if of else ()), *facts),
            (*(section for section in sections if section), *more),
            overview,
            steps,
            tuple((name, "runs on emulated hardware: its values show that it works, and no more") for name in emulated),
            self.study,
        )

    def _asked(self, *names: str) -> tuple[Asked, ...]:
        if self.recording is None:
            return ()
        run = self.recording.run
        at = f"the whole run, {time(run.start)} to {time(run.end)}"
        return (Asked(at, tuple(self.recording.asked[name] for name in names)),)


def facts(
    of: Asking, start: float, end: float, what: str, host: str, *, more: Sequence[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """The table at the top of a report; empty facts are left out."""
    info = of.info
    cpu = f", {info.get('cpus', '?')} CPUs, {info['cpu']}" if info.get("cpu") else ""
    software = [f"{name} {info[label]}".strip() for label, name in SOFTWARE.items() if info.get(label)]
    emulated = ", emulated" if info.get("emulated") == "yes" else ""
    guests = f"of {info.get('target')} ({info.get('virtualization')}{emulated}); the machine below is the lab's own"
    found = (
        ("When", f"{time(start)} to {time(end)}"),
        ("What", what),
        ("Guests", guests if info.get("target") else ""),
        ("Machine", f"{host}{cpu}"),
        ("Software", ", ".join(software) or UNKNOWN),
        ("Seed", info.get("seed", "")),
        ("Skipped", info.get("skipped", "")),
        *more,
        ("virtscope", info.get("version") or UNKNOWN),
        ("Asked", f"{of.url} at {time(of.asked_at)}"),
    )
    return tuple((name, text) for name, text in found if text)


def _run_facts(of: Recording) -> tuple[tuple[str, str], ...]:
    what = f"{count(of.finished_steps, 'step')}, {count(of.repetitions, 'repetition')} of each; without warm-up"
    return facts(of, of.run.start, of.run.end, what, of.run.host)


def incomplete(recorded: int, planned: float) -> list[str]:
    """Whether a run was interrupted or is still running, if the number of its steps is known; 0 if not."""
    if recorded >= planned:
        return []
    return [f"The run is not complete: {recorded} of its {planned:.0f} steps are recorded."]


def time(seconds: float) -> str:
    """A time in the format of Prometheus's own pages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, thing: str) -> str:
    """A number of things, in words.

    >>> count(1, "instance"), count(4, "instance")
    ('1 instance', '4 instances')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def interval(of: Estimate, written: Callable[[float], str]) -> str:
    """The ends of an interval; empty without one."""
    return "" if of.low is None or of.high is None else f"{written(of.low)} to {written(of.high)}"


def spread(of: Estimate | None, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    """Cells for `SPREAD`."""
    if of is None:
        return MISSING, "", "", ""
    deviation = "" if of.deviation is None else written(of.deviation)
    return written(of.value), deviation, interval(of, written), str(of.n)


def label(name: str, *, emulated: bool) -> str:
    """An environment's name; of an emulated one, it says so."""
    return f"{name} (emulated)" if emulated else name


def every_value(measurements: Sequence[Measurement]) -> Table:
    """Every test in every environment, from which all else follows."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in measurements:
        where = label(one.environment, emulated=one.emulated)
        found.setdefault((where, one.test, one.unit), []).append(one.value)
    rows = (
        (where, test, *spread(estimate(values), lambda value, unit=unit: write(value, unit)))  # type: ignore[misc]
        for (where, test, unit), values in sorted(found.items())
    )
    return Table(("Environment", "Test", *SPREAD), tuple(rows))
