"""What `perf report --stdio` prints, in columns or, with -t, between separators: samples by image and symbol.

Format: tools/perf/ui/stdio/hist.c, tools/perf/ui/hist.c and tools/perf/util/sort.c in Linux's source. A section for
each event, with comment lines before it, the last of which name the columns. Columns stand at least two blanks apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.perf.profile.perf_names import event_name, in_base_units
from virtscope.perf.profile.samples import GUESTS, Hits, Place, Profile, add
from virtscope.perf.profile.xensyms import Xensyms
from virtscope.shell.sources import SourceRubbish

SPACES = {"k": "kernel", ".": "user", "H": "hypervisor", "g": "guest_kernel", "u": "guest_user"}

_EVENT = re.compile(r"# Samples:\s*(\d+)([KMGT]?)\s+of (events?) '(.+?)'(?:,|$)")
_EVENTS = re.compile(r"# Event count \(approx\.\):\s*(\d{1,19})$", re.ASCII)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_COLUMNS = re.compile(r"#\s*((?:Children|Overhead|Self)\b.*)")
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]+)?%")
_COUNT = re.compile(r"[0-9]{1,19}")
_SYMBOL = re.compile(r"(?:(?:0x)?[0-9a-f]{1,16} +\S +)?\[(.)\] +(\S.*)")  # -v puts the address and its origin before
_LOST = re.compile(r"# Total Lost Samples:\s*(\d{1,19})$", re.ASCII)


class Report(NamedTuple):
    """A report: what fell where, and how many samples perf got too late to keep."""

    profile: Profile
    lost: int


class _Section(NamedTuple):
    """What the heading above an event's rows says."""

    event: str
    samples: int
    events: int | None


class _Columns(NamedTuple):
    names: list[str]
    separator: str  # "" where they are aligned

    def begin(self, row: str) -> bool:
        """Whether it is a row. Between separators nothing is missing; else a symbol's own line break is before it."""
        return row.count(self.separator) >= len(self.names) - 1 if self.separator else True

    def split(self, row: str) -> list[str]:
        most = len(self.names) - 1
        parts = row.split(self.separator, most) if self.separator else re.split(r" {2,}", row, maxsplit=most)
        return [part.strip() for part in parts]


def parse(text: str, xensyms: Xensyms | None = None) -> Report:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    Where the report has no column of samples (-n) or of periods (-F period), they are its percentages of the heading's
    numbers, of which samples are printed in thousands from ten thousand on: right to half of the last digit of either.
    Call chains are passed over. `xensyms` names the hypervisor's symbols, in a report of a Dom0 that sampled it.

    Raises SourceRubbish with the offending line where a row makes no sense, or where there is no event at all.
    """
    profile: Profile = {}
    lost = 0
    section: _Section | None = None
    columns: _Columns | None = None
    for line in text.split("\n"):  # what else Unicode takes for the end of a line may be in a name
        row = line.strip()
        if heading := _EVENT.match(row):
            section = _section(heading, {place.event for place in profile})
            columns = None
        elif row.startswith("#"):
            if section and (number := _EVENTS.match(row)):
                section = section._replace(events=int(number[1]))
            elif number := _LOST.match(row):
                lost += int(number[1])
            elif named := _COLUMNS.match(row):
                columns = _columns(named[1])
        elif row and section and columns and _PERCENT.match(row) and columns.begin(row):
            add(profile, *_parse_row(row, columns, section, xensyms))
        elif row and not (section and columns):
            raise SourceRubbish(f"a line of perf report comes before the names of its columns: {line[:200]!r}")
    if not section:
        raise SourceRubbish(f"this is no output of perf report, as no line tells of an event: {text[:200]!r}")
    return Report(profile, lost)


def _section(heading: re.Match[str], events: set[str]) -> _Section:
    """Return what a heading says; `events` are those of which there are rows above."""
    if heading[3] == "events":
        raise SourceRubbish(f"events in a group stand in one row; report without --group: {heading[0][:200]!r}")
    event = event_name(heading[4])
    if event in events:
        raise SourceRubbish(f"the event {event!r} was sampled twice, and would count twice: report only one of the two")
    return _Section(event, int(heading[1][:19]) * _UNITS[heading[2]], None)


def _columns(names: str) -> _Columns:
    """Tell a separator by what stands right behind the first column's name, where blanks would be else."""
    first = re.match(r"\w+", names)
    separator = names[first.end()] if first and first.end() < len(names) else " "
    split = re.split(r" {2,}", names) if separator == " " else names.split(separator)
    columns = _Columns([name.strip() for name in split], "" if separator == " " else separator)
    if "Symbol" not in columns.names or "Shared Object" not in columns.names:
        raise SourceRubbish(
            f"perf report has no columns of its own for image and symbol; sort by dso and symbol, without --hierarchy: "
            f"{columns.names}"
        )
    return columns


def _parse_row(row: str, columns: _Columns, section: _Section, xensyms: Xensyms | None) -> tuple[Place, Hits]:
    values = dict(zip(columns.names, columns.split(row)))
    share = values.get("Self") or values.get("Overhead", "")
    if len(values) != len(columns.names) or not _PERCENT.fullmatch(share):
        raise SourceRubbish(f"a row of perf report makes no sense: {row[:200]!r}; its columns: {columns.names}")
    part = float(share[:-1]) / 100
    samples, period = _count(values, "Samples", row), _count(values, "Period", row)
    if period is None and section.events is not None:
        period = round(part * section.events)
    events = None if period is None else in_base_units(section.event, period)
    hits = Hits(round(part * section.samples) if samples is None else samples, events)
    level, name = _SYMBOL.fullmatch(values["Symbol"]), values["Symbol"]
    space = SPACES.get(level[1], "") if level else ""
    name = level[2] if level else name
    image = values["Shared Object"]
    if xensyms and space == "kernel" and (xens := xensyms.symbol(name)):
        image, name, space = "xen-syms", xens, "hypervisor"
    return Place.named(section.event, image, name, space, GUESTS if space.startswith("guest") else ""), hits


def _count(values: dict[str, str], column: str, row: str) -> int | None:
    count = values.get(column)
    if count is not None and not _COUNT.fullmatch(count):
        raise SourceRubbish(f"a row of perf report has no number of {column.lower()}: {row[:200]!r}")
    return int(count) if count else None
