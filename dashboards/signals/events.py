"""Hardware event counts: cache and TLB misses, instructions per cycle, and the share of time measured."""

from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host
from dashboards.signals.native import HOST

_NOT_COUNTED = "Not counted here: the table Events on the page Caches and events says why."
_PER_SECOND = "si:/s"  # Grafana's syntax for a custom unit with prefixes k, M, G
# A machine with containers also exists as platform base.
_COUNTED = on_host("vserver:events:rate", group="cache", event="instructions")
_CYCLES = on_host("vserver:events:rate", group="cache", event="cycles")
_RUNNING, _ENABLED = on_host("vserver:events_running:rate"), on_host("vserver:events_enabled:rate")
_of_host = partial(Signal, absent=_NOT_COUNTED, gap="not counted", legend="{{platform}}")
_of_vserver = partial(Signal, absent=_NOT_COUNTED, gap="not counted", legend="{{vserver}}")

HOST_LLC_MISSES = _of_host(
    "LLC MPKI (host)",
    lambda at: f"1000 * {at('host:llc_misses_per_instruction:ratio')}",
    units.NoUnit,
    "Last-level cache (LLC) misses per 1,000 instructions (MPKI), on the host and its guests together. The studies "
    "found them to be what slows applications down that share a machine.",
    decimals=2,
)
HOST_IPC = _of_host(
    "IPC (host)",
    f"sum by (platform) ({_COUNTED} and ignoring (event) {_CYCLES}) / sum by (platform) ({_CYCLES} > 0)",
    units.NoUnit,
    "Instructions per cycle, on the host and those of its guests that count both. It falls where they wait for memory.",
    decimals=2,
)
COVERED = _of_host(
    "Counted CPU share",
    on_host("host:events_covered:ratio"),
    units.PercentUnit,
    "Share of the host's CPU usage by virtual servers whose events are counted. On Xen each guest counts its own: "
    "below 100 % one has no perf-exporter. Elsewhere the machine counts everything.",
    decimals=0,
)
MEASURED_LEAST = _of_host(
    "Min measured share",
    f"min by (host, platform) ({_RUNNING} / ({_ENABLED} > 0))",
    units.PercentUnit,
    "Share of the time in which events were counted; the rest is estimated. The lowest of all groups and virtual "
    "servers; EventsMostlyEstimated fires below 20 %.",
    decimals=0,
    low=0.2,
)


LLC_MISSES = _of_vserver(
    "LLC MPKI",
    lambda at: f"1000 * {at('vserver:llc_misses_per_instruction:ratio', vserver='$vserver')}",
    units.NoUnit,
    "LLC misses per 1,000 instructions (MPKI) of each virtual server. CacheMissesUnusual fires above twice its median "
    "of a week, while others are busy on the host.",
    decimals=2,
)


def _tlb_misses(name: str, event: str, description: str) -> Signal:
    misses, instructions = (
        on_host("vserver:events:rate", vserver="$vserver", group="tlb", event=each) for each in (event, "instructions")
    )
    # A 0 is of a counter that doesn't count.
    per_thousand = f"1000 * {misses} / ignoring (event) ({instructions} > 0) > 0"
    return _of_vserver(name, per_thousand, units.NoUnit, description, decimals=2)


DTLB_MISSES = _tlb_misses(
    "dTLB MPKI",
    "dTLB-load-misses",
    "Data TLB misses per 1,000 instructions (MPKI). They rise where virtual servers take turns on a CPU, or use more "
    "memory than the TLB covers.",
)
ITLB_MISSES = _tlb_misses("iTLB MPKI", "iTLB-load-misses", "Instruction TLB misses per 1,000 instructions (MPKI).")
LLC_MISSES_MEDIAN = _of_vserver(
    "Median 1 w",
    f"1000 * {on_host('vserver:llc_misses_per_instruction:ratio_median1w', vserver='$vserver')}",
    units.NoUnit,
    decimals=2,
)
IPC = _of_vserver(
    "IPC",
    lambda at: at("vserver:ipc:ratio", vserver="$vserver"),
    units.NoUnit,
    "Instructions per cycle. It falls where a virtual server waits for memory.",
    decimals=2,
)
INSTRUCTIONS = _of_vserver(
    "Instructions",
    on_host("vserver:events:rate", vserver="$vserver", group="cache", event="instructions"),
    _PER_SECOND,
    decimals=1,
)


