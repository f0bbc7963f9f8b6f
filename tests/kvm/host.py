"""The kernel's own accounting of guests, read without the exporter, to compare its page with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lab.cgroups import Cgroup, TierLimits, mounted

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Thread(NamedTuple):
    """A thread of a QEMU, as /proc/PID/task/TID/schedstat and stat have it; seconds since it started."""

    name: str
    run: float
    wait: float
    guest: float


class Process(NamedTuple):
    """A QEMU: its CPU seconds, including those of ended threads, and its current threads by id."""

    cpu: float
    serving: float  # CPU seconds of kernel threads that work only for it; their names end in its pid
    threads: Mapping[int, Thread]

    def vcpu(self, number: int) -> Thread:
        [found] = [thread for thread in self.threads.values() if thread.name.startswith(f"CPU {number}/")]
        return found


class Throttling(NamedTuple):
    """The CPU controller's cpu.stat of one cgroup."""

    periods: int
    throttled_periods: int
    throttled: float


def process(pid: int) -> Process:
    """A QEMU's current values in /proc (man proc: /proc/PID/stat; Documentation/scheduler/sched-stats.rst)."""
    folder = Path("/proc", str(pid))
    threads = {}
    for task in (folder / "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            run, wait, _slices = (task / "schedstat").read_text().split()
            guest = _after_the_name(task)[40]
            name = (task / "comm").read_text().rstrip("\n")
            threads[int(task.name)] = Thread(name, int(run) / 1e9, int(wait) / 1e9, int(guest) * TICK)
    serving = 0.0
    for other in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (other / "comm").read_text() in {f"vhost-{pid}\n", f"kvm-pit/{pid}\n"}:
                serving += _cpu(other)
    return Process(_cpu(folder), serving, threads)


def _cpu(folder: Path) -> float:
    user, system = _after_the_name(folder)[11:13]
    return (int(user) + int(system)) * TICK


def _after_the_name(folder: Path) -> list[str]:
    """The fields of stat from the third on."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


@contextlib.contextmanager
def quota(cpus: float) -> Iterator[Path]:
    """A new cgroup with a CPU quota. Raises CgroupError if this machine's can't be used."""
    hierarchies = mounted()
    cgroup = Cgroup(f"kvm-{os.getpid()}", hierarchies)
    cgroup.make(TierLimits(cap=cpus))
    try:
        root = hierarchies.by_controller.get("cpu", hierarchies.unified)
        assert root is not None  # one of them exists: see parse_mounts
        yield root / cgroup.path[1:]
    finally:
        cgroup.remove()


def throttling(cgroup: Path) -> Throttling:
    """The values of cpu.stat (Documentation/admin-guide/cgroup-v2.rst; version 1 has nanoseconds)."""
    found = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
    throttled = int(found["throttled_usec"]) / 1e6 if "throttled_usec" in found else int(found["throttled_time"]) / 1e9
    return Throttling(int(found["nr_periods"]), int(found["nr_throttled"]), throttled)
