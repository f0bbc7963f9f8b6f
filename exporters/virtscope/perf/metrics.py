"""The metrics of counters: scaled counts and the times they were measured in; no ratios.

The same by hand, for the default group "cache", on each CPU and for a cgroup:

    perf stat -a -A -e '{cycles,instructions,cache-references,cache-misses}' sleep 10
    perf stat -a -e '{cycles,instructions,cache-references,cache-misses}' --for-each-cgroup machine.slice/web sleep 10

The metrics of resctrl and profiles are in their own modules.
"""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import Metric

from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Count, Counts
from virtscope.perf.groups import Absent
from virtscope.perf.support import ABSENT_PMU
from virtscope.toolkit.families import Labels, family, scalar

_SCALED = (
    "; extrapolated for the time in which the group was not counting. Never add groups up: an event in several "
    "groups is counted in each."
)
_BY_UNIT = {  # what an event counts, and the metric for it
    "": ("Events counted {}", "events_total"),
    "seconds": ("Time counted by events such as task-clock {}, in seconds", "event_seconds_total"),
    "bytes": ("Bytes counted by events outside of the cores {}", "event_bytes_total"),
    "joules": ("Energy counted by events outside of the cores {}, in joules", "event_joules_total"),
}


def families(counts: Counts, absent: Sequence[Absent]) -> list[Metric]:
    """Return the families of counts and of the reasons for missing ones; `absent` events are missing in sysfs."""
    return [
        *_counted("perf_", "on this CPU", counts.host),
        *_counted("perf_cgroup_", "for this cgroup on all CPUs", counts.cgroups),
        *_support(counts, absent),
    ]


def _counted(prefix: str, where: str, counts: Iterable[Count]) -> Iterator[Metric]:
    """Yield the families of one kind of place."""
    labelled = [(_labels(count), count) for count in counts]
    for unit, (what, name) in _BY_UNIT.items():
        samples = [
            ({**labels, "event": event.name}, value * event.scale)
            for labels, count in labelled
            for event, value in zip(count.group.events, count.total.values)
            if event.unit == unit and value is not None
        ]
        if samples or not unit:
            yield family(f"{prefix}{name}", f"{what.format(where)}{_SCALED}", samples)
    yield family(
        f"{prefix}group_enabled_seconds_total",
        f"Time that the group was enabled {where}, in seconds.",
        [(labels, count.total.enabled_seconds) for labels, count in labelled],
    )
    yield family(
        f"{prefix}group_running_seconds_total",
        f"Time that the group was counting {where}, in seconds; the rest of the enabled time is extrapolated.",
        [(labels, count.total.running_seconds) for labels, count in labelled],
    )


def _labels(count: Count) -> Labels:
    of_group = {"group": count.group.name, "pmu": count.group.pmu}
    if isinstance(count.target, Cgroup):
        return {"cgroup": count.target.path, **of_group}
    return {"cpu": str(count.target), **of_group}


def _support(counts: Counts, absent: Sequence[Absent]) -> Iterator[Metric]:
    events = [
        (wanted.group, wanted.event.pmu, wanted.event.name, refused.reason if refused else "")
        for wanted, refused in counts.support.items()
    ]
    events += [(each.group, "", each.event, ABSENT_PMU) for each in absent]
    yield family(
        "perf_event_supported",
        "1 if the event is counted, else 0 with a reason: not_supported, no_permission, hidden_by_hypervisor, "
        "too_many_events (in the group), never_ran (no counters for the group), reads_zero (0 while instructions "
        "run), too_many_files, unknown_event (not in sysfs), failed; the log has the remedy.",
        [(dict(zip(("group", "pmu", "event", "reason"), event)), not event[-1]) for event in events],
    )
    yield scalar("perf_open_counters", "Open counters; each is a file descriptor.", counts.open_files)
    yield scalar(
        "perf_groups_reopened_total",
        "Groups reopened after the kernel had stopped counting them, such as when their CPU was offline.",
        counts.reopened,
    )
    yield scalar(
        "perf_cgroups_left_out",
        "Selected cgroups that are not counted, mostly because of --perf.max-counters; the log has the reason.",
        len(counts.left_out),
    )
