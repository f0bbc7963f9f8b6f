"""Groups of events opened on every CPU, for the host and each watched cgroup, and read together.

Like `perf stat -a -A -I 1000 -e '{cycles,instructions}'` for the host, but without end. metrics exposes the totals.
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

RETRY_SECONDS = 600.0  # before refused events are retried: a limit or a setting may have changed
ZEROS_SECONDS = 10.0  # between two checks for stuck counters
STARVED_SECONDS = 10.0  # a group without a turn for this long never gets one; turns take milliseconds

_NO_MORE_FILES = {errno.EMFILE, errno.ENFILE}


class Count(NamedTuple):
    """A group's counts on one CPU, or for one cgroup on all CPUs, offline ones included."""

    target: int | Cgroup
    group: Group
    total: Total


class Counts(NamedTuple):
    """One reading of all open groups."""

    host: list[Count]
    cgroups: list[Count]
    support: dict[Wanted, Refusal | None]  # None: the event is counted on at least one CPU
    open_files: int
    reopened: int  # groups reopened after the kernel dropped them, since the start
    left_out: list[Cgroup]


class _Place(NamedTuple):
    group: int  # its index
    cpu: int


class _Opened:
    """A group on one CPU, for the host or a cgroup; without descriptors if all its events were refused."""

    def __init__(self, total: Sum) -> None:
        self.total = total
        self.members: list[int] = []  # indices of the open events, the leader first
        self.descriptors: list[int] = []  # of these events
        self.refused: dict[int, Refusal] = {}
        self.scaled = Scaled(total, self.members)
        self.content = b""  # of the last read


class _Full(Exception):
    """The limit on open files is reached."""


