"""The groups opened on every CPU, for the host and for each cgroup that is watched, and read together.

As `perf stat -a -A -I 1000 -e '{cycles,instructions}'` does for the host, but without end. metrics has what is exposed.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple

from virtscope.perf.cgroups import Cgroup
from virtscope.perf.events import Event
from virtscope.perf.groups import Group
from virtscope.perf.kernel import PID_CGROUP, Kernel
from virtscope.perf.machine import Machine
from virtscope.perf.scaling import Scaled, Sum, Total, parse_reading, reading_bytes
from virtscope.perf.support import (
    NO_CPU,
    OVER_CEILING,
    STANDING,
    STARVED,
    TOO_LARGE,
    Refusal,
    RefusalLog,
    Wanted,
    refusal,
)
from virtscope.perf.zeros import Member, Zeros
from virtscope.toolkit.collect import SourceError

log = logging.getLogger(__name__)

RETRY_SECONDS = 600.0  # after which what was refused is asked for again: a limit or a setting may have changed
ZEROS_SECONDS = 10.0  # between two looks for counters that stand still
STARVED_SECONDS = 10.0  # a group that has waited for so long without a turn gets none; turns are of milliseconds

_NO_MORE_FILES = {errno.EMFILE, errno.ENFILE}


class Count(NamedTuple):
    """What a group has counted on one CPU, or for one cgroup on all CPUs, those that are offline now included."""

    target: int | Cgroup
    group: Group
    total: Total


class Counts(NamedTuple):
    """One reading of everything that is open."""

    host: list[Count]
    cgroups: list[Count]
    support: dict[Wanted, Refusal | None]  # None: the event is counted, on one CPU at least
    open_files: int
    reopened: int  # groups that the kernel gave up, and that were opened again, since the start
    left_out: list[Cgroup]


class _Place(NamedTuple):
    group: int  # its index
    cpu: int


class _Opened:
    """A group on one CPU, for the host or for a cgroup; without descriptors where all its events were refused."""

    def __init__(self, total: Sum) -> None:
        self.total = total
        self.members: list[int] = []  # the events that are open, as indices into the group, the leader first
        self.descriptors: list[int] = []  # theirs
        self.refused: dict[int, Refusal] = {}
        self.scaled = Scaled(total, self.members)
        self.content = b""  # of the last read


class _Full(Exception):
    """The process may open no more files."""


class _CpuGone(Exception):
    """The CPU has just gone offline, which says nothing of the events that can't be opened on it."""


