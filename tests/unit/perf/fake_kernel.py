"""A kernel with counters of its own: few of them, given to the groups in turns as the real one does."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from virtscope.perf.kernel import PID_CGROUP, Attr
from virtscope.perf.machine import Machine

SECOND = 10**9
SOFTWARE = 1


def hardware(attr: Attr) -> bool:
    return attr.type != SOFTWARE


@dataclass
class _Counter:
    attr: Attr
    counted: float = 0.0


@dataclass
class _Group:
    cpu: int
    cgroup: bool
    members: list[int] = field(default_factory=list)
    enabled: int = 0
    running: int = 0
    started: bool = False
    alive: bool = True  # until its CPU goes offline


class FakeKernel:
    """Counts `rates` of each event a second on every CPU, in `counters` counters that its hardware groups share."""

    def __init__(self, *, cpus: int = 2, counters: int = 4, most_files: int = 10**6) -> None:
        self.online = set(range(cpus))
        self.counters = counters
        self.taken = 0  # of these, by someone else; the kernel doesn't say so when a group is opened
        self.most_files = most_files
        self.turn_share = 1.0  # of the time enabled in which a group that has a turn runs
        self.stands_still: Callable[[Attr, int], bool] = lambda _attr, _cpu: False
        self.counts_once = False  # of the counters of an event on a CPU all but the first stand at 0, as on some guests
        self.rates: Callable[[Attr], float] = lambda attr: 1000.0 * (1 + attr.config % 7)
        self.cgroup_share = 0.5  # of the time, that each cgroup runs on each CPU
        self.refuse: Callable[[Attr, int, int], int] = lambda _attr, _cpu, _leader: 0  # an errno
        self.first_value = 0
        self.opened = 0  # calls that succeeded, ever
        self.asked = 0
        self._next = 3
        self._counters: dict[int, _Counter] = {}
        self._groups: dict[int, _Group] = {}  # by the leader
        self._turn = 0

    @property
    def files(self) -> int:
        return len(self._counters)

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
        wanted = [*(self._counters[member].attr for member in group.members), attr]
        if sum(map(hardware, wanted)) > self.counters:
            raise _error(errno.EINVAL)
        descriptor, self._next = self._next, self._next + 1
        self._counters[descriptor] = _Counter(attr)
        self._groups.setdefault(leader if leader >= 0 else descriptor, group).members.append(descriptor)
        self.opened += 1
        return descriptor

    def start(self, leader: int) -> None:
        self._groups[leader].started = True

    def read(self, leader: int, size: int) -> bytes:
        group = self._groups[leader]
        members = group.members if group.alive else [leader]  # the kernel takes the group apart
        values = [(self.first_value + round(self._counters[member].counted)) % 2**64 for member in members]
        return struct.pack(f"={3 + len(values)}Q", len(values), group.enabled, group.running, *values)[:size]

    def close(self, descriptor: int) -> None:
        del self._counters[descriptor]
        self._groups.pop(descriptor, None)
        for group in self._groups.values():
            if descriptor in group.members:
                group.members.remove(descriptor)

    def set_online(self, *cpus: int) -> None:
        """Take the other CPUs away; groups on them never count again."""
        self.online = set(cpus)
        for group in self._groups.values():
            group.alive = group.alive and group.cpu in self.online

    def pass_time(self, seconds: float, turns: int = 10) -> None:
        """Let time pass, in so many turns."""
        for _ in range(turns):
            self._turn += 1
            for cpu in self.online:
                self._run(
                    [group for group in self._groups.values() if group.cpu == cpu], round(seconds * SECOND / turns)
                )

    def _run(self, groups: list[_Group], nanoseconds: int) -> None:
        free = self.counters - self.taken
        firsts: dict[tuple[int, int], int] = {}
        for descriptor in sorted(member for group in groups for member in group.members):
            attr = self._counters[descriptor].attr
            firsts.setdefault((attr.type, attr.config), descriptor)
        first = self._turn % len(groups) if groups else 0
        for group in groups[first:] + groups[:first]:
            if not group.started or not group.alive:
                continue
            wanted = int(nanoseconds * (self.cgroup_share if group.cgroup else 1.0))
            group.enabled += wanted
            counters = {member: self._counters[member] for member in group.members}
            needed = sum(hardware(counter.attr) for counter in counters.values())
            if needed > free:
                continue
            free -= needed
            running = int(wanted * self.turn_share)
            group.running += running
            for member, counter in counters.items():
                second = hardware(counter.attr) and firsts[counter.attr.type, counter.attr.config] != member
                if not (self.counts_once and second) and not self.stands_still(counter.attr, group.cpu):
                    counter.counted += self.rates(counter.attr) * running / SECOND


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class FakeMachine(Machine):
    """The machine of a fake kernel: a folder with what procfs and sysfs would say."""

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
