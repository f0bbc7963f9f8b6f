"""What `perf report --stdio` prints, in columns or, with -t, between separators: samples by image and symbol.

Format: tools/perf/ui/stdio/hist.c, tools/perf/ui/hist.c and tools/perf/util/sort.c in Linux's source. A section for
each event, with comment lines before it, the last of which name the columns and, by dots, their widths. Columns stand
at least two blanks apart. Below a row may stand its call chains (-g), in any of their forms. perf of Linux 2.6.39 to
3.1 heads a section by "# Events: 1K cycles". What the terminal interface shows has the same columns without comment
signs. What perf_record asks for is the simplest of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Callable, NamedTuple

from virtscope.perf.profile import GUESTS, Hits, Place, Profile, add, event_name, in_base_units
from virtscope.toolkit.collect import SourceMalformed

SPACES = {"k": "kernel", ".": "user", "H": "hypervisor", "g": "guest_kernel", "u": "guest_user"}

_EVENT = re.compile(r"#?\s*Samples:\s*(\d{1,19})([KMGT]?)\s+of (events?) '(.+?)'(?:,|$)", re.ASCII)
_OLD_EVENT = re.compile(r"#\s*Events:\s*(\d{1,19})([KMGT]?)(?:\s+(\S.*))?$", re.ASCII)
_OLDER = re.compile(r"#\s*(?:Samples:\s*\d+|\(\d+ samples\))$", re.ASCII)
_EVENTS = re.compile(r"(?:#|.*,)\s*Event count \(approx\.\):\s*(\d{1,19})(?:\s|,|$)", re.ASCII)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LOST = re.compile(r"#\s*Total Lost Samples:\s*(\d{1,19})$", re.ASCII)
_WEIGHTS = re.compile(r"#\s*Total weight\s*:")

_SHARES = {"Children", "Self", "Overhead", "Latency", "sys", "usr", "guest sys", "guest usr"}
_COUNTS = {"Samples", "Period"}
_TEXTS = {
    "Command",
    "Shared Object",
    "Symbol",
    "Pid:Command",
    "Tid:Command",
    "Parent symbol",
    "Source:Line",
    "CPU",
    "Time",
}
_SIGN = r"(?:[+-]\s+|[+-](?=\s*[0-9]))?"  # the terminal interface's, for rows that can be unfolded or are
_COLUMNS = re.compile(r"#?\s*((?:Children|Overhead|Self|Symbol|Shared Object|Command|Samples|Period)\b.*)")
_DOTS = re.compile(r"#\s*\.{2,}[. ]*$")
_PERCENT = re.compile(r"([0-9]{1,3}(?:[.,][0-9]+)?)(%?)", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,19}", re.ASCII)
_SYMBOL = re.compile(r"(?:(?:0x)?[0-9a-f]{1,16} +\S +)?\[(.)\] +(\S.*)")  # -v puts the address and its origin before

_MARKED = re.compile(r"(?:^|\s)\[[.kHgu]\]\s")

_NAMELESS = re.compile(r"[0-9]%.*\s\[[.kHgu]\]$")
_SCROLL_BAR = "".join(map(chr, range(0x2580, 0x2600)))  # at the right edge of the terminal interface

# What stands below a row. A bare name in a graph has nothing to be known by but what is not in it.
_CHAIN = re.compile(r"[|\s]*--|[|\s]*$|\|")  # a graph's branches and trunks
_FLAT = re.compile(r"(?:[0-9]{1,3}[.,][0-9]+%|[0-9]{1,19})$", re.ASCII)  # -g flat: a chain's share, names below it
_FOLDED = re.compile(r"(?:[0-9]{1,3}[.,][0-9]+%|[0-9]{1,19}) (?=\S)", re.ASCII)  # -g folded: all in a line
_LIKE_A_ROW = re.compile(rf"\s*{_SIGN}[0-9]+(?:[.,][0-9]+)?\s?%|.*[0-9]%.*\s\[[.kHgu]\]\s", re.ASCII)
_UNFOLDED = re.compile(r"\s+[+-] [0-9]{1,3}[.,][0-9]+% [^\s\[]", re.ASCII)  # in the terminal interface
_SAYS_NOTHING = re.compile(
    r"\[?(?:\.{2,}|…)\]?$|no entry >=|Press '\?' for help|Tip: |For a higher level overview|Cannot load tips|"
    r"\S*\s?[$#] |(?:\S+@\S+|\[[^\]]*\])\s?[$#]$"
)

_LONGEST_SHOWN = 120  # characters of a line in an error
_PLAIN = "run `perf report --stdio --no-children -g none -n --show-total-period` again and import what it prints"


class Report(NamedTuple):
    """A report: what fell where, and how many samples perf got too late to keep."""

    profile: Profile
    lost: int


class _Section(NamedTuple):
    """What the heading above an event's rows says."""

    event: str
    samples: int
    rounded: bool  # down, to thousands or more
    events: int | None
    weights: bool = False  # of memory accesses, which the percentages are of, in place of events


