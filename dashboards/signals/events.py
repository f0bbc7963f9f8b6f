"""What the processor counts: cache and TLB misses, instructions per cycle, and how much of it was measured."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host

_NOT_COUNTED = "Not counted here: the table Events on the page Caches and events says why."
_PER_SECOND = "si:/s"  # Grafana's spelling of a unit of its user's own, with k, M, G before it


def _per_thousand(record: str, **labels: str) -> str:
    return f"1000 * {on_host(record, **labels)}"


HOST_LLC_MISSES = Signal(
    "LLC MPKI (host)",
    lambda at: f"1000 * {at('host:llc_misses_per_instruction:ratio')}",
    units.NoUnit,
    (
        "Last-level cache (LLC) misses per 1,000 instructions (MPKI), on the host and its guests together. The studies "
        "found them to be what slows applications down that share a machine."
    ),
    _NOT_COUNTED,
    legend="{{platform}}",
    gap="not counted",
    decimals=2,
)

HOST_IPC = Signal(
    "IPC (host)",
    on_host("host:ipc:ratio"),
    units.NoUnit,
    "Instructions per cycle, on the host and its guests together. It falls where they wait for memory.",
    _NOT_COUNTED,
    legend="{{platform}}",
    gap="not counted",
    decimals=2,
)

COVERED = Signal(
    "Counted CPU share",
    on_host("host:events_covered:ratio"),
    units.PercentUnit,
    (
        "Share of the host's CPU usage by virtual servers whose events are counted. On Xen each guest counts its own: "
        "below 100 % one has no perf-exporter. Elsewhere the machine counts everything."
    ),
    _NOT_COUNTED,
    legend="{{platform}}",
    gap="not counted",
    decimals=0,
)

MEASURED_LEAST = Signal(
    "Min measured share",
    f"min by (host, platform) ({on_host('vserver:events_measured:ratio')})",
    units.PercentUnit,
    (
        "Share of the time in which events were counted, of the group and virtual server with the least; the rest is "
        "estimated from it. 100 % where the processor has enough counters for all. EventsMostlyEstimated fires when it "
        "stays below 20 %."
    ),
    _NOT_COUNTED,
    legend="{{platform}}",
    gap="not counted",
    decimals=0,
    low=0.2,
)

LLC_MISSES = Signal(
    "LLC MPKI",
    lambda at: f"1000 * {at('vserver:llc_misses_per_instruction:ratio', vserver='$vserver')}",
    units.NoUnit,
    (
        "LLC misses per 1,000 instructions (MPKI) of each virtual server. CacheMissesUnusual fires above twice its "
        "median of a week, while others are busy on the host."
    ),
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=2,
)

LLC_MISSES_MEDIAN = Signal(
    "Median 1 w",
    _per_thousand("vserver:llc_misses_per_instruction:ratio_median1w", vserver="$vserver"),
    units.NoUnit,
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    gap="not counted",
    decimals=2,
)

IPC = Signal(
    "IPC",
    lambda at: at("vserver:ipc:ratio", vserver="$vserver"),
    units.NoUnit,
    "Instructions per cycle. It falls where a virtual server waits for memory.",
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=2,
)

DTLB_MISSES = Signal(
    "dTLB MPKI",
    _per_thousand("vserver:dtlb_misses_per_instruction:ratio", vserver="$vserver"),
    units.NoUnit,
    (
        "Data TLB misses per 1,000 instructions (MPKI). They rise where virtual servers take turns on a CPU, or use "
        "more memory than the TLB covers."
    ),
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=2,
)

ITLB_MISSES = Signal(
    "iTLB MPKI",
    _per_thousand("vserver:itlb_misses_per_instruction:ratio", vserver="$vserver"),
    units.NoUnit,
    "Instruction TLB misses per 1,000 instructions (MPKI).",
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=2,
)

INSTRUCTIONS = Signal(
    "Instructions",
    on_host("vserver:instructions:rate", vserver="$vserver"),
    _PER_SECOND,
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    gap="not counted",
    decimals=1,
)

CACHE_MEASURED = Signal(
    "Measured",
    on_host("vserver:events_measured:ratio", vserver="$vserver", group="cache"),
    units.PercentUnit,
    "Share of the time in which instructions, cycles and LLC misses were counted; the rest is estimated.",
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=0,
)

TLB_MEASURED = Signal(
    "TLB measured",
    on_host("vserver:events_measured:ratio", vserver="$vserver", group="tlb"),
    units.PercentUnit,
    "Share of the time in which TLB misses were counted; the rest is estimated.",
    _NOT_COUNTED,
    legend="{{vserver}}",
    gap="not counted",
    decimals=0,
)

REASONS = {
    "hidden_by_hypervisor": "hidden by a hypervisor: turn this guest's PMU on (Xen: vpmu=on)",
    "no_permission": "not permitted: give perf-exporter CAP_PERFMON",
    "not_supported": "this processor, kernel or hypervisor does not have it",
    "too_many_events": "more events in the group than the processor has counters: split it",
    "never_ran": "its group was never scheduled: count fewer groups",
    "reads_zero": "its counter stands still while instructions run: count it in one group only",
    "too_many_files": "too many open files: raise LimitNOFILE of perf-exporter",
    "unknown_event": "this machine has no event of that name",
    "failed": "the kernel refused it: see the log of perf-exporter",
}
"""What perf-exporter says of an event that it can't count, and what that asks for."""

