"""What the processor counts: cache and TLB misses, and what became of its cycles."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_host

_NOT_COUNTED = (
    "Not counted here. It takes a perf-exporter on the host, in a Xen guest one inside; wait a minute after its start. "
    "If it runs, the page Caches and events says why the event is missing."
)
_PER_SECOND = "si:/s"  # Grafana's spelling of a unit of its user's own, with k, M, G before it


def _per_thousand(record: str, **labels: str) -> str:
    return f"1000 * {on_host(record, **labels)}"


HOST_LLC_MISSES = Signal(
    name="LLC misses per 1,000 instructions",
    expr=_per_thousand("host:llc_misses_per_instruction:ratio"),
    unit=units.NoUnit,
    description=(
        "How many of 1,000 instructions had to wait for memory, as the last-level cache did not have what they needed: "
        "on the host and its guests together. The studies found it to be the cause behind slow answers when a machine "
        "is shared."
    ),
    legend="{{platform}}",  # a machine of containers is there twice, as base too
    absent=_NOT_COUNTED,
    decimals=2,
)

HOST_IPC = Signal(
    name="Instructions per cycle",
    expr=on_host("host:ipc:ratio"),
    unit=units.NoUnit,
    description=(
        "Work done per clock cycle in use, on the host and its guests together. It falls where they wait for memory."
    ),
    legend="{{platform}}",  # a machine of containers is there twice, as base too
    absent=_NOT_COUNTED,
    decimals=2,
)

COVERED = Signal(
    name="Of CPU, counted",
    expr=on_host("host:events_covered:ratio"),
    unit=units.PercentUnit,
    description=(
        "How much of the host's CPU use belongs to virtual servers whose events are counted. On Xen each guest counts "
        "for itself: below 100 % one has no perf-exporter. Elsewhere the machine counts everything."
    ),
    legend="{{platform}}",  # a machine of containers is there twice, as base too
    absent=_NOT_COUNTED,
    decimals=0,
)

MEASURED_LEAST = Signal(
    name="Measured, at least",
    expr=f"min by (host, platform) ({on_host('vserver:events_measured:ratio')})",
    unit=units.PercentUnit,
    description=(
        "The share of the time in which events were counted, for the group and virtual server that have the least; the "
        "rest is estimated from it. 100 % where the processor has counters enough for all. EventsMostlyEstimated fires "
        "when it stays below 20 %."
    ),
    legend="{{platform}}",  # a machine of containers is there twice, as base too
    absent=_NOT_COUNTED,
    decimals=0,
)

LLC_MISSES = Signal(
    name="LLC misses",
    expr=_per_thousand("vserver:llc_misses_per_instruction:ratio", vserver="$vserver"),
    unit=units.NoUnit,
    description=(
        "How many of 1,000 instructions of a virtual server had to wait for memory. More than twice what is usual for "
        "it, while others are busy on the host, is what CacheMissesUnusual fires for."
    ),
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=2,
)

LLC_MISSES_USUAL = Signal(
    name="Usual",
    expr=_per_thousand("vserver:llc_misses_per_instruction:ratio_median1w", vserver="$vserver"),
    unit=units.NoUnit,
    description="The median of the same over the past week's minutes at work. Known after a day at work.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=2,
)

IPC = Signal(
    name="IPC",
    expr=on_host("vserver:ipc:ratio", vserver="$vserver"),
    unit=units.NoUnit,
    description="Instructions per clock cycle in use. It falls where a virtual server waits for memory.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=2,
)

DTLB_MISSES = Signal(
    name="dTLB misses",
    expr=_per_thousand("vserver:dtlb_misses_per_instruction:ratio", vserver="$vserver"),
    unit=units.NoUnit,
    description=(
        "How many of 1,000 instructions read data whose address had to be looked up in the page tables. It rises where "
        "virtual servers take turns on a CPU, or work on more memory than the TLB knows."
    ),
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=2,
)

ITLB_MISSES = Signal(
    name="iTLB misses",
    expr=_per_thousand("vserver:itlb_misses_per_instruction:ratio", vserver="$vserver"),
    unit=units.NoUnit,
    description="The same for the address of the instruction itself.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=2,
)

INSTRUCTIONS = Signal(
    name="Instructions",
    expr=on_host("vserver:instructions:rate", vserver="$vserver"),
    unit=_PER_SECOND,
    description="Instructions done per second.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=1,
)

CACHE_MEASURED = Signal(
    name="Measured",
    expr=on_host("vserver:events_measured:ratio", vserver="$vserver", group="cache"),
    unit=units.PercentUnit,
    description="The share of the time in which instructions, cycles and LLC misses were counted, not estimated.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=0,
)

TLB_MEASURED = Signal(
    name="TLB measured",
    expr=on_host("vserver:events_measured:ratio", vserver="$vserver", group="tlb"),
    unit=units.PercentUnit,
    description="The share of the time in which TLB misses were counted; the rest is estimated.",
    legend="{{vserver}}",
    absent=_NOT_COUNTED,
    decimals=0,
)

REASONS = {
    "hidden_by_hypervisor": "hidden by a hypervisor: turn this guest's PMU on (Xen: vpmu=on)",
    "no_permission": "not permitted: give perf-exporter CAP_PERFMON",
    "not_supported": "this processor, kernel or hypervisor does not have it",
    "too_many_events": "more events in the group than the processor has counters: split it",
    "never_ran": "its group never had its turn: count fewer groups",
    "too_many_files": "too many open files: raise LimitNOFILE of perf-exporter",
    "unknown_event": "this machine has no event of that name",
    "failed": "the kernel refused it: see the log of perf-exporter",
}
"""What perf-exporter says of an event that it can't count, and what that asks for."""

# The exporter's own word: there is no record of what can't be counted. By host alone, as a host of containers bears the
# platform of a bare machine here.
_ASKED_FOR = 'perf_event_supported{host="$host"}'

NOT_COUNTED = Signal(
    name="Events that can't be counted",
    expr=(
        f"count by (reason) ({_ASKED_FOR} == 0) "
        f'or on () label_replace(0 * count({_ASKED_FOR}), "reason", "all of them are counted", "", "")'
    ),
    unit=units.NoUnit,
    description=(
        "How many of the events that perf-exporter was asked for it can't count, and why. Which ones they are is in "
        "the last table; docs/perf-events.md says more of each reason."
    ),
    legend="{{reason}}",
    absent="No perf-exporter answers on this host, nor in its guests: docs/perf-exporter.md says how to start one.",
    decimals=0,
    high=1,
)

SUPPORTED = Signal(
    name="Counted",
    expr=_ASKED_FOR,
    unit=units.BoolYesNo,
    description=(
        "The events that perf-exporter was asked for, those first that it can't count, and why. Without a guest: on "
        "the host itself. docs/perf-events.md says more of each reason."
    ),
    absent=NOT_COUNTED.absent,
)
