"""What `perf report --stdio` prints, in columns or, with -t, between separators: samples by image and symbol.

Format: tools/perf/ui/stdio/hist.c and tools/perf/util/sort.c in Linux's source. A section for each event, with comment
lines before it, the last of which name the columns. Columns stand at least two blanks apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from virtscope.perf.profile.samples import NO_SYMBOL, Place, Profile
from virtscope.shell.sources import SourceRubbish

_SPACES = {"k": "kernel", ".": "user", "H": "hypervisor", "g": "guest_kernel", "u": "guest_user"}

_EVENT = re.compile(r"# Samples:\s*(\d+)([KMGT]?)\s+of events? '([^']+)'")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_COLUMNS = re.compile(r"#\s*((?:Children|Overhead|Self)\b.*)")
_PERCENT = re.compile(r"\d+(\.\d+)?%")
_SYMBOL = re.compile(r"\[(.)\] +(\S.*)")
_ADDRESS = re.compile(r"(0x)?[0-9a-f]{8,16}")


class _Columns(NamedTuple):
    names: list[str]
    separator: str  # "" where they are aligned

    def split(self, row: str) -> list[str]:
        most = len(self.names) - 1
        parts = row.split(self.separator, most) if self.separator else re.split(r" {2,}", row, maxsplit=most)
        return [part.strip() for part in parts]


def parse(text: str) -> Profile:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    Where the report has no column of samples (-n), they are its percentages of the heading's number, which is printed
    in thousands from ten thousand on: right to half of the last digit of either. Call chains are passed over. Raises
    SourceRubbish with the offending line where a row makes no sense, or where there is no event at all.
    """
    profile: Profile = {}
    event, samples = "", 0
    columns: _Columns | None = None
    for line in text.splitlines():
        row = line.strip()
        if heading := _EVENT.match(row):
            event, samples, columns = heading[3], int(heading[1]) * _UNITS[heading[2]], None
        elif row.startswith("#"):
            if named := _COLUMNS.match(row):
                columns = _columns(named[1])
        elif row and columns and _PERCENT.match(row):
            place, count = _parse_row(row, columns, event, samples)
            profile[place] = profile.get(place, 0) + count
        elif row and not columns:
            raise SourceRubbish(f"a line of perf report comes before the names of its columns: {line[:200]!r}")
    if not event:
        raise SourceRubbish(f"this is no output of perf report, as no line tells of an event: {text[:200]!r}")
    return profile


def _columns(names: str) -> _Columns:
    """Tell a separator by what stands right behind the first column's name, where blanks would be else."""
    first = re.match(r"\w+", names)
    separator = names[first.end()] if first and first.end() < len(names) else " "
    if separator == " ":
        return _Columns(re.split(r" {2,}", names), "")
    return _Columns([name.strip() for name in names.split(separator)], separator)


def _parse_row(row: str, columns: _Columns, event: str, samples: int) -> tuple[Place, int]:
    values = dict(zip(columns.names, columns.split(row)))
    share = values.get("Self") or values.get("Overhead", "")
    if len(values) != len(columns.names) or not _PERCENT.fullmatch(share):
        raise SourceRubbish(f"a row of perf report makes no sense: {row[:200]!r}; its columns: {columns.names}")
    count = values.get("Samples", "")
    if count and not (count.isascii() and count.isdigit()):
        raise SourceRubbish(f"a row of perf report has no number of samples: {row[:200]!r}")
    symbol = _SYMBOL.fullmatch(values.get("Symbol", ""))
    name = symbol[2].strip() if symbol else values.get("Symbol", "")
    if not name or _ADDRESS.fullmatch(name):
        name = NO_SYMBOL
    place = Place(event, values.get("Shared Object", ""), name, _SPACES.get(symbol[1], "") if symbol else "")
    return place, int(count) if count else round(float(share[:-1]) / 100 * samples)
