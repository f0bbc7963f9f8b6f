"""/proc/vz/vestat: CPU time and scheduling latency of every running container, as the kernel prints them.

Format: vestat_seq_show() in kernel/ve/vecalls.c of OpenVZ's kernels, 2.6.9 to Virtuozzo 7. A version line padded with
blanks, a header, and a row for each container; the host itself (container 0) has none. Columns have 10 or 20 characters
on 32-bit kernels and 20 on 64-bit ones, but an id may be a UUID that is wider, so rows are split at blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from virtscope.toolkit.sources import SourceRubbish

# Two columns are called uptime: the first is in jiffies, the second in the unit of the columns around it.
COLUMNS = ["VEID", "user", "nice", "system", "uptime", "idle", "strv", "uptime", "used", "maxlat", "totlat", "numsched"]


class Row(NamedTuple):
    """A container. `user` to `uptime_jiffies` are jiffies, `idle` to `totlat` nanoseconds or cycles of the CPU."""

    ctid: str
    user: int
    nice: int
    system: int
    uptime_jiffies: int
    idle: int
    strv: int  # not used by any kernel
    uptime: int
    used: int
    maxlat: int  # the longest wait of late
    totlat: int  # all waits added up
    numsched: int  # how many


class Vestat(NamedTuple):
    """The file: its version, such as "2.2", its rows, how many rows were refused, and how many columns not known."""

    version: str
    rows: tuple[Row, ...]
    refused: int
    unknown_columns: int


def parse(text: str) -> Vestat:
    """Return what the file says; `text` is all of it.

    Of whatever version, the header decides: columns between or behind the known twelve are passed over and counted.
    Rows that are cut, that hold anything but numbers or that repeat an id are counted. Raises SourceRubbish where
    version line, header or a known column are missing, and where there are rows but none makes sense.
    """
    version_line, _, rest = text.partition("\n")
    word, _, version = version_line.strip().partition(": ")
    if word != "Version" or not version:
        raise SourceRubbish(f"/proc/vz/vestat begins with {version_line[:80]!r}, not with its version")
    header, _, body = rest.partition("\n")
    columns = header.split()
    places = _places(columns)
    if not places:
        raise SourceRubbish(f"/proc/vz/vestat, version {version[:20]}, has the columns {header[:300]!r}")
    lines = body.split("\n")
    unended = lines.pop()  # "" where the last row is whole
    rows: dict[str, Row] = {}
    refused = 0
    for line in lines:
        row = _row(line, places, len(columns))
        if row is None or row.ctid in rows:
            refused += bool(line.strip())
        else:
            rows[row.ctid] = row
    if unended.strip():
        row = _row(unended, places, len(columns))
        # Its last number may lack digits, unless it ends just where the header does.
        if row is None or row.ctid in rows or _after_id(unended) != _after_id(header):
            refused += 1
        else:
            rows[row.ctid] = row
    if refused and not rows:
        raise SourceRubbish(f"no row of /proc/vz/vestat makes sense, the first is {body.lstrip()[:300]!r}")
    return Vestat(version, tuple(rows.values()), refused, len(columns) - len(COLUMNS))


def _places(columns: Sequence[str]) -> list[int]:
    """Return where the known columns are; nothing where one is missing, out of order or can't be told from another."""
    places = [place for place, name in enumerate(columns) if name in COLUMNS]
    return places if columns[:1] == COLUMNS[:1] and [columns[place] for place in places] == COLUMNS else []


def _row(line: str, places: Sequence[int], columns: int) -> Row | None:
    fields = line.split()
    if len(fields) != columns:
        return None
    ctid, *figures = fields if columns == len(places) else [fields[place] for place in places]
    # At most 20 digits: the kernel's numbers have 64 bits. Bytes know ASCII's digits only.
    if not "".join(figures).encode().isdigit() or max(map(len, figures)) > 20:
        return None
    return Row(ctid, *map(int, figures))


def _after_id(line: str) -> int:
    """Return how many characters follow the first word."""
    return len(line.strip().partition(" ")[2])
