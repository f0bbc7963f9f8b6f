"""lmbench 3.0's summary (`make see`, scripts/getsummary): tables of fixed columns with a line for each results file.

    Processor, Processes - times in microseconds - smaller is better
    ------------------------------------------------------------------------------
    Host                 OS  Mhz null null      open slct sig  sig  fork exec sh
                                 call  I/O stat clos TCP  inst hndl proc proc proc
    --------- ------------- ---- ---- ---- ---- ---- ---- ---- ---- ---- ---- ----
    host1     Linux 6.1.0-4 2594 0.12 0.15 0.72 1.79 5.36 0.14 1.48 139. 413. 1017

A column's width comes from its printf, which truncates values, so values here have three or four digits where the
results file has more; K and M are factors of 1,000 and 1,000,000. An empty column is a missing value. Only the system's
column is wider in some versions: the line of dashes shows where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lab.suites import lmbench
from lab.suites.rows import HIGHER, LOWER, MEGABYTES, MICROSECONDS, OutputError, Row, Test, lines, number

_FACTORS = {"K": 1e3, "M": 1e6}


class _Column(NamedTuple):
    width: int
    test: Test | None  # None: not in the study, or no measurement


def _table(group: str, unit: str, *columns: tuple[int, str]) -> tuple[_Column, ...]:
    better = LOWER if unit == MICROSECONDS else HIGHER
    return tuple(
        _Column(width, Test(lmbench.SUITE, group, name, unit, better) if name else None) for width, name in columns
    )


_SWITCHES = [f"{name} ctxsw" for name in lmbench.SWITCHES]
TABLES = {
    "Processor, Processes - times in microseconds - smaller is better": _table(
        lmbench.PROCESSES,
        MICROSECONDS,
        *((4, name) for name in ("", "null call", "null I/O", "Stat", "open clos", "slct TCP", "sig inst", "sig hndl")),
        *((4, name) for name in ("fork proc", "exec proc", "sh proc")),
    ),
    "Context switching - times in microseconds - smaller is better": _table(
        lmbench.SWITCHING, MICROSECONDS, *zip((6, 6, 6, 6, 6, 7, 7), _SWITCHES, strict=True)
    ),
    "*Local* Communication latencies in microseconds - smaller is better": _table(
        lmbench.LATENCIES,
        MICROSECONDS,
        *((5, _SWITCHES[0]), (5, "Pipe"), (4, "AF UNIX"), (5, "UDP"), (5, ""), (5, "TCP"), (5, ""), (4, "TCP conn")),
    ),
    "File & VM system latencies in microseconds - smaller is better": _table(
        lmbench.FILES,
        MICROSECONDS,
        *((6, "0K File Create"), (6, "0K File Delete"), (6, "10K File Create"), (6, "10K File Delete")),
        *((7, "Mmap Latency"), (5, "Prot Fault"), (7, "Page Fault"), (5, "100fd selct")),
    ),
    "*Local* Communication bandwidths in MB/s - bigger is better": _table(
        lmbench.BANDWIDTHS,
        MEGABYTES,
        *((4, "Pipe"), (4, "AF Unix"), (4, "TCP"), (6, "File reread"), (6, "Mmap reread")),
        *((6, "Bcopy (libc)"), (6, "Bcopy (hand)"), (4, "Mem read"), (5, "Mem write")),
    ),
}
_OTHER_TABLE = re.compile(
    r"Basic system parameters|Basic \w+ operations - times in nanoseconds - smaller is better"
    r"|\*Remote\* Communication latencies in microseconds - smaller is better"
    r"|Memory latencies in nanoseconds - smaller is better"
)
TITLE = "L M B E N C H  3 . 0   S U M M A R Y"
_DASHES = re.compile(r"-{9} -+")
_REMARK = re.compile(  # of make, and of getsummary on standard error; also within tables
    r"make\[\d+\]: .+|cd results .+|\S+: (?:no data for .+|lat_mem_rand = .+)|Argument \"\" isn't numeric in .+"
)
_OUTSIDE = re.compile(rf"-+|{TITLE}|\(Alpha software, do not distribute\)")


def parse(text: str) -> tuple[tuple[Row, ...], ...]:
    """The rows of each run, in the order of the tables' lines; raises `OutputError`.

    A run without any value of a table has no line in it. Nothing shows whose line is missing, so that is refused.
    """
    tables: list[list[tuple[Row, ...]]] = []
    seen: list[Sequence[_Column]] = []
    columns: Sequence[_Column] | None = None
    inside, first = False, 0  # where the columns of a table's rows begin; 0 above them
    for line, content in lines(text):
        if _REMARK.fullmatch(content):
            continue
        if not content:
            inside, first = False, 0
        elif first:
            if columns is not None:
                tables[-1].append(_rows(columns, first, line, content))
        elif inside:
            dashes = _DASHES.match(content)
            first = dashes.end() + 1 if dashes else 0
        elif content in TABLES:
            if TABLES[content] in seen:
                raise OutputError(line, content, "is there twice: give one summary at a time")
            inside, columns = True, TABLES[content]
            seen.append(columns)
            tables.append([])
        elif _OTHER_TABLE.fullmatch(content):
            inside, columns = True, None
        elif not _OUTSIDE.fullmatch(content.strip()):
            raise OutputError(line, content, "is not in lmbench's summary")
    if len({len(table) for table in tables}) > 1:
        raise OutputError(line, content, "the tables have different numbers of runs: give their results files instead")
    return tuple(tuple(row for table in run for row in table) for run in zip(*tables, strict=True))


def _rows(columns: Sequence[_Column], first: int, line: int, content: str) -> tuple[Row, ...]:
    found, begin = [], first
    for column in columns:
        text = content[begin : begin + column.width].strip()
        begin += column.width + 1
        if not text or column.test is None:
            continue
        plain = number(text.rstrip("KM"))
        if plain is None or len(text.rstrip("KM")) < len(text) - 1:
            raise OutputError(line, content, f"{text} is not a value of {column.test.name}; are the columns intact?")
        if plain > 0:
            found.append(Row(column.test, plain * _FACTORS.get(text[-1], 1)))
    return tuple(found)
