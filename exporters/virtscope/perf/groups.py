"""Groups of events to count together, from a YAML file, resolved for this machine.

groups:
  cache: [cycles, instructions, cache-references, cache-misses]
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import yaml

from virtscope.perf.events import Event, EventAbsent, EventError, resolve
from virtscope.toolkit.bounded import read_text

DEFAULT = Path(__file__).with_name("groups.yml")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class GroupsError(Exception):
    """The file of groups is unusable; the message is one line with file, line, key and remedy."""


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

    Raises GroupsError if the file is unreadable or malformed, or has an invalid event name.
    """
    plan = Plan([], [])
    for name, event_nodes in _groups(path):
        events: list[Event] = []
        for node in event_nodes:
            try:
                events += resolve(node.value, sysfs)
            except EventError as error:
                raise _error(path, node, f"groups.{name}: {error}") from None
            except EventAbsent as absent:
                plan.absent.append(Absent(name, node.value, str(absent)))
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


def _groups(path: Path) -> list[tuple[str, list[yaml.ScalarNode]]]:
    """Return the groups' names and the nodes of their events: nodes have line numbers, and keep duplicates."""
    try:
        document = yaml.compose(read_text(path), Loader=yaml.SafeLoader)
    except OSError as error:
        raise GroupsError(f"{path}: {error.strerror}; give --events a file that this user may read") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise GroupsError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, yaml.MappingNode) or [key.value for key, _ in document.value] != ["groups"]:
        raise _error(path, document, "expected one key, groups, and below it each group's name with its events")
    groups = document.value[0][1]
    if not isinstance(groups, yaml.MappingNode) or not groups.value:
        raise _error(path, groups, "groups: expected names of groups such as cache, each with its events")
    found: dict[str, list[yaml.ScalarNode]] = {}
    for key, events in groups.value:
        if not isinstance(key, yaml.ScalarNode) or not _NAME.fullmatch(key.value):
            raise _error(path, key, f"groups: {key.value!r:.80} is no name; use small letters, digits and _")
        if key.value in found:
            raise _error(path, key, f"groups.{key.value}: there is such a group already")
        found[key.value] = _events(path, key.value, events)
    return list(found.items())


def _events(path: Path, name: str, events: yaml.Node) -> list[yaml.ScalarNode]:
    if not isinstance(events, yaml.SequenceNode) or not events.value:
        raise _error(path, events, f"groups.{name}: expected a list of events such as [cycles, instructions]")
    seen = set()
    for event in events.value:
        if not isinstance(event, yaml.ScalarNode):
            raise _error(path, event, f"groups.{name}: expected the name of an event")
        if event.value in seen:
            raise _error(path, event, f"groups.{name}: {event.value!r:.80} is in it already")
        seen.add(event.value)
    return list(events.value)


def _error(path: Path, node: yaml.Node | None, problem: str) -> GroupsError:
    return GroupsError(f"{path}:{node.start_mark.line + 1 if node else 1}: {problem}")