class Counters:
    """Keeps the groups open, from the first open() or read() to close().

    A descriptor belongs to one CPU: those of a CPU that goes offline are closed, as they would count nothing ever
    after, and opened again when it comes back. Totals go on from where they were.
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Sequence[Group],
        machine: Machine,
        *,
        open_folder: Callable[[Cgroup], int],
        most_files: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`open_folder` returns a descriptor of a cgroup's folder, FileNotFoundError where it has gone.

        `most_files` counters are open at once, at most.
        """
        self._kernel = kernel
        self._groups = groups
        self._machine = machine
        self._open_folder = open_folder
        self._max_files = most_files
        self._clock = clock
        self._host: dict[_Place, _Opened] = {}
        self._host_sums: dict[_Place, Sum] = {}
        self._cgroups: dict[Cgroup, dict[_Place, _Opened]] = {}  # those that are counted, wholly
        self._cgroup_sums: dict[Cgroup, dict[int, Sum]] = {}  # by the group's index
        self._left_out: list[Cgroup] = []
        self._no_room: set[int] = set()  # groups for which the host's descriptors don't suffice
        self._files = 0
        self._ceiling = most_files  # lower once the kernel has said so, until the next retry
        self._reopened = 0
        self._situation: object = None  # each group's CPUs, and the cgroups, for which everything is open that can be
        self._holes = False  # but for groups that the kernel has given up since, or whose CPU had just gone
        self._read_at = 0.0
        self._paranoid = machine.paranoid()
        self._retry_at = 0.0
        self._refusals = RefusalLog()
        self._zeros = Zeros(groups)
        self._zeros_at = 0.0
        self._standing: set[Member] = set()

    def read(self, cgroups: Iterable[Cgroup]) -> Counts:
        """Open and close what is to be, then read what is open: of the host, and of each of these cgroups."""
        self.open(cgroups)
        now = self._clock()
        long_since, self._read_at = now - self._read_at >= 1, now
        host = [
            Count(place.cpu, self._groups[place.group], opened.total.total())
            for place, opened in list(self._host.items())
            if self._read_host(place, opened, long_since)
        ]
        for places in self._cgroups.values():
            for place in list(places):
                self._read_cgroup(places, place)
        counted = [
            Count(cgroup, self._groups[index], total.total())
            for cgroup in self._cgroups
            for index, total in self._cgroup_sums.get(cgroup, {}).items()
        ]
        if now >= self._zeros_at:
            self._zeros_at = now + ZEROS_SECONDS
            self._standing = self._find_zeros()
        support = self._support()
        self._refusals.update(support)
        return Counts(host, counted, support, self._files, self._reopened, self._left_out)

    def open(self, cgroups: Iterable[Cgroup]) -> None:
        """Close what is gone, and open what is new, or what was refused and may no longer be.

        Raises what the machine raises when it can't say which CPUs are online.
        """
        cpus = self._cpus()
        cgroups = list(cgroups)
        retry = self._time_to_retry()
        situation = (cpus, cgroups)
        if situation == self._situation and not retry and not self._holes:
            return
        if retry:
            self._ceiling = self._max_files
        holes, self._holes = self._holes, False
        changed = self._open_host(cpus, retry)
        self._open_cgroups(cgroups, reopen=changed or retry or holes)
        self._situation = situation

    def close(self) -> None:
        """Close everything."""
        for cgroup in list(self._cgroups):
            self._leave(cgroup)
        for place in list(self._host):
            self._close(self._host.pop(place))
        self._situation = None

    # --- Opening ------------------------------------------------------------------------------------------------------

    def _time_to_retry(self) -> bool:
        paranoid, now = self._machine.paranoid(), self._clock()
        if paranoid == self._paranoid and now < self._retry_at:
            return False
        self._paranoid, self._retry_at = paranoid, now + RETRY_SECONDS
        return True

    def _cpus(self) -> list[frozenset[int]]:
        """Return the CPUs on which each group is to be open now.

        Outside of the cores that is one CPU of a socket, and another one as soon as that goes offline.
        """
        online = self._machine.online()
        cpus = []
        for group in self._groups:
            try:
                cpus.append(online & self._machine.listed(group.cpu_list) if group.cpu_list else online)
            except SourceError:  # its driver is gone, and so is what it could count
                cpus.append(frozenset())
        return cpus

    def _open_host(self, cpus: list[frozenset[int]], retry: bool) -> bool:
        """Open the host's groups, each on its CPUs; returns whether anything changed that cgroups' groups follow."""
        before = {place: list(opened.members) for place, opened in self._host.items()}
        for place in [place for place in self._host if place.cpu not in cpus[place.group]]:
            self._close(self._host.pop(place))
        for index, group in enumerate(self._groups):
            places = [_Place(index, cpu) for cpu in sorted(cpus[index])]
            self._no_room.discard(index)
            try:
                self._make_room(len(group.events) * sum(place not in self._host for place in places))
                for place in places:
                    if place in self._host and retry and self._host[place].refused:
                        # Opened again as a whole, as none may join a running group.
                        self._read_host(place, self._host[place], long_since=False)  # what it has counted till now
                        if place in self._host:
                            self._close(self._host.pop(place))
                    if place not in self._host:
                        self._open_on(place)
            except _CpuGone:
                self._holes = True
            except _Full:
                self._no_room.add(index)
                for place in places:
                    if place in self._host:
                        self._close(self._host.pop(place))
        return before != {place: opened.members for place, opened in self._host.items()}

    def _make_room(self, files: int) -> None:
        """See to it that the host can have so many descriptors more: it comes before any cgroup."""
        if sum(len(opened.descriptors) for opened in self._host.values()) + files > self._ceiling:
            raise _Full
        while self._files + files > self._ceiling:
            self._leave(next(reversed(self._cgroups)))

    def _open_on(self, place: _Place) -> None:
        """Open as many of the host's group as the kernel lets, on one CPU."""
        group = self._groups[place.group]
        opened = _Opened(self._host_sums.setdefault(place, Sum(len(group.events))))
        try:
            for index, event in enumerate(group.events):
                try:
                    self._join(opened, index, event, -1, place.cpu)
                except OSError as error:
                    if place.cpu not in self._machine.online():
                        raise _CpuGone from None
                    opened.refused[index] = self._why(error, event, opened, place.cpu)
            self._start(opened)
        except Exception:  # whatever it is: nothing else closes these descriptors
            self._close(opened)
            raise
        self._host[place] = opened

    def _open_cgroups(self, cgroups: list[Cgroup], reopen: bool) -> None:
        """Open each cgroup's groups where the host's are open, with the same events.

        A cgroup that is counted stays counted: newcomers get the descriptors that are left. `reopen`: those that are
        counted are to be looked at too.
        """
        wanted = set(cgroups)
        for cgroup in (self._cgroups.keys() | self._cgroup_sums.keys()) - wanted:
            self._leave(cgroup)
            self._cgroup_sums.pop(cgroup, None)
        left_out = []
        newcomers = [cgroup for cgroup in cgroups if cgroup not in self._cgroups]
        for cgroup in [*(list(self._cgroups) if reopen else ()), *newcomers]:
            try:
                self._complete_cgroup(cgroup)
            except _Full:
                self._leave(cgroup)
                left_out.append(cgroup)
            except OSError as error:  # the host could be counted by the same events: it's for the cgroup
                self._leave(cgroup)
                if error.errno == errno.ENODEV:  # one of the CPUs has just gone
                    self._holes = True
                elif error.errno != errno.ENOENT:  # else the cgroup has
                    left_out.append(cgroup)
                    log.warning("cgroup can't be counted", extra={"fields": {"cgroup": cgroup.path, "err": error}})
        self._log_left_out(left_out)

    def _complete_cgroup(self, cgroup: Cgroup) -> None:
        """Bring a cgroup's open groups up to the host's; raises _Full or OSError where that can't be."""
        places = self._cgroups.setdefault(cgroup, {})
        hosts = {
            place: opened.members
            for place, opened in self._host.items()
            if opened.members and not self._groups[place.group].system_wide
        }
        for place in [place for place, opened in places.items() if opened.members != hosts.get(place)]:
            self._close(places.pop(place))
        missing = {place: members for place, members in hosts.items() if place not in places}
        if self._files + sum(map(len, missing.values())) > self._ceiling:
            raise _Full
        if not missing:
            return
        sums = self._cgroup_sums.setdefault(cgroup, {})
        folder = self._open_folder(cgroup)
        try:
            for place, members in missing.items():
                events = self._groups[place.group].events
                opened = places[place] = _Opened(sums.setdefault(place.group, Sum(len(events))))
                for index in members:
                    self._join(opened, index, events[index], folder, place.cpu)
                self._start(opened)
        finally:
            os.close(folder)

    def _join(self, opened: _Opened, index: int, event: Event, folder: int, cpu: int) -> None:
        """Open an event and make it a member of its group."""
        leader = opened.descriptors[0] if opened.descriptors else -1
        try:
            descriptor = self._kernel.open(event.attr, folder, cpu, leader, 0 if folder < 0 else PID_CGROUP)
        except OSError as error:
            if error.errno not in _NO_MORE_FILES:
                raise
            self._ceiling = self._files
            raise _Full from None
        self._files += 1
        opened.descriptors.append(descriptor)
        opened.members.append(index)

    def _start(self, opened: _Opened) -> None:
        if opened.descriptors:
            self._kernel.start(opened.descriptors[0])
            opened.scaled = Scaled(opened.total, opened.members)

    def _why(self, error: OSError, event: Event, opened: _Opened, cpu: int) -> Refusal:
        """Distinguish what the kernel calls EINVAL: an event it doesn't know, and one too many for its group."""
        if error.errno == errno.EINVAL and opened.descriptors:
            try:
                self._kernel.close(self._kernel.open(event.attr, -1, cpu, -1, 0))
            except OSError as alone:
                return refusal(alone, event, self._machine)
            return TOO_LARGE
        return refusal(error, event, self._machine)

    def _close(self, opened: _Opened) -> None:
        self._files -= len(opened.descriptors)
        while opened.descriptors:
            self._kernel.close(opened.descriptors.pop())  # the leader last: without it the others would be alone

    def _leave(self, cgroup: Cgroup) -> None:
        for opened in self._cgroups.pop(cgroup, {}).values():
            self._close(opened)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def _read_host(self, place: _Place, opened: _Opened, long_since: bool) -> bool:
        """Read a group of the host; returns whether it is open."""
        if not opened.descriptors:
            return False
        content = self._content(opened)
        # While its CPU is online, the time for which a group was wanted goes on. Else the CPU has been away since the
        # last read, though it is back: the kernel doesn't take groups up again.
        if content == opened.content and long_since:
            content = b""
        if self._add(opened, content):
            return True
        self._close(self._host.pop(place))
        return False

    def _read_cgroup(self, places: dict[_Place, _Opened], place: _Place) -> None:
        opened = places[place]
        content = self._content(opened)
        if content != opened.content and not self._add(opened, content):  # the same: it hasn't run there since
            self._close(places.pop(place))

    def _content(self, opened: _Opened) -> bytes:
        try:
            return self._kernel.read(opened.descriptors[0], reading_bytes(len(opened.descriptors)))
        except OSError:  # this group can't be read, which is to cost no other one
            return b""

    def _add(self, opened: _Opened, content: bytes) -> bool:
        """Add a reading to its sum; returns False where the kernel has given the group up."""
        reading = parse_reading(content, len(opened.descriptors))
        if reading is None:
            self._reopened += 1  # at the next open()
            self._holes = True
            return False
        opened.content = content
        opened.scaled.add(reading)
        return True

    # --- What isn't counted -------------------------------------------------------------------------------------------

    def _support(self) -> dict[Wanted, Refusal | None]:
        by_group: dict[int, list[_Opened]] = {index: [] for index in range(len(self._groups))}
        for place, opened in self._host.items():
            by_group[place.group].append(opened)
        return {
            Wanted(group.name, event): self._refusal(index, member, by_group[index])
            for index, group in enumerate(self._groups)
            for member, event in enumerate(group.events)
        }

    def _find_zeros(self) -> set[Member]:
        by_cpu: dict[int, dict[int, Sum]] = {}
        for place, opened in self._host.items():
            by_cpu.setdefault(place.cpu, {})[place.group] = opened.total
        by_cgroup = {cgroup: self._cgroup_sums[cgroup] for cgroup in self._cgroups if self._cgroup_sums.get(cgroup)}
        return self._zeros.find(by_cpu.items(), by_cgroup.items())

    def _refusal(self, group: int, member: int, places: list[_Opened]) -> Refusal | None:
        """Return why an event is counted on no CPU, or is wrong on one; a CPU on which it is refused has no sample."""
        if group in self._no_room:
            return OVER_CEILING
        counted = [opened.total for opened in places if member in opened.members]
        if counted:
            waited = max(total.enabled for total in counted) >= STARVED_SECONDS * 1e9
            if waited and not any(total.running for total in counted):
                return STARVED
            return STANDING if Member(group, member) in self._standing else None
        return next((opened.refused[member] for opened in places if member in opened.refused), NO_CPU)

    def _log_left_out(self, cgroups: list[Cgroup]) -> None:
        if cgroups and not self._left_out:  # perf_cgroups_left_out has how many there are from then on
            log.warning(
                "not every cgroup is counted: narrow --cgroup.include, or raise --perf.max-counters and the limit on "
                "open files",
                extra={"fields": {"left_out": len(cgroups), "first": cgroups[0].path, "counters": self._files}},
            )
        self._left_out = cgroups
