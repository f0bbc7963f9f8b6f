"""The table of the counters' metrics: scaled counts beside the times they were measured in, no ratios, no judgement.

The same by hand, for the default group "cache", on each CPU and for a cgroup:

    perf stat -a -A -e '{cycles,instructions,cache-references,cache-misses}' sleep 10
    perf stat -a -e '{cycles,instructions,cache-references,cache-misses}' --for-each-cgroup machine.slice/web sleep 10

Metrics of resctrl and of profiles are in the files of these sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Union

from prometheus_client import Metric

from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import CgroupCount, Counts, HostCount
from virtscope.perf.groups import Absent, Group
from virtscope.perf.support import ABSENT_PMU
from virtscope.toolkit.families import Labels, family, gauge

# A metric has one unit, so what an event is counted in decides which one it is in.
_BY_UNIT = {
    "": ("events_total", "Events counted {where}"),
    "seconds": ("event_seconds_total", "Time counted by events such as task-clock {where}, in seconds"),
    "bytes": ("event_bytes_total", "Bytes counted by events outside of the cores {where}"),
    "joules": ("event_joules_total", "Energy counted by events outside of the cores {where}, in joules"),
}
_SCALED = (
    "; extrapolated for the time in which the group was not counting. Never add groups up: an event in several "
    "groups is counted in each."
)
_SUPPORTED = (
    "1 if the event is counted, else 0 with a reason: not_supported, no_permission, hidden_by_hypervisor, "
    "too_many_events (in the group), never_ran (no counters for the group), reads_zero (0 while instructions run), "
    "too_many_files, unknown_event (not in sysfs), failed; the log has the remedy."
)

_Target = Union[int, Cgroup]  # a CPU of the host, or a cgroup
_Key = tuple[_Target, str, str]  # and the group's name and PMU


class _Series(NamedTuple):
    """The label sets of one group in one place."""

    group: Labels
    events: list[tuple[str, float, Labels]]  # of each event: unit, scale, labels


class Families:
    """Makes the families of each reading; label sets are made once and kept while what they name is counted."""

    def __init__(self, absent: Sequence[Absent]) -> None:
        """`absent` are the events that this machine is known not to have."""
        self._absent = absent
        self._series: dict[_Key, _Series] = {}

    def of(self, counts: Counts) -> list[Metric]:
        """Return what was counted, and why the rest was not.

        perf_events_total{cpu="0",group="cache",pmu="",event="cache-misses"} 18734
        perf_event_seconds_total{cpu="0",group="software",pmu="",event="task-clock"} 60.2
        perf_group_enabled_seconds_total{cpu="0",group="cache",pmu=""} 60.2
        perf_group_running_seconds_total{cpu="0",group="cache",pmu=""} 20.1
        perf_cgroup_events_total{cgroup="/machine.slice/web",group="cache",pmu="",event="cache-misses"} 734
        perf_event_supported{group="cache",pmu="",event="cache-misses",reason=""} 1
        perf_event_supported{group="tlb",pmu="",event="iTLB-load-misses",reason="not_supported"} 0
        """
        kept, self._series = self._series, {}
        return [
            *self._counted("perf_", "on this CPU", "cpu", counts.host, kept),
            *self._counted("perf_cgroup_", "for this cgroup on all CPUs", "cgroup", counts.cgroups, kept),
            family("perf_event_supported", _SUPPORTED, self._supported(counts)),
            gauge("perf_open_counters", "Open counters; each is a file descriptor.", counts.open_files),
            family(
                "perf_groups_reopened_total",
                "Groups reopened after the kernel had stopped counting them, such as when their CPU was offline.",
                [({}, counts.reopened)],
            ),
            gauge(
                "perf_cgroups_left_out",
                "Selected cgroups that are not counted, mostly because of --perf.max-counters; the log has the reason.",
                len(counts.left_out),
            ),
        ]

    def _counted(
        self,
        prefix: str,
        where: str,
        label: str,
        counts: Sequence[HostCount | CgroupCount],
        kept: dict[_Key, _Series],
    ) -> Iterator[Metric]:
        """Make the families of either kind of target."""
        samples: dict[str, list[tuple[Labels, float | None]]] = {unit: [] for unit in _BY_UNIT}
        enabled: list[tuple[Labels, float]] = []
        running: list[tuple[Labels, float]] = []
        for target, group, total in counts:
            key = (target, group.name, group.pmu)
            made = self._series[key] = kept.get(key) or _series(label, target, group)
            enabled.append((made.group, total.enabled_seconds))
            running.append((made.group, total.running_seconds))
            for (unit, scale, labels), value in zip(made.events, total.values):
                if value is not None:
                    samples[unit].append((labels, value * scale))
        for unit, (name, what) in _BY_UNIT.items():
            if samples[unit] or not unit:
                yield family(f"{prefix}{name}", what.format(where=where) + _SCALED, samples[unit])
        yield family(
            f"{prefix}group_enabled_seconds_total", f"Time that the group was enabled {where}, in seconds.", enabled
        )
        yield family(
            f"{prefix}group_running_seconds_total",
            f"Time that the group was counting {where}, in seconds; the rest of the enabled time is extrapolated.",
            running,
        )

    def _supported(self, counts: Counts) -> Iterator[tuple[Labels, float]]:
        for wanted, refused in counts.support.items():
            event = wanted.event
            reason = refused.reason if refused else ""
            yield {"group": wanted.group, "pmu": event.pmu, "event": event.name, "reason": reason}, float(not refused)
        for absent in self._absent:
            yield {"group": absent.group, "pmu": "", "event": absent.event, "reason": ABSENT_PMU}, 0.0


def _series(label: str, target: _Target, group: Group) -> _Series:
    of_group = {
        label: target.path if isinstance(target, Cgroup) else str(target),
        "group": group.name,
        "pmu": group.pmu,
    }
    return _Series(of_group, [(event.unit, event.scale, {**of_group, "event": event.name}) for event in group.events])