class Counters:
    """Keeps the groups open, from the first read() on.

    A descriptor belongs to one CPU. If the CPU goes offline, its descriptors stop counting for good, so they are closed
    and reopened when it comes back. Totals continue.
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
        """`open_folder` returns a descriptor of a cgroup's folder; raises FileNotFoundError if that has gone.

        At most `most_files` counters are open at a time.
        """
        self._kernel = kernel
        self._groups = groups
        self._machine = machine
        self._open_folder = open_folder
        self._max_files = most_files
        self._clock = clock
        self._host: dict[_Place, _Opened] = {}
        self._host_sums: dict[_Place, Sum] = {}
        self._cgroups: dict[Cgroup, dict[_Place, _Opened]] = {}  # completely open
        self._cgroup_sums: dict[Cgroup, dict[int, Sum]] = {}  # by the group's index
        self._left_out: list[Cgroup] = []
        self._no_room: set[int] = set()  # groups that exceed the host's descriptors
        self._files = 0
        self._ceiling = most_files  # lowered if the kernel refuses more, until the next retry
        self._reopened = 0
        self._situation: object = None  # CPUs of each group, and cgroups, with everything possible open
        self._holes = False  # except for groups dropped by the kernel since, or whose CPU had just gone
        self._read_at = 0.0
        self._paranoid = machine.paranoid()
        self._retry_at = 0.0
        self._refusals = RefusalLog()
        self._zeros = Zeros(groups)
        self._zeros_at = 0.0
        self._standing: set[Member] = set()

    def read(self, cgroups: Iterable[Cgroup]) -> Counts:
        """Open and close groups as needed, then read all open ones: of the host and of these cgroups.

        Raises like Machine.online().
        """
        self._open(list(cgroups))
        now = self._clock()
        long_since, self._read_at = now - self._read_at >= 1, now
        for places in (self._host, *self._cgroups.values()):
            for place in list(places):
                self._read(places, place, long_since)
        host = [
            Count(place.cpu, self._groups[place.group], opened.total.total())
            for place, opened in self._host.items()
            if opened.descriptors
        ]
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

    # --- Opening ------------------------------------------------------------------------------------------------------

    def _open(self, cgroups: list[Cgroup]) -> None:
        """Close groups that are gone; open new ones, and retry refused ones."""
        cpus = self._cpus()
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

    def _time_to_retry(self) -> bool:
        paranoid, now = self._machine.paranoid(), self._clock()
        if paranoid == self._paranoid and now < self._retry_at:
            return False
        self._paranoid, self._retry_at = paranoid, now + RETRY_SECONDS
        return True

    def _cpus(self) -> list[frozenset[int]]:
        """Return the CPUs on which each group must be open.

        For uncore PMUs that is one CPU per socket, and another one if that goes offline.
        """
        online = self._machine.online()
        cpus = []
        for group in self._groups:
            try:
                cpus.append(online & self._machine.listed(group.cpu_list) if group.cpu_list else online)
            except SourceError:  # its driver is unloaded
                cpus.append(frozenset())
        return cpus

    def _open_host(self, cpus: list[frozenset[int]], retry: bool) -> bool:
        """Open the host's groups on their CPUs; returns whether cgroups' groups must follow a change."""
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
                        # Reopen the whole group: events can't join a running group.
                        self._read(self._host, place, long_since=False)  # its counts so far
                        if place in self._host:
                            self._close(self._host.pop(place))
                    if place not in self._host:
                        self._open_on(place)
            except _Full:
                self._no_room.add(index)
                for place in places:
                    if place in self._host:
                        self._close(self._host.pop(place))
        return before != {place: opened.members for place, opened in self._host.items()}

    def _make_room(self, files: int) -> None:
        """Free this many descriptors for the host, which has priority over cgroups."""
        if sum(len(opened.descriptors) for opened in self._host.values()) + files > self._ceiling:
            raise _Full
        while self._files + files > self._ceiling:
            self._leave(next(reversed(self._cgroups)))

    def _open_on(self, place: _Place) -> None:
        """Open as many of the group's events as the kernel allows, for the host on one CPU."""
        group = self._groups[place.group]
        opened = _Opened(self._host_sums.setdefault(place, Sum(len(group.events))))
        try:
            for index, event in enumerate(group.events):
                try:
                    self._join(opened, index, event, -1, place.cpu)
                except OSError as error:  # also if the CPU has just gone, which the next read notices
                    opened.refused[index] = self._why(error, event, opened, place.cpu)
            self._start(opened)
        except Exception:  # on any exception: nothing else closes these descriptors
            self._close(opened)
            raise
        self._host[place] = opened

    def _open_cgroups(self, cgroups: list[Cgroup], reopen: bool) -> None:
        """Open each cgroup's groups on the CPUs of the host's, with the same events.

        Counted cgroups stay counted: new ones get the remaining descriptors. `reopen`: check counted ones, too.
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
            except OSError as error:  # the host's events could be opened, so the cgroup is the reason
                self._leave(cgroup)
                if error.errno in {errno.ENODEV, errno.ENOENT}:  # one of the CPUs, or the cgroup, has just gone
                    self._holes = True
                else:
                    left_out.append(cgroup)
                    log.warning("cgroup can't be counted", extra={"fields": {"cgroup": cgroup.path, "err": error}})
        self._log_left_out(left_out)

    def _complete_cgroup(self, cgroup: Cgroup) -> None:
        """Open a cgroup's groups like the host's; raises _Full or OSError."""
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
        """Open an event in its group."""
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
        """Distinguish the causes of EINVAL: an unknown event, or one too many in its group."""
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
            self._kernel.close(opened.descriptors.pop())  # the leader last: the others depend on it

    def _leave(self, cgroup: Cgroup) -> None:
        for opened in self._cgroups.pop(cgroup, {}).values():
            self._close(opened)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def _read(self, places: dict[_Place, _Opened], place: _Place, long_since: bool) -> None:
        """Add a group's counts to its sum; closes it if the kernel has dropped it."""
        opened = places[place]
        if not opened.descriptors:
            return
        try:
            content = self._kernel.read(opened.descriptors[0], reading_bytes(len(opened.descriptors)))
        except OSError:  # skip only this group
            content = b""
        if content == opened.content:
            if places is not self._host or not long_since:  # a cgroup hasn't run there since
                return
            # While its CPU is online, the enabled time of the host's group grows. The CPU was offline since the last
            # read, even if it is back: the kernel doesn't resume groups.
            content = b""
        reading = parse_reading(content, len(opened.descriptors))
        if reading is None:
            self._reopened += 1  # reopened at the next read
            self._holes = True
            self._close(places.pop(place))
            return
        opened.content = content
        opened.scaled.add(reading)

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
        """Return why an event is counted on no CPU, or is wrong on one; CPUs that refuse it have no sample."""
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
        if cgroups and not self._left_out:  # logged once; perf_cgroups_left_out has the current number
            log.warning(
                "not every cgroup is counted: narrow --cgroup.include, or raise --perf.max-counters and the limit on "
                "open files",
                extra={"fields": {"left_out": len(cgroups), "first": cgroups[0].path, "counters": self._files}},
            )
        self._left_out = cgroups
