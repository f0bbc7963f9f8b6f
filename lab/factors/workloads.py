"""The benchmarks: a small known one for each workload, single-threaded, and how its result is read.

Each runs for a warm-up that doesn't count, and the measurement. sysbench, whose virtual servers may be many more than
CPUs, runs a second longer (`TAIL`), so that the last of those that were started together is still measured beside all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.factors import outputs

TAIL = 1  # seconds
BLOCK = "64M"  # of memory that is written at a time: more than most caches hold
DISK = "64m"  # the size of the file of each virtual server


@dataclass(frozen=True)
class Benchmark:
    """One with a result, of which more is better."""

    name: str
    """As the report calls it; the workload's own, unless that has several."""
    unit: str
    command: Callable[[int, int], list[str]]
    """Of a warm-up and a measurement, both in seconds."""
    read: Callable[[str], float]
    """The result in what it prints; raises `OutputError`."""
    has_peer: bool = False
    """Whether it connects to an `iperf3 --server`, whose port is to be appended to the command."""


def _sysbench(*what: str) -> Callable[[int, int], list[str]]:
    def command(warm_up: int, duration: int) -> list[str]:
        whole = warm_up + duration
        checkpoints = f"--report-checkpoints={warm_up},{whole}"
        return ["sysbench", *what, "--threads=1", "--events=0", f"--time={whole + TAIL}", checkpoints, "run"]

    return command


def _fio(warm_up: int, duration: int) -> list[str]:
    # One request at a time past the page cache: what a virtual server waits for a block that is nowhere in memory.
    what = ["--name=disk", "--filename=/srv/state/disk", f"--size={DISK}", "--rw=randread", "--bs=4k"]
    how = ["--direct=1", "--ioengine=psync", "--thread", "--output-format=json"]
    return ["fio", *what, *how, "--time_based", f"--ramp_time={warm_up}", f"--runtime={duration}"]


def _iperf3(*direction: str) -> Callable[[int, int], list[str]]:
    def command(warm_up: int, duration: int) -> list[str]:
        times = [f"--omit={warm_up}", f"--time={duration}"]
        return ["iperf3", "--client=127.0.0.1", "--json", *times, *direction, "--port"]

    return command


BENCHMARKS: Mapping[str, tuple[Benchmark, ...]] = {
    "cpu": (Benchmark("cpu", "events/s", _sysbench("cpu", "--cpu-max-prime=10000"), outputs.sysbench_cpu),),
    "memory": (
        Benchmark(
            "memory",
            "bytes/s",
            _sysbench("memory", f"--memory-block-size={BLOCK}", "--memory-total-size=1000000T", "--memory-oper=write"),
            outputs.sysbench_memory,
        ),
    ),
    "disk": (Benchmark("disk", "reads/s", _fio, outputs.fio),),
    "network": (
        Benchmark("network sent", "bytes/s", _iperf3(), outputs.iperf3, has_peer=True),
        Benchmark("network received", "bytes/s", _iperf3("--reverse"), outputs.iperf3, has_peer=True),
    ),
}
"""By workload: what is measured in a step, one after the other."""


def seconds(workload: str, warm_up: int, duration: int) -> int:
    """How long all benchmarks of a workload run."""
    return len(BENCHMARKS[workload]) * (warm_up + duration + TAIL)
