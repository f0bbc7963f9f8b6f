"""Cost of sched-exporter on this machine: per task switch, and for reading many pairs and containers. As root.

A switch is measured by the kernel's run time statistics, and by a pipe with and without the program.
"""

import contextlib
import ctypes
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.proofs.bench import scraping
from virtscope.sched.cpu import Waits
from virtscope.sched.reasons import Machine, before_loading
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import Hierarchy, hierarchy

SWITCH_BAR = 60  # ns with one cgroup
CPU_BAR = 0.005  # CPUs at 60,000 switches a second
READ_BAR = 0.005  # CPU seconds for 1,000 pairs
PAIRS = 1_000
CONTAINERS = (100, 1_000)
LOADS = ((20_000, 1), (60_000, 1), (60_000, 4))  # switches a second, and the number of cgroups
LOAD_SECONDS = 5.0
PIPE_ROUNDS = 6
PIPE_OPERATIONS = 200_000  # two switches each
ROUNDS = 10

_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")

# Two processes that pass a byte back and forth in bursts: SWITCHES a second, in the cgroup of FILE.
_HAND_OVER = """
import os, sys, time
switches, seconds, file = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
open(file, "w").write("0")
there, back = os.pipe(), os.pipe()
if not os.fork():
    os.close(there[1])
    while os.read(there[0], 1):
        os.write(back[1], b"x")
    os._exit(0)
begun, done = time.monotonic(), 0
while (now := time.monotonic() - begun) < seconds:
    if done > now * switches:
        time.sleep(0.001)
    for _ in range(20):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    done += 40
"""


class Spent(NamedTuple):
    """The program's run time by the kernel's statistics."""

    ns: int
    runs: int


def measure() -> None:
    """Print all results, or why they can't be measured here."""
    print("\nWho waits for whom: sched-exporter's program in this machine's kernel")
    machine = Machine.read(Path("/proc"), Path("/sys"))
    try:
        if reason := before_loading(machine):
            raise reason
        mounted = hierarchy(Path("/proc"), "cpu")
        with contextlib.closing(Waits(mounted.version, machine)) as program:
            _by_the_kernels_count(mounted)
            _reading(program)
        _by_a_pipe(mounted, machine)
        _scrapes(mounted)
    except (SourceError, OSError) as error:
        print(f"  not measured: {error}")


# --- A switch ---------------------------------------------------------------------------------------------------------


def _by_the_kernels_count(mounted: Hierarchy) -> None:
    print(
        "  By the kernel's own count (kernel.bpf_stats_enabled, whose clock is part of it)"
        f"\n  Bar: {CPU_BAR:.1%} of one CPU at 60,000 switches/s, one cgroup"
        "\n  switches/s  cgroups  ns each  of one CPU"
    )
    before = _STATISTICS.read_text()
    _STATISTICS.write_text("1")
    try:
        for switches, cgroups in LOADS:
            with _cgroups(mounted, cgroups) as folders:
                spent, seconds = _under_load(switches, folders)
            share = spent.ns / 1e9 / seconds
            verdict = f"   {scraping.verdict(share, CPU_BAR)}" if (switches, cgroups) == (60_000, 1) else ""
            print(f"{spent.runs / seconds:12,.0f}{cgroups:9}{spent.ns / spent.runs:9.0f}{share:12.2%}{verdict}")
    finally:
        _STATISTICS.write_text(before)


def _under_load(switches: int, folders: list[Path]) -> tuple[Spent, float]:
    """The program's run time at this many switches a second on one CPU, and the seconds measured."""
    each = [str(switches / len(folders)), str(LOAD_SECONDS + 1)]
    load = ["taskset", "-c", "0", sys.executable, "-c", _HAND_OVER, *each]
    running = [subprocess.Popen([*load, f"{folder}/cgroup.procs"]) for folder in folders]
    time.sleep(0.5)
    before, begun = _spent(), time.monotonic()
    time.sleep(LOAD_SECONDS)
    after, seconds = _spent(), time.monotonic() - begun
    for process in running:
        process.wait()
    return Spent(after.ns - before.ns, after.runs - before.runs), seconds


