"""The kernel's own accounting of guests, read without the exporter, to compare its page with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import wait_for

TICK = 1 / os.sysconf("SC_CLK_TCK")
PERIOD_MICROSECONDS = 100_000


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


class NoQuotaError(Exception):
    """This machine's cgroups can't be used; the message says why."""


@contextlib.contextmanager
def quota(cpus: float) -> Iterator[Path]:
    """A new cgroup with a CPU quota, with the controller of either cgroup version."""
    try:
        folder, unified = _new_cgroup()
    except OSError as error:
        raise NoQuotaError(f"no cgroup with a quota can be made: {error}") from error
    period = PERIOD_MICROSECONDS
    try:
        if unified:
            (folder / "cpu.max").write_text(f"{round(cpus * period)} {period}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(round(cpus * period)))
        yield folder
    finally:
        wait_for(lambda: not (folder / "cgroup.procs").read_text(), 10)
        folder.rmdir()


def _new_cgroup() -> tuple[Path, bool]:
    for _source, folder, kind, options, *_ in map(str.split, Path("/proc/self/mounts").read_text().splitlines()):
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(tempfile.mkdtemp(prefix="virtscope-", dir=folder)), False
        if kind == "cgroup2" and "cpu" in Path(folder, "cgroup.controllers").read_text().split():
            Path(folder, "cgroup.subtree_control").write_text("+cpu")
            return Path(tempfile.mkdtemp(prefix="virtscope-", dir=folder)), True
    raise NoQuotaError("no CPU controller of cgroups is mounted")


def throttling(cgroup: Path) -> Throttling:
    """The values of cpu.stat (Documentation/admin-guide/cgroup-v2.rst; version 1 has nanoseconds)."""
    found = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
    throttled = int(found["throttled_usec"]) / 1e6 if "throttled_usec" in found else int(found["throttled_time"]) / 1e9
    return Throttling(int(found["nr_periods"]), int(found["nr_throttled"]), throttled)