# The exporter's own word: there is no record of what can't be counted. By host alone, as a host of containers has the
# platform of a bare machine here.
_CONFIGURED = 'perf_event_supported{host="$host"}'

NOT_COUNTED = Signal(
    "Events not counted",
    f"count({_CONFIGURED} == 0) or 0 * count({_CONFIGURED})",
    units.NoUnit,
    (
        "Events that perf-exporter is configured to count, and can't. The table Events names them and the reason of "
        "each."
    ),
    "No perf-exporter answers, on this host or in its guests: docs/perf-exporter.md.",
    gap="no perf-exporter",
    decimals=0,
    high=1,
)

SUPPORTED = Signal(
    "Counted",
    _CONFIGURED,
    units.BoolYesNo,
    (
        "Events that perf-exporter is configured to count, first those that it can't count and the reason. Without a "
        "guest: on the host itself. See docs/perf-events.md."
    ),
    NOT_COUNTED.absent,
)

# What the processor counts beside instructions and misses, as the exporter shows it, by host alone: see above.
_NO_RESCTRL = "No resctrl file system on this host, or no monitoring on its processor: docs/perf-exporter.md."
_NO_UNCORE = "No events outside of the cores are counted here: docs/perf-events.md."


def _of_groups(metric: str) -> str:
    """Its rate by group and cache."""
    return f'avg by (group, cache) (rate({metric}{{host="$host"}}[$__rate_interval]))'


GROUP_OCCUPANCY = Signal(
    "LLC occupancy (host)",
    'max by (group, cache) (resctrl_llc_occupancy_bytes{host="$host"})',
    units.BytesIEC,
    "Bytes of each last-level cache that hold the data of a resctrl group, its monitoring groups included.",
    _NO_RESCTRL,
    legend="{{group}} cache {{cache}}",
)

GROUP_BANDWIDTH = Signal(
    "Memory bandwidth (host)",
    _of_groups("resctrl_memory_bytes_total"),
    units.BytesPerSecondSI,
    "Bytes per second that a resctrl group moves between each cache and memory.",
    _NO_RESCTRL,
    legend="{{group}} cache {{cache}}",
)

GROUP_REMOTE = Signal(
    "Remote share (host)",
    f"1 - {_of_groups('resctrl_local_memory_bytes_total')} / ({GROUP_BANDWIDTH.expr} > 0)",
    units.PercentUnit,
    "Share of a group's memory bandwidth to other nodes than the cache's own: it is slower.",
    _NO_RESCTRL,
    legend="{{group}} cache {{cache}}",
)


def _by_event(metric: str) -> str:
    """Its rate by event on all CPUs; of an event that is in several groups, the highest, as each counts all of it."""
    of_groups = f'sum by (event, group, instance) (rate({metric}{{host="$host"}}[$__rate_interval]))'
    return f"max by (event) ({of_groups})"


UNCORE_BYTES = Signal(
    "Memory traffic (host)",
    _by_event("perf_event_bytes_total"),
    units.BytesPerSecondSI,
    "Bytes per second that the memory controllers count, by event.",
    _NO_UNCORE,
    legend="{{event}}",
)

POWER = Signal(
    "Power (host)",
    _by_event("perf_event_joules_total"),
    units.Watt,
    "Power by event: joules per second that the processor counts.",
    _NO_UNCORE,
    legend="{{event}}",
)

CLOCKS = Signal(
    "Clock events (host and cgroups)",
    _by_event("perf_event_seconds_total"),
    CPUS,
    "CPU time counted by events such as task-clock, of the host's CPUs and of each cgroup.",
    "No event that counts time, such as task-clock, is configured: docs/perf-events.md.",
    legend="{{event}} (host)",
)

CGROUP_CLOCKS = replace(
    CLOCKS,
    query='max by (cgroup, event) (rate(perf_cgroup_event_seconds_total{host="$host"}[$__rate_interval]))',
    legend="{{cgroup}} {{event}}",
)
