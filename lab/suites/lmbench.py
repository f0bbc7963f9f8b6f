"""lmbench 3.0's own output: a results file, or standard error of its programs.

    [lmbench3.0 results for Linux host 6.1.0 ...]
    Simple syscall: 0.1216 microseconds
    Select on 100 tcp fd's: 5.3570 microseconds

    "size=16k ovr=0.75
    2 1.78
    8 3.80

    Memory read bandwidth
    0.524288 31941.21
    67.11 12011.60

The rows are those of lmbench's summary (scripts/getsummary), computed in the same way: "null I/O" is the mean of read
and write, the largest of several sizes counts, and files created per second become microseconds per file. Format and
units are from src/lib_timing.c: latencies in microseconds, and a megabyte is 1,000,000 bytes. All else is ignored; a
value of -1 or 0 is one that lmbench couldn't measure, so it has no row.
"""

import re
from collections.abc import Iterator

from lab.suites.rows import HIGHER, LOWER, MEGABYTES, MICROSECONDS, TESTS, OutputError, Row, Test, number, once

SUITE = "lmbench"
PROCESSES, SWITCHING = "processor_processes", "context_switching"
LATENCIES, BANDWIDTHS = "local_communication_latencies", "local_communication_bandwidths"
FILES = "file_and_vm_system_latencies"


def _test(group: str, name: str) -> Test:
    unit, better = (MEGABYTES, HIGHER) if group == BANDWIDTHS else (MICROSECONDS, LOWER)
    return Test(SUITE, group, name, unit, better)


LINES, LISTS = (
    {text: _test(group, name) for group, of in TESTS[SUITE][kind].items() for text, name in of.items()}
    for kind in ("lines", "lists")
)
NULL_IO = LINES["Simple read"]
# If the program that lat_proc executes is missing, as with Debian's own script, these times are of a failing exec.
_NO_HELLO = "/hello: not found"
_EXECUTING = {LINES["Process fork+execve"], LINES["Process fork+/bin/sh -c"]}
FILE_SYSTEM = '"File system latency'
_UNITS = {MICROSECONDS: "microseconds", MEGABYTES: "MB/sec"}
_LINE = re.compile(r"(.+?): ([\d.]+) (microseconds|nanoseconds|milliseconds|MB/sec|KB/sec|pages)", re.ASCII)
_PAIR = re.compile(r"([\d.]+)\s+([\d.]+)(?: MB/sec)?", re.ASCII)
_SIZE = re.compile(r'"size=(\d{1,6})k ovr=-?[\d.]+', re.ASCII)
_FILES = re.compile(r"(0|10)k\t\d+\t(\d+)\t(\d+)", re.ASCII)


def parse(text: str) -> tuple[Row, ...]:
    found: list[Row] = []
    null_io: dict[str, float] = {}
    largest: dict[Test, tuple[float, float]] = {}  # size and value
    heading = ""  # of the current list
    for content in map(str.rstrip, text.splitlines()):
        if not content[:1].isdigit():  # a list's lines are numbers
            heading = content
        for test, size, value in _listed(heading, content):
            if value and size >= largest.get(test, (0.0, 0.0))[0]:
                largest[test] = size, value
        if (line := _LINE.fullmatch(content)) and (of := LINES.get(re.sub("^(Pagefaults on) .*", r"\1", line[1]))):
            if line[3] != _UNITS[of.unit]:
                raise OutputError(f"{content!r}: {of.name} is in {_UNITS[of.unit]}")
            value = number(f"{line[1]}: {line[2]}")
            if of == NULL_IO:
                null_io[line[1]] = value
            else:
                found.append(Row(of, value))
    if "Simple write" in null_io:  # without /dev/zero there is no read: write alone, as in getsummary
        found.append(Row(NULL_IO, sum(null_io.values()) / len(null_io)))
    unreliable = _EXECUTING if re.search(f"{_NO_HELLO}$", text, re.MULTILINE) else set()
    found += (Row(test, value) for test, (_, value) in largest.items())
    return once(row for row in found if row.test not in unreliable)


def _listed(heading: str, content: str) -> Iterator[tuple[Test, float, float]]:
    """Test, size and value for each value of a list's line."""
    if heading == FILE_SYSTEM and (files := _FILES.fullmatch(content)):
        for what, rate in (("Create", files[2]), ("Delete", files[3])):
            yield _test(FILES, f"{files[1]}K File {what}"), 1, 1e6 / int(rate) if int(rate) else 0.0
    elif pair := _PAIR.fullmatch(content):
        size, value = number(pair[1]), number(pair[2])
        if heading in LISTS:
            yield LISTS[heading], size, value
        elif (of := _SIZE.fullmatch(heading)) and (name := f"{pair[1]}p/{of[1]}K") in TESTS[SUITE]["switches"]:
            for group in (SWITCHING, LATENCIES) if name == "2p/0K" else (SWITCHING,):
                yield _test(group, f"{name} ctxsw"), 1, value