def _measured(group: str) -> str:
    running, enabled = (
        on_host(f"vserver:events_{time}:rate", vserver="$vserver", group=group) for time in ("running", "enabled")
    )
    return f"{running} / ({enabled} > 0)"


CACHE_MEASURED = _of_vserver(
    "Measured",
    _measured("cache"),
    units.PercentUnit,
    "Share of the time in which instructions, cycles and LLC misses were counted; the rest is estimated.",
    decimals=0,
)
TLB_MEASURED = _of_vserver(
    "TLB measured",
    _measured("tlb"),
    units.PercentUnit,
    "Share of the time in which TLB misses were counted; the rest is estimated.",
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
"""perf-exporter's reasons for an event that it can't count, and what to do about each."""

# The exporter's own metrics: no record has events that can't be counted, or events other than instructions and misses.
# Selected by host only, as a host of containers has the platform of a bare machine here.
_CONFIGURED = HOST("perf_event_supported")
_NO_PERF = "No perf-exporter answers, on this host or in its guests: docs/perf-exporter.md."
NOT_COUNTED = Signal(
    "Events not counted",
    f"count({_CONFIGURED} == 0) or 0 * count({_CONFIGURED})",
    units.NoUnit,
    "Events that perf-exporter is configured to count, and can't. The table Events names them and the reason of each.",
    _NO_PERF,
    gap="no perf-exporter",
    high=1,
)
SUPPORTED = Signal("Counted", _CONFIGURED, units.BoolYesNo, absent=_NO_PERF)


def _of_groups(metric: str) -> str:
    """The metric's rate by group and cache."""
    return f"avg by (group, cache) (rate({HOST(metric)}[$__rate_interval]))"


_of_resctrl = partial(
    Signal,
    absent="No resctrl file system on this host, or no monitoring on its processor: docs/perf-exporter.md.",
    legend="{{group}} cache {{cache}}",
)
_BANDWIDTH = _of_groups("resctrl_memory_bytes_total")
GROUP_OCCUPANCY = _of_resctrl(
    "LLC occupancy (host)",
    f"max by (group, cache) ({HOST('resctrl_llc_occupancy_bytes')})",
    units.BytesIEC,
    "Bytes of each last-level cache that hold the data of a resctrl group, its monitoring groups included.",
)
GROUP_BANDWIDTH = _of_resctrl(
    "Memory bandwidth (host)",
    _BANDWIDTH,
    units.BytesPerSecondSI,
    "Bytes per second that a resctrl group moves between each cache and memory.",
)
GROUP_REMOTE = _of_resctrl(
    "Remote share (host)",
    f"1 - {_of_groups('resctrl_local_memory_bytes_total')} / ({_BANDWIDTH} > 0)",
    units.PercentUnit,
    "Share of a group's memory bandwidth to other nodes than the cache's own: it is slower.",
)


def _by_event(metric: str) -> str:
    """The metric's rate by event on all CPUs; the highest of several groups, as each counts all of it."""
    return f"max by (event) (sum by (event, group, instance) (rate({HOST(metric)}[$__rate_interval])))"


_NO_UNCORE = "No events outside of the cores are counted here: docs/perf-events.md."
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
CGROUP_CLOCKS = Signal(
    "Clock events of cgroups",
    f"max by (cgroup, event) (rate({HOST('perf_cgroup_event_seconds_total')}[$__rate_interval]))",
    CPUS,
    legend="{{cgroup}} {{event}}",
)
