"""stress-ng's metrics, as its `--yaml` writes them: operations per second of each stressor.

    metrics:
        - stressor: fork
          bogo-ops: 200
          bogo-ops-per-second-usr-sys-time: 2595.346544
          bogo-ops-per-second-real-time: 2584.362475

An operation ("bogo op") is the unit that a stressor repeats, which may change with stress-ng's version: these values
compare environments, never suites. The rate is in real time, as CPU time excludes the time that virtualisation takes
from a program. Files of older releases have the same keys.
"""

from __future__ import annotations

import re

from lab.suites.rows import HIGHER, OutputError, Row, Test, lines, number

SUITE = "stress-ng"
UNIT = "bogo_operations_per_second"
PROCESSES, COMMUNICATION, COMPUTATION = "processes", "communication", "computation"
GROUPS = {
    "fork": PROCESSES,
    "exec": PROCESSES,
    "get": PROCESSES,  # system calls; the stressor `syscall` mostly sleeps
    "pipe": COMMUNICATION,
    "switch": COMMUNICATION,
    "cpu": COMPUTATION,
    "qsort": COMPUTATION,
}

_STRESSOR = re.compile(r"- stressor: ([a-z0-9-]{1,40})", re.ASCII)
_RATE = re.compile(r"bogo-ops-per-second-real-time: (\S+)")


def parse(text: str) -> tuple[Row, ...]:
    """The rates; raises `OutputError`. A stressor without operations has no row."""
    found: dict[str, float] = {}
    seen: set[str] = set()
    stressor, in_metrics = "", False
    for line, whole in lines(text):
        if whole and not whole.startswith((" ", "-", ".", "#")):
            in_metrics, stressor = whole == "metrics:", ""
        if not in_metrics:
            continue
        content = whole.strip()
        if named := _STRESSOR.fullmatch(content):
            stressor = named[1]
            if stressor in seen:
                raise OutputError(line, content, "is there twice: give one run at a time")
            seen.add(stressor)
        elif rate := _RATE.fullmatch(content):
            value = number(rate[1])
            if value is None or not stressor:
                raise OutputError(line, content, "is not a stressor's rate")
            if value > 0:
                found[stressor] = value
    if not seen:
        raise OutputError(1, text.partition("\n")[0], "stress-ng's metrics are missing: use its --yaml")
    return tuple(Row(Test(SUITE, GROUPS.get(name, "other"), name, UNIT, HIGHER), found[name]) for name in found)
