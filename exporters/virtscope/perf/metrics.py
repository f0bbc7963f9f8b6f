"""Event counts as metric families: scaled counts beside the times they were measured in, no ratios, no judgement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client import Metric

from virtscope.perf.counters import HOST, Count, Counts
from virtscope.perf.groups import Unknown
from virtscope.perf.support import UNKNOWN
from virtscope.shell.families import Labels, family, gauge

_SCALED = "estimated for the time in which other groups had the hardware"


def families(counts: Counts, unknown: Iterable[Unknown]) -> list[Metric]:
    """Return what was counted, and why the rest was not.

    perf_events_total{cpu="0",group="cache",pmu="",event="cache-misses"} 18734
    perf_group_enabled_seconds_total{cpu="0",group="cache",pmu=""} 60.2
    perf_group_running_seconds_total{cpu="0",group="cache",pmu=""} 20.1
    perf_cgroup_events_total{cgroup="/machine.slice/web",group="cache",pmu="",event="cache-misses"} 734
    perf_event_supported{group="cache",pmu="",event="cache-misses",reason=""} 1
    perf_event_supported{group="tlb",pmu="",event="iTLB-load-misses",reason="not_supported"} 0
    """
    host = [({"cpu": str(count.cpu)}, count) for count in counts.counts if count.target == HOST]
    cgroups = [({"cgroup": count.target.path}, count) for count in counts.counts if count.target != HOST]
    supported: list[tuple[Labels, float | None]] = [
        (
            {
                "group": wanted.group,
                "pmu": wanted.event.pmu,
                "event": wanted.event.name,
                "reason": refusal.reason if refusal else "",
            },
            not refusal,
        )
        for wanted, refusal in counts.support.items()
    ]
    supported += [({"group": each.group, "pmu": "", "event": each.event, "reason": UNKNOWN}, False) for each in unknown]
    return [
        *_counted("perf", "on this CPU", host),
        *_counted("perf_cgroup", "for this cgroup, on all CPUs", cgroups),
        family(
            "perf_event_supported",
            "1 if the event is counted, else 0 and the reason; the log says what to do.",
            supported,
        ),
        gauge("perf_open_counters", "Counters that are open; each takes a file descriptor.", counts.open_files),
        gauge(
            "perf_cgroups_left_out",
            "Cgroups that are not counted, as there are not enough descriptors (--perf.max-counters).",
            len(counts.left_out),
        ),
    ]


def _counted(prefix: str, where: str, counts: Iterable[tuple[Labels, Count]]) -> Iterator[Metric]:
    """Make the families of either kind of target, adding up what bears the same labels."""
    events: dict[tuple[str, ...], float] = defaultdict(float)
    enabled: dict[tuple[str, ...], float] = defaultdict(float)
    running: dict[tuple[str, ...], float] = defaultdict(float)
    names: tuple[str, ...] = ()
    for labels, count in counts:
        names = tuple(labels)
        place = (*labels.values(), count.group.name, count.group.pmu)
        enabled[place] += count.total.enabled_seconds
        running[place] += count.total.running_seconds
        for event, value in zip(count.events, count.total.values):
            events[(*place, event.name)] += value * event.scale
    names = (*names, "group", "pmu")
    yield family(
        f"{prefix}_events_total",
        f"Events counted {where}, {_SCALED}; those that count time are in seconds.",
        ((dict(zip((*names, "event"), place)), value) for place, value in events.items()),
    )
    yield family(
        f"{prefix}_group_enabled_seconds_total",
        f"Time the group was to be counted {where}, in seconds, added up over CPUs.",
        ((dict(zip(names, place)), value) for place, value in enabled.items()),
    )
    yield family(
        f"{prefix}_group_running_seconds_total",
        f"Time the group had the hardware {where}, in seconds; what it lacks to the time enabled is estimate.",
        ((dict(zip(names, place)), value) for place, value in running.items()),
    )
