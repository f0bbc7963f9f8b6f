"""The benchmarks: a small known one for each workload, single-threaded, and a parser of its result.

Each runs a warm-up that doesn't count, then the measurement. There may be many more virtual servers than CPUs, so
sysbench runs a second longer (`TAIL`): when the last of the servers is measured, all others are still running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.factors import outputs

TAIL = 1  # seconds
BLOCK = "64M"  # written at a time: larger than most caches
DISK = "64m"  # file size of each virtual server


@dataclass(frozen=True)
class Benchmark:
    name: str
    """Its name in the report; the workload's own, unless that has several."""
    unit: str
    command: Callable[[int, int], list[str]]
    """The command for a warm-up and a measurement, both in seconds."""
    read: Callable[[str], float]
    """Finds the result in its output; raises `OutputError`."""
    has_peer: bool = False
    """Whether it connects to an `iperf3 --server`, whose port is appended to the command."""


def _sysbench(*what: str) -> Callable[[int, int], list[str]]:
    def command(warm_up: int, duration: int) -> list[str]:
        whole = warm_up + duration
        checkpoints = f"--report-checkpoints={warm_up},{whole}"
        return ["sysbench", *what, "--threads=1", "--events=0", f"--time={whole + TAIL}", checkpoints, "run"]

    return command


def _fio(warm_up: int, duration: int) -> list[str]:
    # One request at a time, bypassing the page cache: the wait for a block that isn't in memory.
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
"""By workload: the benchmarks of a step, one after the other."""


def seconds(workload: str, warm_up: int, duration: int) -> int:
    return len(BENCHMARKS[workload]) * (warm_up + duration + TAIL)
