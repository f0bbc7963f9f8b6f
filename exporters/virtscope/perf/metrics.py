"""The metrics of counters: scaled counts and the times they were measured in; no ratios.

The same by hand, for the default group "cache", on each CPU and for a cgroup:

    perf stat -a -A -e '{cycles,instructions,cache-references,cache-misses}' sleep 10
    perf stat -a -e '{cycles,instructions,cache-references,cache-misses}' --for-each-cgroup machine.slice/web sleep 10

The metrics of resctrl and profiles are in their own modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Count, Counts
from virtscope.perf.groups import Absent, Group
from virtscope.perf.scaling import Total
from virtscope.perf.support import ABSENT_PMU
from virtscope.toolkit.families import Definition, Labels, Table, page, scalars, table

_SCALED = (
    "; extrapolated for the time in which the group was not counting. Never add groups up: an event in several "
    "groups is counted in each."
)


class _Counted(NamedTuple):
    """A group's counts in one place, with its labels."""

    labels: Labels
    group: Group
    total: Total


def _counted(label: str, counts: Iterable[Count]) -> list[_Counted]:
    return [
        _Counted(
            {
                label: target.path if isinstance(target, Cgroup) else str(target),
                "group": group.name,
                "pmu": group.pmu,
            },
            group,
            total,
        )
        for target, group, total in counts
    ]


def _events(unit: str) -> Callable[[Sequence[_Counted]], list[tuple[Labels, float]]]:
    """Return a function that yields the scaled counts of events in this unit."""
    return lambda counted: [
        ({**labels, "event": event.name}, value * event.scale)
        for labels, group, total in counted
        for event, value in zip(group.events, total.values)
        if event.unit == unit and value is not None
    ]


def _tables(prefix: str, where: str) -> tuple[Table[Sequence[_Counted]], ...]:
    """Return the tables for one kind of place. The metric depends on the event's unit."""

    def events(unit: str, name: str, what: str) -> Table[Sequence[_Counted]]:
        return table(_events(unit), Definition(f"{prefix}{name}", f"{what}{_SCALED}"), optional=unit != "")

    return (
        events("", "events_total", f"Events counted {where}"),
        events("seconds", "event_seconds_total", f"Time counted by events such as task-clock {where}, in seconds"),
        events("bytes", "event_bytes_total", f"Bytes counted by events outside of the cores {where}"),
        events("joules", "event_joules_total", f"Energy counted by events outside of the cores {where}, in joules"),
        table(
            lambda counted: [(each.labels, each.total) for each in counted],
            Definition(
                f"{prefix}group_enabled_seconds_total",
                f"Time that the group was enabled {where}, in seconds.",
                lambda total: total.enabled_seconds,
            ),
            Definition(
                f"{prefix}group_running_seconds_total",
                f"Time that the group was counting {where}, in seconds; the rest of the enabled time is extrapolated.",
                lambda total: total.running_seconds,
            ),
        ),
    )


_HOST = _tables("perf_", "on this CPU")
_CGROUPS = _tables("perf_cgroup_", "for this cgroup on all CPUs")


class _Support(NamedTuple):
    counts: Counts
    absent: Sequence[Absent]


def _supported(support: _Support) -> list[tuple[Labels, bool]]:
    events = [
        (wanted.group, wanted.event.pmu, wanted.event.name, refused.reason if refused else "")
        for wanted, refused in support.counts.support.items()
    ]
    events += [(absent.group, "", absent.event, ABSENT_PMU) for absent in support.absent]
    return [(dict(zip(("group", "pmu", "event", "reason"), event)), not event[-1]) for event in events]


_SUPPORT: tuple[Table[_Support], ...] = (
    table(
        _supported,
        Definition(
            "perf_event_supported",
            "1 if the event is counted, else 0 with a reason: not_supported, no_permission, hidden_by_hypervisor, "
            "too_many_events (in the group), never_ran (no counters for the group), reads_zero (0 while instructions "
            "run), too_many_files, unknown_event (not in sysfs), failed; the log has the remedy.",
        ),
    ),
    scalars(
        Definition(
            "perf_open_counters", "Open counters; each is a file descriptor.", lambda support: support.counts.open_files
        ),
        Definition(
            "perf_groups_reopened_total",
            "Groups reopened after the kernel had stopped counting them, such as when their CPU was offline.",
            lambda support: support.counts.reopened,
        ),
        Definition(
            "perf_cgroups_left_out",
            "Selected cgroups that are not counted, mostly because of --perf.max-counters; the log has the reason.",
            lambda support: len(support.counts.left_out),
        ),
    ),
)


def families(counts: Counts, absent: Sequence[Absent]) -> list[Metric]:
    """Return the families of counts and of the reasons for missing ones; `absent` events are missing in sysfs."""
    host, cgroups = _counted("cpu", counts.host), _counted("cgroup", counts.cgroups)
    return page(_HOST, host) + page(_CGROUPS, cgroups) + page(_SUPPORT, _Support(counts, absent))
