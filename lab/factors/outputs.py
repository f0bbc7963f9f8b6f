"""Benchmarks' output to one number each: sysbench's text, and the JSON of fio and iperf3. Pure.

All programs run a warm-up, which the number excludes.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any

from lab import LabError

REPORTS = 3  # sysbench's: warm-up, measurement, and the extra second while others may still be measuring
MIB = 1 << 20
BITS = 8  # per byte


class OutputError(LabError):
    """A benchmark has not printed its result; the message has its output instead."""


def sysbench_cpu(text: str) -> float:
    """Events per second, from sysbench with two checkpoints; raises `OutputError`.

    [ 12s ] Checkpoint report:
    CPU speed:
        events per second:  5021.66
    """
    return _measured(text, r"^ {4}events per second:\s+(\d{1,18}\.\d+)$", "events per second")


def sysbench_memory(text: str) -> float:
    """Bytes per second, from sysbench with two checkpoints; raises `OutputError`.

    15040.00 MiB transferred (14884.57 MiB/sec)
    """
    return MIB * _measured(text, r"^\d+\.\d+ MiB transferred \((\d{1,18}\.\d+) MiB/sec\)$", "MiB/sec")


def fio(text: str) -> float:
    """Reads per second of its one job; raises `OutputError`. The format is --output-format=json."""
    if error := _at(found := _json(text), "jobs", 0, "error"):
        raise OutputError(f"fio reports error {error} of its job")
    return _number(_at(found, "jobs", 0, "read", "iops"), "fio", text)


def iperf3(text: str) -> float:
    """Bytes per second received at either end; raises `OutputError`. The format is --json."""
    if error := _at(found := _json(text), "error"):
        raise OutputError(f"iperf3: {error}")
    return _number(_at(found, "end", "sum_received", "bits_per_second"), "iperf3", text) / BITS


def _measured(text: str, pattern: str, what: str) -> float:
    reports = re.findall(pattern, text, re.MULTILINE | re.ASCII)
    if len(reports) != REPORTS:
        raise OutputError(f"sysbench gives {what} {len(reports)} times, not {REPORTS}: {_end(text)}")
    return float(reports[1])


def _json(text: str) -> object:
    """The object in a text; fio may print notes before and after it. None if there is none."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.JSONDecoder().raw_decode(text, max(0, text.find("{")))[0]
    return None


def _at(found: Any, *path: str | int) -> Any:
    """The value at a path in nested lists and objects; None if absent."""
    with contextlib.suppress(LookupError, TypeError):
        for step in path:
            found = found[step]
        return found
    return None


def _number(found: object, program: str, text: str) -> float:
    with contextlib.suppress(OverflowError):
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= float(found) < math.inf:
            return float(found)
    raise OutputError(f"{program} gives no result: {_end(text)}")


def _end(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t}]")]
    return f"it ends with {lines[-1][:200]!r}" if lines else "it has said nothing"
