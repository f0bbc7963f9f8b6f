"""Which events to count together: the groups of a YAML file, made ready for this machine.

groups:
  cache: [cycles, instructions, cache-references, cache-misses]
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from virtscope.perf.events import Event, EventError, resolve

DEFAULT = Path(__file__).with_name("groups.yml")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class GroupsError(Exception):
    """The file of groups can't be used; one line that names file and key and says what to do."""


class Group(NamedTuple):
    """Events of one PMU that are counted in the same moments."""

    name: str
    pmu: str
    events: tuple[Event, ...]

    @property
    def cpus(self) -> tuple[int, ...] | None:
        """The CPUs to count on; None: every one that is online."""
        return next((event.cpus for event in self.events if event.cpus is not None), None)

    @property
    def system_wide(self) -> bool:
        """Whether it counts what belongs to no process, and so can't be had for a cgroup."""
        return any(event.system_wide for event in self.events)


class Unknown(NamedTuple):
    """An event of a group that this machine doesn't have, and why that is known without asking the kernel."""

    group: str
    event: str
    problem: str


def load(path: Path) -> dict[str, list[str]]:
    """Return the groups of a file: their names, and the names of each one's events.

    Raises GroupsError where it can't be read or is of another form.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise GroupsError(f"{path}: {error.strerror}; give --events a file this user may read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GroupsError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    groups: Any = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, dict) or not groups or set(document) != {"groups"}:
        raise GroupsError(f"{path}: expected one key, groups, with a list of events under each group's name")
    for name, events in groups.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise GroupsError(f"{path}: groups.{name}: name it by small letters, digits and _")
        if not isinstance(events, list) or not events or not all(isinstance(event, str) for event in events):
            raise GroupsError(f"{path}: groups.{name}: expected a list of events such as [cycles, instructions]")
        if len(set(events)) != len(events):
            raise GroupsError(f"{path}: groups.{name}: an event comes twice")
    return groups


def plan(wanted: dict[str, list[str]], sysfs: Path) -> tuple[list[Group], list[Unknown]]:
    """Return the groups as this machine can count them, one for each PMU that a group's events are of.

    On a processor with two kinds of cores that is a group for each kind. The kernel's software events are on every CPU,
    so they go with the processor's own where both are in a group.
    """
    groups: list[Group] = []
    unknown: list[Unknown] = []
    for name, event_names in wanted.items():
        events: list[Event] = []
        for event_name in event_names:
            try:
                events += resolve(event_name, sysfs)
            except EventError as error:
                unknown.append(Unknown(name, event_name, str(error)))
        by_pmu = sorted(events, key=lambda event: event.pmu)  # a stable sort: the events keep their order
        groups += [Group(name, pmu, tuple(of_pmu)) for pmu, of_pmu in groupby(by_pmu, key=lambda event: event.pmu)]
    return groups, unknown