class _Columns(NamedTuple):
    names: list[str]
    separator: str  # "" where they are aligned
    spans: Sequence[tuple[int, int]] = ()  # where each begins and ends, if there are dots below them

    def begin(self, row: str) -> bool:
        """Whether it is a row. Between separators nothing is missing; else a symbol's own line break is before it."""
        return row.count(self.separator) >= len(self.names) - 1 if self.separator else True

    def values(self, line: str) -> dict[str, str] | None:
        """Return a row's values by column; None for what is no row."""
        for parts in self._splits(line):
            values = dict(zip(self.names, parts))
            if len(parts) == len(self.names) == len(values) and all(map(self._fits, values, values.values())):
                return values
        return None

    def _splits(self, line: str) -> Iterator[list[str]]:
        row = re.sub(rf"^\s*{_SIGN}", "", line)
        most = len(self.names) - 1
        if self.separator:
            yield [part.strip() for part in row.split(self.separator, most)]
            return
        if self.spans and all(line[end:start].isspace() for (_, end), (start, _) in zip(self.spans, self.spans[1:])):
            yield [line[start:end].strip() for start, end in self.spans[:-1]] + [line[self.spans[-1][0] :].strip()]
        yield re.split(r" {2,}", row.strip(), maxsplit=most)

    def _fits(self, name: str, value: str) -> bool:
        if name in _SHARES:
            found = _PERCENT.fullmatch(value)
            return bool(found and (found[2] or self.separator))  # between separators old perfs leave the sign out
        if name in _COUNTS:
            return bool(_COUNT.fullmatch(value))
        if name == "Symbol":
            return bool(_SYMBOL.fullmatch(value))
        # A symbol's level or a share in any other column: a row that lacks blanks, a name or more.
        return not _MARKED.search(value) and not (name in _TEXTS and value.endswith("%") and _PERCENT.fullmatch(value))


