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
units are from src/lib_timing.c: latencies in microseconds, and a megabyte is 1,000,000 bytes. Output beyond the
summary's tables of the operating system is ignored; a value of -1 or 0 is one that lmbench couldn't measure, so it has
no row.
"""

import re
from collections.abc import Iterator

from lab.suites.rows import HIGHER, LOWER, MEGABYTES, MICROSECONDS, TESTS, OutputError, Row, Test, keep, lines, measured

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
_EXECUTING = ("Process fork+execve", "Process fork+/bin/sh -c")
FILE_SYSTEM = '"File system latency'
FILE_TESTS = {
    size: [_test(FILES, f"{size.upper()} File {what}") for what in ("Create", "Delete")] for size in ("0k", "10k")
}
_UNITS = {MICROSECONDS: "microseconds", MEGABYTES: "MB/sec"}
_LINE = re.compile(r"(.+?): (-?[0-9.]+) (microseconds|nanoseconds|milliseconds|MB/sec|KB/sec|pages)", re.ASCII)
_PAIR = re.compile(r"(-?[0-9.]+)\s+(-?[0-9.]+)(?: MB/sec)?", re.ASCII)
_SIZE = re.compile(r'"size=(\d{1,6})k ovr=-?[0-9.]+', re.ASCII)
_FILES_LINE = re.compile(r"(\d{1,6}k)\t(-?\d+)\t(-?\d+)\t(-?\d+)", re.ASCII)
# Beyond the summary: other headings, and lines without a unit.
_OTHER_HEADING = re.compile(r'"|Memory |Random load latency$|Socket bandwidth using \S+$')
_OTHER_LINE = re.compile(
    r"\[.*|Simple read: -1|\w+ \w+ parallelism: [0-9.]+|Avg xfer: .+|.*: /dev/tty.*"
    r"|.+: (line )?\d{1,9}: (netstat|ifconfig): (command )?not found"  # lmbench's script describes the machine
    # Its RPC tests without rpcbind, also if they crash; the summary doesn't have them here.
    r"|unable to register \(XACT_PROG, XACT_VERS, (udp|tcp)\)\.|\S+: RPC: .+|Segmentation fault( \(core dumped\))?"
)


def parse(text: str) -> tuple[Row, ...]:
    values: dict[Test, float] = {}
    sizes: dict[Test, float] = {}  # the largest of several sizes counts
    read_and_write: dict[str, float] = {}
    unreliable: set[Test] = set()
    heading, kilobytes = "", ""  # of the current list, and of a context switch's working set
    for line, content in lines(text):
        if not content:
            heading = ""
        elif content.endswith(_NO_HELLO):
            unreliable = {LINES[name] for name in _EXECUTING}
        elif begun := _heading(content):
            heading, kilobytes = begun
        elif heading and (found := _of_list(heading, kilobytes, line, content)) is not None:
            for size, test, value in found:
                if size >= sizes.get(test, 0):
                    sizes[test], values[test] = size, value
        else:
            heading = ""
            for name, test, value in _of_line(line, content):
                if test == NULL_IO:
                    read_and_write[name] = value
                else:
                    keep(values, test, value, line, content)
    if "Simple write" in read_and_write:  # without /dev/zero there is no read: write alone, as in getsummary
        values[NULL_IO] = sum(read_and_write.values()) / len(read_and_write)
    return tuple(Row(test, value) for test, value in values.items() if test not in unreliable)


def _heading(content: str) -> tuple[str, str] | None:
    if size := _SIZE.fullmatch(content):
        return SWITCHING, size[1]
    known = content in LISTS or content == FILE_SYSTEM or _OTHER_HEADING.match(content)
    return (content, "") if known else None


def _of_list(heading: str, kilobytes: str, line: int, content: str) -> list[tuple[float, Test, float]] | None:
    """Size, test and value for each value of a list's line; None for the line after the list."""
    if heading == FILE_SYSTEM:
        files = _FILES_LINE.fullmatch(content)
        if files is None:
            return None
        pairs = zip(FILE_TESTS.get(files[1], ()), (files[3], files[4]), strict=False)
        return [(1, test, 1e6 / rate) for test, text in pairs if (rate := _measured(text, line, content))]
    pair = _PAIR.fullmatch(content)
    if pair is None:
        return None
    size, value = (_measured(text, line, content) for text in pair.groups())
    if not value or not size:
        return []
    if heading == SWITCHING:
        name = f"{pair[1]}p/{kilobytes}K"
        groups = ([SWITCHING] if name in TESTS[SUITE]["switches"] else []) + ([LATENCIES] if name == "2p/0K" else [])
        return [(1, _test(group, f"{name} ctxsw"), value) for group in groups]
    return [(size, LISTS[heading], value)] if heading in LISTS else []


def _of_line(line: int, content: str) -> Iterator[tuple[str, Test, float]]:
    match = _LINE.fullmatch(content)
    if match is None:
        if not _OTHER_LINE.fullmatch(content):
            raise OutputError(line, content, "is not in lmbench's results; remove it if another program printed it")
        return
    name, text, unit = match.groups()
    test = LINES.get("Pagefaults on" if name.startswith("Pagefaults on ") else name)
    value = _measured(text, line, content)
    if test is None or value is None:
        return
    if unit != _UNITS[test.unit]:
        raise OutputError(line, content, f"{test.name} is in {_UNITS[test.unit]}")
    yield name, test, value


def _measured(text: str, line: int, content: str) -> float | None:
    """A value; None for -1 and 0, which mean that it couldn't be measured."""
    value = measured(text.removeprefix("-"), line, content)
    return value if value > 0 and not text.startswith("-") else None
