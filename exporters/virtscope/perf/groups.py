"""Groups of events to count together, from a YAML file, resolved for this machine.

groups:
  cache: [cycles, instructions, cache-references, cache-misses]
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from virtscope.perf.events import Event, EventAbsent, EventError, resolve
from virtscope.toolkit.document import Section, WatchedFiles, read_document

DEFAULT = Path(__file__).with_name("groups.yml")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Group(NamedTuple):
    """Events of one PMU, counted at the same time."""

    name: str
    pmu: str
    events: tuple[Event, ...]

    @property
    def cpu_list(self) -> Path | None:
        """The file with the CPUs to count on; None: all online ones."""
        return next((event.cpu_list for event in self.events if event.cpu_list), None)

    @property
    def system_wide(self) -> bool:
        """Whether it is outside of the cores, so that it can't be counted for cgroups."""
        return any(event.system_wide for event in self.events)


class Absent(NamedTuple):
    """An event of a group that is missing in this machine's sysfs."""

    group: str
    event: str
    problem: str


class Plan(NamedTuple):
    """The groups to count on this machine."""

    groups: list[Group]
    absent: list[Absent]


def load(path: Path, sysfs: Path) -> Plan:
    """Resolve the groups of a file by sysfs, one for each PMU.

    On hybrid processors each kind of core has its own group. Uncore events are split off into their own groups, too,
    because they are not counted at the same time as the others.

    Raises DocumentError if the file is unreadable or malformed, or has an invalid event name.
    """
    plan = Plan([], [])
    groups = _groups(path)
    for name in groups.values:
        events: list[Event] = []
        for event in groups.texts(name):
            try:
                events += resolve(event, sysfs)
            except EventError as error:
                raise groups.error(name, str(error)) from None
            except EventAbsent as absent:
                plan.absent.append(Absent(name, event, str(absent)))
        by_pmu = sorted(events, key=lambda event: event.pmu)  # a stable sort: the events keep their order
        plan.groups.extend(
            Group(name, pmu, tuple(of_pmu)) for pmu, of_pmu in groupby(by_pmu, key=lambda event: event.pmu)
        )
    return plan


def without_guests(groups: list[Group]) -> list[Group]:
    """Return the groups with core events paused while a KVM guest runs."""
    return [
        group._replace(
            events=tuple(
                event._replace(attr=event.attr._replace(exclude_guest=True)) if event.of_core else event
                for event in group.events
            )
        )
        for group in groups
    ]


def _groups(path: Path) -> Section:
    """Return the names of each group's events, checked; raises DocumentError."""
    document = read_document(path, WatchedFiles(), "--events", ("groups",))
    groups = document.section("groups")
    if not groups.values:
        raise document.error("groups", "expected names of groups such as cache, each with its events")
    for name in groups.values:
        if not _NAME.fullmatch(name):
            raise groups.error(name[:80], "is no name; use small letters, digits and _")
        if len(set(groups.texts(name)) - {""}) != len(groups.texts(name)) or not groups.texts(name):
            raise groups.error(name, "expected a list of different events such as [cycles, instructions]")
    return groups
