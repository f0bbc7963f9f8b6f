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


def read(text: str) -> Counted:
    cpu, counted, between, _ = _parts(text)
    return Counted(iperf3(between), cpu, counted)


def read_web(text: str, rate: int) -> Served:
    """Read the output of a step with `rate` requests per second; raises `LabError`."""
    cpu, counted, _, results = _parts(text)
    interval = 10**9 // rate  # like vegeta's ConstantPacer; times are in nanoseconds
    due, answered, failures = [], [], []
    try:
        for sent, status, took, _, _, error, _, _, number, *_ in csv.reader(results):
            since = _whole(sent) - _whole(number) * interval  # when the first request was due if this one is in time
            due.append(since)
            if _whole(status) == OK and not error:
                answered.append((_whole(sent) + _whole(took), since + _whole(took)))
            else:
                failures.append(error or f"status {status}")
    except (ValueError, csv.Error):
        raise LabError(f"these are no results of vegeta: the last is {results[-1][:200]!r}") from None
    if not answered:
        why = failures[0] if failures else "it has sent none"
        raise LabError(f"no request was answered, so nothing is known of its cost: {why}")
    first = min(due)  # by the least late request: none is sent early
    latencies = sorted((since - first) / 10**9 for _, since in answered)
    return Served(latencies, (max(end for end, _ in answered) - first) / 10**9, len(failures), cpu, counted)


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