def _spent() -> Spent:
    """The run time of this process's only program: man proc, fdinfo."""
    (found,) = (text for text in _fdinfo() if "run_cnt:" in text)
    return Spent(*(int(found.partition(f"{name}:")[2].split()[0]) for name in ("run_time_ns", "run_cnt")))


def _fdinfo() -> Iterator[str]:
    for file in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield file.read_text()


def _by_a_pipe(mounted: Hierarchy, machine: Machine) -> None:
    if not shutil.which("perf"):
        print("  perf bench sched pipe: no perf here (apt-get install linux-perf)")
        return
    without, with_it = [], []
    for _ in range(PIPE_ROUNDS):
        without.append(_pipe())
        with contextlib.closing(Waits(mounted.version, machine)):
            with_it.append(_pipe())
    print(
        f"  perf bench sched pipe, SCHED_FIFO on one CPU, {PIPE_ROUNDS} times each in turn; bar: {SWITCH_BAR} ns"
        "\n                us per operation (two switches): without     with   ns a switch"
    )
    for name, of in (("median", statistics.median), ("least", min)):
        switch = (of(with_it) - of(without)) * 1e3 / 2
        verdict = f"   {scraping.verdict(switch, SWITCH_BAR)}" if of is statistics.median else ""
        print(f"  {name:44}{of(without):12.3f}{of(with_it):9.3f}{switch:14.0f}{verdict}")


def _pipe() -> float:
    """Microseconds per operation of perf bench."""
    command = ["taskset", "-c", "0", "chrt", "-f", "50", "perf", "bench", "sched", "pipe", "-l", str(PIPE_OPERATIONS)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"([\d.]+) usecs/op", said)
    if not found:
        raise OSError(f"perf bench says {said!r}")
    return float(found[1])


# --- Reading ----------------------------------------------------------------------------------------------------------


def _reading(program: Waits) -> None:
    maps = sum(int(text.partition("memlock:")[2].split()[0]) for text in _fdinfo() if "map_type:" in text)
    _fill(program)
    least = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time()
        found = program.pairs()
        least = min(least, time.thread_time() - begun)
    print(
        f"  Reading {len(found):,} pairs on {os.cpu_count()} CPUs: {least * 1e3:.2f} ms of CPU; "
        f"bar: {READ_BAR * 1e3:.0f} ms   {scraping.verdict(least, READ_BAR)}"
        f"\n  Memory of its maps in the kernel: {maps / 1e6:.1f} MB"
    )


def _fill(program: Waits) -> None:
    """Fill the kernel's map with this many pairs of nonexistent cgroups."""
    lib, cpus = program.loaded._lib, program._pairs._copies
    lib.bpf_map_update_elem.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
    for number in range(PAIRS):
        key = (ctypes.c_uint64 * 2)(1 << 40, (1 << 40) + number)
        value = (ctypes.c_uint64 * (2 * cpus))(*([10**12 + number] * (2 * cpus)))
        if lib.bpf_map_update_elem(program._pairs._fd, key, value, 0):
            raise OSError(ctypes.get_errno(), "a pair can't be added")


def _scrapes(mounted: Hierarchy) -> None:
    print("  Scrapes, with containers that hardly run\n  containers   series  ms per scrape  resident")
    for containers in CONTAINERS:
        with _cgroups(mounted, containers), scraping.exporter("sched") as target:
            [seconds] = scraping.in_turns([target], ROUNDS, 10)
            resident = target.resident_bytes()
        print(f"{containers:12,}{target.series:9,}{seconds * 1e3:15.2f}{resident / 1e6:7.0f} MB")


@contextlib.contextmanager
def _cgroups(mounted: Hierarchy, count: int) -> Iterator[list[Path]]:
    """This many cgroups that the exporter takes for containers."""
    above = mounted.root / "virtscope"
    folders = [above / f"bench-{os.getpid()}-{number}" for number in range(count)]
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        yield folders
    finally:
        for folder in folders:
            _remove(folder)
        with contextlib.suppress(OSError):  # other processes may be in it
            above.rmdir()


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # ended processes may still be in it for a moment
            time.sleep(0.01)
        else:
            return


if __name__ == "__main__":
    measure()
