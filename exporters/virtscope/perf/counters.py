"""The groups opened on every CPU, for the host and for each cgroup that is watched, and read together."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple

from virtscope.perf.events import Event
from virtscope.perf.groups import Group
from virtscope.perf.scaling import Scaled, Total, parse_reading, reading_bytes
from virtscope.perf.source.cgroups import Cgroup
from virtscope.perf.source.kernel import PID_CGROUP, Kernel
from virtscope.perf.support import TOO_MANY_EVENTS, Refusal

log = logging.getLogger(__name__)

HOST = Cgroup("", 0)  # stands for all that the CPUs do


class Count(NamedTuple):
    """What a group has counted on one CPU, of the whole host or of one cgroup."""

    target: Cgroup  # or HOST
    group: Group
    cpu: int
    events: tuple[Event, ...]  # those of the group that could be opened
    total: Total  # its values are these events', in this order


class Wanted(NamedTuple):
    """An event as a member of a group: what fits into one group may not fit into another."""

    group: str
    event: Event


class Counts(NamedTuple):
    """One reading of everything that is open."""

    counts: list[Count]
    support: dict[Wanted, Refusal | None]  # None: the event is counted
    open_files: int
    left_out: tuple[Cgroup, ...]  # those for which there were not enough descriptors


class _Key(NamedTuple):
    target: Cgroup
    group: int  # its index
    cpu: int


class _Opened(NamedTuple):
    events: tuple[Event, ...]
    descriptors: tuple[int, ...]  # the leader first


class Counters:
    """Keeps the groups open, from the first read() to close().

    A descriptor belongs to one CPU: those of a CPU that goes offline are closed, as they would count nothing ever
    after, and opened anew when it comes back. Totals go on from where they were.
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Sequence[Group],
        online: Callable[[], tuple[int, ...]],
        explain: Callable[[OSError, Event], Refusal],
        *,
        open_folder: Callable[[Cgroup], int],
        most_files: int,
    ) -> None:
        """`online` gives the CPUs that are; `explain` tells why the kernel refused an event.

        `open_folder` returns a descriptor of a cgroup's folder, FileNotFoundError where it has gone.
        """
        self._kernel = kernel
        self._groups = groups
        self._online = online
        self._explain = explain
        self._open_folder = open_folder
        self._most_files = most_files
        self._opened: dict[_Key, _Opened] = {}
        self._scaled: dict[_Key, Scaled] = {}
        self._support: dict[Wanted, Refusal | None] = {}
        self._left_out: tuple[Cgroup, ...] = ()

    def read(self, cgroups: Iterable[Cgroup]) -> Counts:
        """Close what is gone, open what is new, read what is open: of the host, and of each of these cgroups."""
        online = frozenset(self._online())
        cgroups = list(cgroups)
        targets = {HOST, *cgroups}
        for key in [key for key in self._opened if key.cpu not in online or key.target not in targets]:
            self._close(key)
        self._scaled = {key: scaled for key, scaled in self._scaled.items() if key.target in targets}
        self._open_all(HOST, online)
        left_out = []
        for cgroup in cgroups:
            if self._fits(cgroup, online):
                self._open_all(cgroup, online)
            else:
                left_out.append(cgroup)
        self._tell_left_out(tuple(left_out))
        counts = [count for key in list(self._opened) for count in self._read(key)]
        files = sum(len(opened.descriptors) for opened in self._opened.values())
        return Counts(counts, dict(self._support), files, self._left_out)

    def close(self) -> None:
        """Close everything."""
        for key in list(self._opened):
            self._close(key)

    def _keys(self, target: Cgroup, online: frozenset[int]) -> list[_Key]:
        return [
            _Key(target, index, cpu)
            for index, group in enumerate(self._groups)
            if target == HOST or not group.system_wide
            for cpu in sorted(online.intersection(online if group.cpus is None else group.cpus))
        ]

    def _fits(self, target: Cgroup, online: frozenset[int]) -> bool:
        missing = [key for key in self._keys(target, online) if key not in self._opened]
        wanted = sum(len(self._groups[key.group].events) for key in missing)
        return wanted + sum(len(opened.descriptors) for opened in self._opened.values()) <= self._most_files

    def _open_all(self, target: Cgroup, online: frozenset[int]) -> None:
        missing = [key for key in self._keys(target, online) if key not in self._opened]
        if not missing:
            return
        try:
            folder = -1 if target == HOST else self._open_folder(target)
        except FileNotFoundError:
            return
        try:
            for key in missing:
                opened = self._open(key, folder)
                if opened:
                    self._opened[key] = opened
                    self._scaled.setdefault(key, Scaled(len(opened.events))).restart()
        finally:
            if folder >= 0:
                os.close(folder)

    def _open(self, key: _Key, folder: int) -> _Opened | None:
        group = self._groups[key.group]
        events: list[Event] = []
        descriptors: list[int] = []
        for event in group.events:
            wanted = Wanted(group.name, event)
            if self._support.get(wanted):
                continue  # refused before: it would be on this CPU as well
            leader = descriptors[0] if descriptors else -1
            try:
                descriptors.append(self._ask(event, folder, key.cpu, leader))
            except OSError as error:
                refusal = self._why(error, event, folder, key.cpu, leader)
                self._support[wanted] = refusal
                log.warning(
                    "event can't be counted",
                    extra={"fields": {"event": event.name, "group": group.name, **refusal._asdict()}},
                )
                continue
            events.append(event)
            self._support[wanted] = None
        return _Opened(tuple(events), tuple(descriptors)) if events else None

    def _ask(self, event: Event, folder: int, cpu: int, leader: int) -> int:
        return self._kernel.open(event.attr, folder, cpu, leader, 0 if folder < 0 else PID_CGROUP)

    def _why(self, error: OSError, event: Event, folder: int, cpu: int, leader: int) -> Refusal:
        """Tell apart what the kernel calls EINVAL: an event it doesn't know, and one too many for its group."""
        if error.errno == errno.EINVAL and leader >= 0:
            try:
                self._kernel.close(self._ask(event, folder, cpu, -1))
            except OSError as alone:
                return self._explain(alone, event)
            return Refusal(
                TOO_MANY_EVENTS, "make the group smaller, or turn the NMI watchdog off (kernel.nmi_watchdog)"
            )
        return self._explain(error, event)

    def _read(self, key: _Key) -> list[Count]:
        opened, scaled = self._opened[key], self._scaled[key]
        content = self._kernel.read(opened.descriptors[0], reading_bytes(len(opened.events)))
        scaled.add(parse_reading(content))
        total = scaled.total()
        return [Count(key.target, self._groups[key.group], key.cpu, opened.events, total)] if total else []

    def _close(self, key: _Key) -> None:
        for descriptor in self._opened.pop(key).descriptors:
            self._kernel.close(descriptor)

    def _tell_left_out(self, cgroups: tuple[Cgroup, ...]) -> None:
        if cgroups and cgroups != self._left_out:
            log.warning(
                "not every cgroup can be counted: too many descriptors",
                extra={"fields": {"left_out": len(cgroups), "first": cgroups[0].path, "most_files": self._most_files}},
            )
        self._left_out = cgroups
