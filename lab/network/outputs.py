"""Output of a step's script to numbers. Pure.

cpu  84180 5 10233 ...     the first line of /proc/stat (man proc_stat)
{"start": ...}             iperf3 --json, which lab.factors.workloads reads
cpu  84390 5 10421 ...
4710341,,instructions,1000413,100.00,1.05,insn per cycle      perf stat -x, (man perf-stat, CSV FORMAT)
afterwards:                for a web load, with nothing between the CPU times
1795424712000105000,200,410551,0,0,,,,0,GET,...               vegeta encode -to=csv: a request per line (its README)
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab import LabError
from lab.factors.workloads import iperf3
from lab.machine import busy_seconds

AFTERWARDS = "afterwards:"
OK = 200


@dataclass(frozen=True)
class Counted:
    """Bytes per second; the whole machine's CPU seconds and events, over the same seconds."""

    throughput: float
    cpu_seconds: float
    events: Mapping[str, float]


@dataclass(frozen=True)
class Served:
    """Answered requests: seconds since they were due, shortest first; and the machine's use."""

    latencies: Sequence[float]
    seconds: float
    """From the first due time until the last answer."""
    failed: int
    cpu_seconds: float
    events: Mapping[str, float]

    def latency(self, quantile: float) -> float:
        """The time within which this share of the answers arrived: the sorted time at rank ceil(q * n)."""
        return self.latencies[max(0, math.ceil(quantile * len(self.latencies)) - 1)]


class _Result(NamedTuple):
    """A request's outcome; `sent` is a Unix time, `took` ends with the answer, in nanoseconds."""

    sent: int
    code: int
    took: int
    number: int
    error: str


def read(text: str) -> Counted:
    cpu, counted, between, _ = _parts(text)
    return Counted(iperf3(between), cpu, counted)


def read_web(text: str, rate: int) -> Served:
    """Read the output of a step with `rate` requests per second; raises `LabError`."""
    cpu, counted, _, results = _parts(text)
    try:
        rows = [*csv.reader(results)]
        answers = [_Result(_whole(r[0]), _whole(r[1]), _whole(r[2]), _whole(r[8]), r[5]) for r in rows]
    except (ValueError, IndexError, csv.Error):
        last = f"the last is {results[-1][:200]!r}" if results else "there are none"
        raise LabError(f"these are no results of vegeta: {last}") from None
    good = [one for one in answers if one.code == OK and not one.error]
    if not good:
        why = next((one.error or f"status {one.code}" for one in answers), "it has sent none")
        raise LabError(f"no request was answered, so nothing is known of its cost: {why}")
    interval = 10**9 // rate  # like vegeta's ConstantPacer
    # The least late request gives the first due time: none is sent early.
    first = min(one.sent - one.number * interval for one in answers)
    latencies = sorted((one.sent + one.took - first - one.number * interval) / 10**9 for one in good)
    seconds = (max(one.sent + one.took for one in good) - first) / 10**9
    return Served(latencies, seconds, len(answers) - len(good), cpu, counted)


def _parts(text: str) -> tuple[float, dict[str, float], str, list[str]]:
    """CPU seconds and events, the output in between, and the lines after the measurement."""
    lines = text.splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("cpu ")]
    if len(at) != 2:
        raise LabError(f"the step has {len(at)} lines of CPU times, not 2; it ends with {text[-200:]!r}")
    first, last = at
    try:
        cpu = busy_seconds(lines[last]) - busy_seconds(lines[first])
    except ValueError:
        raise LabError(f"these are no CPU times: {lines[first][:100]!r}, {lines[last][:100]!r}") from None
    rest = lines[last + 1 :]
    end = rest.index(AFTERWARDS) if AFTERWARDS in rest else len(rest)
    return cpu, events("\n".join(rest[:end])), "\n".join(lines[first + 1 : last]), rest[end + 1 :]


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII):
        raise ValueError
    return int(text)


def events(text: str) -> dict[str, float]:
    """The counts by event, without events that the machine lacks or didn't count.

    A 0 means not counted: a machine that moves bytes has instructions and cycles. perf itself scales events counted for
    only a part of the time.
    """
    found = re.findall(r"^(\d{1,19}),[^,]*,([^,:]+)", text, re.MULTILINE | re.ASCII)
    return {name: float(count) for count, name in found if int(count)}
