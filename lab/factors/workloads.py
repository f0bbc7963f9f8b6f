"""The benchmarks: a small known one for each workload, single-threaded, and parsers of their results.

Each runs a warm-up that doesn't count, then the measurement. There may be many more virtual servers than CPUs, so
sysbench runs a second longer (`TAIL`): when the last of the servers is measured, all others are still running.
"""

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab import LabError

REPORTS = 3  # sysbench's: warm-up, measurement, and the extra second while others may still be measuring
MIB = 1 << 20
BITS = 8  # per byte


def sysbench_cpu(text: str) -> float:
    """Events per second, from sysbench with two checkpoints; raises `LabError`.

    [ 12s ] Checkpoint report:
    CPU speed:
        events per second:  5021.66
    """
    return _measured(text, r"^ {4}events per second:\s+(\d{1,18}\.\d+)$", "events per second")


def sysbench_memory(text: str) -> float:
    """Bytes per second, from sysbench with two checkpoints; raises `LabError`.

    15040.00 MiB transferred (14884.57 MiB/sec)
    """
    return MIB * _measured(text, r"^\d+\.\d+ MiB transferred \((\d{1,18}\.\d+) MiB/sec\)$", "MiB/sec")


def fio(text: str) -> float:
    """Reads per second of its one job; raises `LabError`. The format is --output-format=json."""
    return _result("fio", text, "jobs", 0, "read", "iops")


def iperf3(text: str) -> float:
    """Bytes per second received at either end; raises `LabError`. The format is --json."""
    return _result("iperf3", text, "end", "sum_received", "bits_per_second") / BITS


def _measured(text: str, pattern: str, what: str) -> float:
    reports = re.findall(pattern, text, re.MULTILINE | re.ASCII)
    if len(reports) != REPORTS:
        raise LabError(f"sysbench gives {what} {len(reports)} times, not {REPORTS}: {_end(text)}")
    return float(reports[1])


def _result(program: str, text: str, *path: str | int) -> float:
    """The number above 0 at a path in the object in a text; fio may print notes before and after it."""
    with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError, OverflowError):
        found: Any = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
        for step in path:
            found = found[step]
        if not isinstance(found, bool) and 0 < float(found) < math.inf:
            return float(found)
    raise LabError(f"{program} gives no result: {_end(text)}")


def _end(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t}]")]
    return f"it ends with {lines[-1][:200]!r}" if lines else "it has said nothing"


TAIL = 1  # seconds
_TIMES = "--threads=1 --events=0 --time={end} --report-checkpoints={warm_up},{whole} run"


@dataclass(frozen=True)
class Benchmark:
    name: str
    """Its name in the report; the workload's own, unless that has several."""
    unit: str
    template: str
    """The command; `whole` is the warm-up and the measurement, `end` is `TAIL` later."""
    read: Callable[[str], float]
    """Finds the result in its output; raises `LabError`."""
    has_peer: bool = False
    """Whether it connects to an `iperf3 --server`, whose port is appended to the command."""

    def command(self, warm_up: int, duration: int) -> list[str]:
        """The command for a warm-up and a measurement, both in seconds."""
        whole = warm_up + duration
        return self.template.format(warm_up=warm_up, duration=duration, whole=whole, end=whole + TAIL).split()


# Blocks are larger than most caches.
_MEMORY = f"sysbench memory --memory-block-size=64M --memory-total-size=1000000T --memory-oper=write {_TIMES}"
# One request at a time, bypassing the page cache: the wait for a block that isn't in memory.
_FIO = (
    "fio --name=disk --filename=/srv/state/disk --size=64m --rw=randread --bs=4k --direct=1 --ioengine=psync --thread "
    "--output-format=json --time_based --ramp_time={warm_up} --runtime={duration}"
)
_IPERF3 = "iperf3 --client=127.0.0.1 --json --omit={warm_up} --time={duration}"
BENCHMARKS: Mapping[str, tuple[Benchmark, ...]] = {
    "cpu": (Benchmark("cpu", "events/s", f"sysbench cpu --cpu-max-prime=10000 {_TIMES}", sysbench_cpu),),
    "memory": (Benchmark("memory", "bytes/s", _MEMORY, sysbench_memory),),
    "disk": (Benchmark("disk", "reads/s", _FIO, fio),),
    "network": (
        Benchmark("network sent", "bytes/s", f"{_IPERF3} --port", iperf3, has_peer=True),
        Benchmark("network received", "bytes/s", f"{_IPERF3} --reverse --port", iperf3, has_peer=True),
    ),
}
"""By workload: the benchmarks of a step, one after the other."""


def seconds(workload: str, warm_up: int, duration: int) -> int:
    return len(BENCHMARKS[workload]) * (warm_up + duration + TAIL)