def parse(text: str, xen_symbol: Callable[[str], str] | None = None) -> Report:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    Where the report has no column of samples (-n) or of periods (-F period), they are its percentages of the heading's
    numbers, of which samples are cut to thousands from a thousand on. Call chains are passed over, as their samples are
    in the row above. `xen_symbol` names the hypervisor's symbols, in a report of a Dom0 that sampled it: it returns ""
    for what perf shows of anything else.

    Raises SourceMalformed with the offending line where one is malformed, where there is no event at all, and where
    samples would count twice.
    """
    return _Reader(xen_symbol).read(text.split("\n"))  # other ends of lines may be in a name


def _without_scroll_bar(line: str) -> str:
    beside = line.rstrip(_SCROLL_BAR)
    return beside.rstrip() if beside[-1:].isspace() else line


class _Reader:
    """Reads a report line by line."""

    def __init__(self, xen_symbol: Callable[[str], str] | None) -> None:
        self._xen_symbol = xen_symbol
        self._profile: Profile = {}
        self._lost = 0
        self._section: _Section | None = None
        self._columns: _Columns | None = None
        self._rows: list[tuple[float, Hits]] = []  # of the section
        self._printed: dict[str, str] = {}  # each event so far as perf prints it, by its name
        self._number = 0
        self._wrapped = ""  # a row that goes on in the next line
        self._margin = 0  # blanks before the last row; names in call chains have more

    def read(self, lines: Sequence[str]) -> Report:
        for self._number, ended in enumerate(lines, 1):
            line = self._wrapped + _without_scroll_bar(ended.rstrip())
            self._wrapped = ""
            if self._columns and not self._columns.separator and _NAMELESS.search(line):
                self._wrapped = f"{line} "  # its symbol is in the next line, as mail programs wrap it
            elif line and not (self._heading(line) or self._row(line)):
                self._below(line)
        self._end_section()
        if self._wrapped:
            raise self._malformed(self._wrapped, "has no symbol", _PLAIN)
        if not self._printed:
            raise SourceMalformed(
                "this is no output of perf report, as no line names an event (# Samples: 1K of event 'cycles'): "
                f"{[line[:80] for line in lines[:3]]}; leave out -q, and keep the lines above the columns"
            )
        return Report(self._profile, self._lost)

    def _heading(self, line: str) -> bool:
        """Take a line that stands above rows; False if it is none."""
        row = line.strip()
        if _EVENT.match(row) or _OLD_EVENT.match(row) or _OLDER.match(row):
            self._end_section()
            self._section, self._columns = self._begin_section(line), None
            return True
        if row.startswith("#"):
            if self._section and (number := _EVENTS.match(row)):
                self._section = self._section._replace(events=int(number[1]))
            elif self._section and _WEIGHTS.match(row):
                self._section = self._section._replace(weights=True)
            elif number := _LOST.match(row):
                self._lost += int(number[1])
            elif _DOTS.match(row):
                self._measure(line)
            elif self._section and not self._rows and (named := _COLUMNS.match(row)):
                self._columns = self._named(named[1])
            return True
        if self._section and not self._columns and (named := _COLUMNS.match(row)):
            self._columns = self._named(named[1])
            return True
        return False

    def _begin_section(self, line: str) -> _Section:
        row = line.strip()
        if old := _OLD_EVENT.match(row):
            number, unit, printed = old[1], old[2], old[3] or ""
        elif heading := _EVENT.match(row):
            number, unit, printed = heading[1], heading[2], heading[4]
            if heading[3] == "events":
                raise self._malformed(line, "has events of a group in one row", "report with --no-group")
        else:
            printed = ""
        if not printed:
            raise self._malformed(line, "names no event", "a perf of Linux 2.6.39 or newer does")
        event = event_name(printed)
        if any(place.event == event for place in self._profile):
            raise self._malformed(
                line,
                f"is of {event!r}, which was sampled twice (as {self._printed[event]!r} above) and would count twice",
                "import a report of one of the two",
            )
        self._printed[event] = printed
        counted = _EVENTS.match(row)
        return _Section(event, int(number) * _UNITS[unit], bool(unit), int(counted[1]) if counted else None)

    def _named(self, names: str) -> _Columns:
        """Know a separator by what is right behind the first column's name, where blanks would be else."""
        first = next((name for name in [*_SHARES, *_COUNTS, *_TEXTS] if re.match(rf"{name}(?!\w)", names)), "")
        behind = names[len(first) :].lstrip(" ")[:1] if first else ""
        separator = "" if not behind or behind.isalnum() else behind
        split = names.split(separator) if separator else re.split(r" {2,}", names.strip())
        columns = _Columns([name.strip() for name in split], separator)
        if not {"Symbol", "Shared Object"} & set(columns.names) or not {"Overhead", "Self"} & set(columns.names):
            branches = ", and with --no-branch-stack" if "Source" in names and "Target" in names else ""
            raise self._malformed(
                names,
                "names no columns of their own for what fell on an image (Shared Object) or a symbol",
                f"sort by dso and symbol, without --hierarchy{branches}",
            )
        if len(set(columns.names)) < len(columns.names):
            raise self._malformed(names, "names a column twice", _PLAIN)
        return columns

    def _measure(self, dots: str) -> None:
        columns = self._columns
        if columns and not columns.separator and not self._rows:
            spans = [found.span() for found in re.finditer(r"\.+", dots)]
            if len(spans) == len(columns.names):
                self._columns = columns._replace(spans=spans)

    def _row(self, line: str) -> bool:
        """Take a row; False if it is none."""
        section, columns = self._section, self._columns
        if not (section and columns and (values := columns.values(line))):
            return False
        share = float((values.get("Self") or values["Overhead"]).rstrip("%").replace(",", "."))
        part = share / 100
        samples, period = (int(values[name]) if name in values else None for name in ("Samples", "Period"))
        if section.weights:
            if samples is None:
                raise self._malformed(line, "has a share of weights, not of samples", "report with -n")
            period = None
        elif period is None and section.events is not None:
            period = round(part * section.events)
        events = None if period is None else in_base_units(section.event, period)
        hits = Hits(round(part * section.samples) if samples is None else samples, events)
        self._rows.append((share, hits))
        self._margin = len(line) - len(line.lstrip())
        add(self._profile, self._place(values), hits)
        return True

    def _place(self, values: dict[str, str]) -> Place:
        assert self._section
        image, symbol = values.get("Shared Object", ""), values.get("Symbol", "")
        level = _SYMBOL.fullmatch(symbol)
        space, name = (SPACES.get(level[1], ""), level[2]) if level else ("", symbol)
        if self._xen_symbol and space == "kernel" and (xens := self._xen_symbol(name)):
            image, name, space = "xen-syms", xens, "hypervisor"
        return Place.named(self._section.event, image, name, space, GUESTS if space.startswith("guest") else "")

    def _below(self, line: str) -> None:
        """Pass over what has no samples of its own; raise SourceMalformed for what might."""
        row = line.strip()
        if self._columns and not self._rows and (titles := re.split(r" {2,}", row)) and set(titles) <= _TEXTS:
            # The columns' names were wrapped.
            self._columns = self._columns._replace(names=[*self._columns.names, *titles])
        elif not self._section:
            if _LIKE_A_ROW.match(line):
                raise self._malformed(line, "stands before the name of an event", "leave out -q, and keep all lines")
        elif not self._columns:
            raise self._malformed(line, "stands before the names of the columns", _PLAIN)
        elif _CHAIN.match(line) or _SAYS_NOTHING.match(row) or not row.strip("."):
            return
        elif not self._rows:
            raise self._malformed(line, f"is no row of the columns {self._columns.names}", _PLAIN)
        elif self._columns.separator and not self._columns.begin(row) and not _FOLDED.match(row):
            return  # the rest of a symbol that has a line break
        elif not _MARKED.search(row) and (_FLAT.match(row) or _FOLDED.match(row) or _UNFOLDED.match(line)):
            return
        elif _LIKE_A_ROW.match(line) or len(line) - len(line.lstrip()) <= self._margin:
            raise self._malformed(line, f"is no row of the columns {self._columns.names}, and no call chain", _PLAIN)

    def _end_section(self) -> None:
        """Raise SourceMalformed where an event's rows have more than there is of it: samples count twice."""
        section = self._section
        if not section:
            return
        shares = sum(share for share, _ in self._rows)
        samples = sum(hits.samples for _, hits in self._rows)
        slack = 0.1 + 0.006 * len(self._rows)
        if shares > 100 + slack or (
            not section.rounded and samples > section.samples * (1 + slack / 100) + len(self._rows)
        ):
            raise SourceMalformed(
                f"the rows of perf report's event {section.event!r}, up to line {self._number}, add up to "
                f"{shares:.2f} % and {samples} of {section.samples} samples: some count twice; {_PLAIN}"
            )
        self._rows = []

    def _malformed(self, line: str, problem: str, advice: str) -> SourceMalformed:
        return malformed("perf report", self._number, line, problem, advice)


def malformed(program: str, number: int, line: str, problem: str, advice: str) -> SourceMalformed:
    """Return the error for a line of what a program printed, counted from 1: what is wrong with it, and what to do."""
    shown = line.strip()
    shown = shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + "..."
    return SourceMalformed(f"line {number} of {program} {problem}: {shown!r}; {advice}")
