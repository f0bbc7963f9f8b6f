"""A kernel with few counters, which it multiplexes between the groups like the real one."""

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from virtscope.perf.kernel import PID_CGROUP, Attr, Kernel
from virtscope.perf.machine import Machine

SECOND = 10**9
SOFTWARE = 1
CGROUP_SHARE = 0.5  # of the time that each cgroup runs on each CPU


def hardware(attr: Attr) -> bool:
    return attr.type != SOFTWARE


@dataclass
class _Group:
    cpu: int
    cgroup: bool
    members: list[int] = field(default_factory=list)
    enabled: int = 0
    running: int = 0
    started: bool = False
    alive: bool = True  # until its CPU goes offline


class FakeKernel(Kernel):
    """Counts `rates` per second of each event on every CPU, with `counters` counters shared by its hardware groups."""

    def __init__(self, *, cpus: int = 2, counters: int = 4, most_files: int = 10**6) -> None:
        self.online = set(range(cpus))
        self.counters, self.most_files = counters, most_files
        self.taken = 0  # counters used by others; the kernel doesn't report that when a group is opened
        self.counts_once = False  # only an event's first counter on a CPU counts, as on some guests
        self.rates: Callable[[Attr], float] = lambda attr: 1000.0 * (1 + attr.config % 7)
        self.refuse: Callable[[Attr, int, int], int] = lambda _attr, _cpu, _leader: 0  # returns an errno
        self.asked = 0
        self._next = 3
        self._attrs: dict[int, Attr] = {}  # by descriptor
        self._counted: dict[int, float] = {}
        self._groups: dict[int, _Group] = {}  # by the leader
        self._turn = 0

    @property
    def files(self) -> int:
        return len(self._attrs)

    def open(self, attr: Attr, target: int, cpu: int, leader: int, flags: int) -> int:
        self.asked += 1
        assert (target >= 0) == bool(flags & PID_CGROUP)
        if cpu not in self.online:
            raise _error(errno.ENODEV)
        if refused := self.refuse(attr, cpu, leader):
            raise _error(refused)
        if self.files >= self.most_files:
            raise _error(errno.EMFILE)
        group = self._groups[leader] if leader >= 0 else _Group(cpu, target >= 0)
        if sum(map(hardware, [*(self._attrs[member] for member in group.members), attr])) > self.counters:
            raise _error(errno.EINVAL)
        descriptor, self._next = self._next, self._next + 1
        self._attrs[descriptor], self._counted[descriptor] = attr, 0.0
        self._groups.setdefault(leader if leader >= 0 else descriptor, group).members.append(descriptor)
        return descriptor

    def start(self, leader: int) -> None:
        self._groups[leader].started = True

    def read(self, leader: int, size: int) -> bytes:
        group = self._groups[leader]
        members = group.members if group.alive else [leader]  # the kernel breaks up the group
        values = [round(self._counted[member]) for member in members]
        return struct.pack(f"={3 + len(values)}Q", len(values), group.enabled, group.running, *values)[:size]

    def close(self, descriptor: int) -> None:
        del self._attrs[descriptor]
        self._groups.pop(descriptor, None)
        for group in self._groups.values():
            group.members = [member for member in group.members if member != descriptor]

    def set_online(self, *cpus: int) -> None:
        """Take the other CPUs offline; groups on them never count again."""
        self.online = set(cpus)
        for group in self._groups.values():
            group.alive = group.alive and group.cpu in self.online

    def pass_time(self, seconds: float) -> None:
        """Advance time in ten turns."""
        for _ in range(10):
            self._turn += 1
            for cpu in self.online:
                groups = [group for group in self._groups.values() if group.cpu == cpu]
                self._run(groups, round(seconds * SECOND / 10))

    def _run(self, groups: list[_Group], nanoseconds: int) -> None:
        free = self.counters - self.taken
        firsts: dict[tuple[int, int], int] = {}
        for descriptor in sorted(member for group in groups for member in group.members):
            attr = self._attrs[descriptor]
            firsts.setdefault((attr.type, attr.config), descriptor)
        first = self._turn % len(groups) if groups else 0
        for group in groups[first:] + groups[:first]:
            if not group.started or not group.alive:
                continue
            running = int(nanoseconds * (CGROUP_SHARE if group.cgroup else 1.0))
            group.enabled += running
            needed = sum(hardware(self._attrs[member]) for member in group.members)
            if needed > free:
                continue
            free -= needed
            group.running += running
            for member in group.members:
                attr = self._attrs[member]
                if not (self.counts_once and hardware(attr) and firsts[attr.type, attr.config] != member):
                    self._counted[member] += self.rates(attr) * running / SECOND


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class FakeMachine(Machine):
    """The machine of a fake kernel: a folder with its procfs and sysfs."""

    def __init__(self, folder: Path, kernel: FakeKernel) -> None:
        (folder / "proc/sys/kernel").mkdir(parents=True)
        (folder / "proc/sys/kernel/osrelease").write_text("6.1.0-13-amd64\n")
        (folder / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
        self._kernel = kernel
        self._setting = folder / "proc/sys/kernel/perf_event_paranoid"
        self.set_paranoid(2)
        super().__init__(folder / "proc", folder / "sys")

    def online(self) -> frozenset[int]:
        return frozenset(self._kernel.online)

    def set_paranoid(self, level: int) -> None:
        self._setting.write_text(f"{level}\n")
