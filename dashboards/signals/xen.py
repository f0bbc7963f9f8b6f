"""Xen in its own words: domains, vCPUs, scheduling, virtual interfaces and block devices of one host.

xentop-exporter's own series, not the vocabulary: that has what every platform has, and the page Host shows it.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Signal, native, on_host
from dashboards.signals.native import described, latest

_DOMAIN, _VCPU, _VIF, _VBD = "domid, domain", "domid, domain, vcpu", "domid, domain, vif", "domid, domain, vbd"
_PER_SECOND = "suffix:/s"
# Domains are chosen as virtual servers, as which the pages that link here know them: of two with one name, each is
# NAME/DOMID. One that is dying is no virtual server, and is left out by no choice.
_NOT_CHOSEN = f'domain:vserver:info{{{ONE_HOST}, vserver!~"$vserver"}}'


def _value(metric: str, by: str) -> str:
    """The value of each of the chosen domains."""
    return f"({latest(metric, by)} unless on ({_DOMAIN}) {_NOT_CHOSEN})"


def _rate(counter: str, by: str) -> str:
    """How fast the counter of each of the chosen domains grows, per second: for a while after a domain has ended."""
    return f"({native.rate(counter, by)} unless on ({_DOMAIN}) last_over_time({_NOT_CHOSEN}[$__rate_interval]))"


def _of_name(expr: str, label: str) -> str:
    """The same by name, for a graph: a domain that is rebooted gets a new ID and goes on as the same line."""
    return f"sum by (domain, {label}) ({expr})"


def _of_domains_now(expr: str) -> str:
    return native.there_now(expr, _DOMAIN, "xen_domain_vcpus")


_NO_DATA = "Not a Xen host, or no values from xentop-exporter: see Monitoring and docs/xentop-exporter.md."
_NO_TOOLSTACK = "Neither xl nor xm answers on this host, or it doesn't know: docs/xentop-exporter.md."
_NO_VIF = "The chosen domains have no virtual interface."
_NO_VBD = "The chosen domains have no virtual block device."
_NO_MONITORING = "Only of domains attached by xl psr-cmt-attach, on processors that monitor caches."

DOMAINS = Signal(
    name="Domains on the host",
    query=latest("xen_host_domains", "host"),
    unit=units.NoUnit,
    description="Domains on the host, Dom0 included.",
    absent=_NO_DATA,
    decimals=0,
)

FREE_MEMORY = Signal(
    name="Free memory (host)",
    query=latest("xen_host_memory_free_bytes", "host"),
    unit=units.BytesIEC,
    description="Memory that is given to no domain.",
    absent=_NO_DATA,
    decimals=1,
)

VCPUS = Signal(
    name="vCPUs",
    query=described(
        _value("xen_domain_vcpus", _DOMAIN),
        _DOMAIN,
        on_host("xen_domain_info"),
        "type, os, cpupool, uuid",
    ),
    unit=units.NoUnit,
    description="vCPUs of the domain, online or not.",
    absent=_NO_DATA,
    decimals=0,
)

MEMORY = Signal(
    name="Memory",
    query=_value("xen_domain_memory_bytes", _DOMAIN),
    unit=units.BytesIEC,
    description="Memory that the domain has now.",
    absent=_NO_DATA,
    decimals=1,
)

_VCPU_USED = _rate("xen_vcpu_cpu_seconds_total", _VCPU)

VCPU_USED = Signal(
    name="CPU used by vCPU",
    query=_of_name(_VCPU_USED, "vcpu"),
    unit=CPUS,
    description="CPU used by each vCPU: 1 CPU is busy all the time.",
    legend="{{domain}} vCPU {{vcpu}}",
    absent=_NO_DATA,
    decimals=2,
)

VCPU_ON = Signal(
    name="On CPU",
    query=_value("xen_vcpu_cpu", _VCPU),
    unit=units.NoUnit,
    description="Number of the physical CPU that the vCPU was last on.",
    absent=_NO_TOOLSTACK,
    decimals=0,
)

VCPU_PLACED = replace(
    VCPU_USED,
    name="CPU used",
    query=described(_of_domains_now(_VCPU_USED), _VCPU, on_host("xen_vcpu_affinity_info"), "hard, soft"),
)

CHANGES = Signal(
    name="Changes",
    query=_of_domains_now(
        f"sum by ({_DOMAIN}) ({native.growth('xen_domain_scheduler_changes_total', f'{_DOMAIN}, what')})"
        f" unless on ({_DOMAIN}) {_NOT_CHOSEN}"
    ),
    unit=units.NoUnit,
    description="Changes of the domain's weight or cap in the time shown.",
    absent=_NO_TOOLSTACK,
    decimals=0,
)

WEIGHT = Signal(
    name="Weight",
    query=_value("xen_domain_scheduler_weight", _DOMAIN),
    unit=units.NoUnit,
    description="The domain's weight against the others of its CPU pool (credit, credit2).",
    absent=_NO_TOOLSTACK,
    decimals=0,
)

CAP = Signal(
    name="Cap",
    query=_value("xen_domain_cpu_limit_cpus", _DOMAIN),
    unit=CPUS,
    description="CPUs that the domain may use at most (credit, credit2).",
    absent=_NO_TOOLSTACK,
    decimals=2,
)

BUDGET = Signal(
    name="Budget",
    query=_value("xen_domain_scheduler_budget_seconds", _DOMAIN),
    unit=units.Seconds,
    description="CPU time that each vCPU may use in a period (rtds).",
    absent=_NO_TOOLSTACK,
)

PERIOD = replace(
    BUDGET,
    name="Period",
    query=_value("xen_domain_scheduler_period_seconds", _DOMAIN),
    description="Period of the budget (rtds).",
)

MISSED_CHANGES = Signal(
    name="Missed changes of run states",
    query=f"sum by (domain) ({_rate('xen_domain_runstate_missed_changes_total', _DOMAIN)})",
    unit=_PER_SECOND,
    description=(
        "Changes of a domain's run state that the hypervisor did not record: time that belongs to the next state was "
        "counted for the one before, so CPU wait is less exact."
    ),
    legend="{{domain}}",
    absent="Run states of domains are not known on this hypervisor: docs/xentop-exporter.md.",
)

_NO_TRACE = "Not traced: set xentop-exporter's --xentrace.interval, docs/xentop-exporter.md."

TRACED = Signal(
    name="Traced time (host)",
    query=native.rate("xen_trace_windows_total", "host"),
    unit=units.PercentUnit,
    description=(
        "Part of the time in which xentrace recorded who waits while who runs, in windows of a second: what a domain "
        "waits for whom is estimated from these."
    ),
    absent=_NO_TRACE,
)

TRACE_LOST = Signal(
    name="Lost trace records (host)",
    query=native.rate("xen_trace_lost_records_total", "host"),
    unit=_PER_SECOND,
    description=(
        "Records that Xen's trace buffer had no room for: their time is missing in the estimates, which are then less "
        "exact."
    ),
    absent=_NO_TRACE,
)

POOL_CPUS = Signal(
    name="CPUs",
    query=described(latest("xen_cpupool_cpus", "cpupool"), "cpupool", on_host("xen_cpupool_info"), "scheduler"),
    unit=units.NoUnit,
    description="Physical CPUs of the pool.",
    absent=_NO_TOOLSTACK,
    decimals=0,
)

POOL_TIMESLICE = Signal(
    name="Time slice",
    query=latest("xen_cpupool_timeslice_seconds", "cpupool"),
    unit=units.Seconds,
    description="How long a vCPU runs while others wait (credit).",
    absent=_NO_TOOLSTACK,
)

POOL_RATELIMIT = Signal(
    name="Rate limit",
    query=latest("xen_cpupool_ratelimit_seconds", "cpupool"),
    unit=units.Seconds,
    description="How long a vCPU runs at least before another may preempt it (credit, credit2).",
    absent=_NO_TOOLSTACK,
)


def _packets(counter: str, name: str, description: str, unit: str) -> Signal:
    return Signal(
        name=name,
        query=_of_name(_rate(counter, _VIF), "vif"),
        unit=unit,
        description=description,
        legend="{{domain}} vif {{vif}}",
        absent=_NO_VIF,
    )


PACKETS_RECEIVED = _packets(
    "xen_domain_network_receive_packets_total",
    "Packets received",
    "Packets that guests received.",
    units.PacketsPerSecond,
)
PACKETS_SENT = _packets(
    "xen_domain_network_transmit_packets_total", "Packets sent", "Packets that guests sent.", units.PacketsPerSecond
)
ERRORS_RECEIVED = _packets(
    "xen_domain_network_receive_errors_total",
    "Receive errors",
    "Errors on the way to guests.",
    _PER_SECOND,
)
ERRORS_SENT = _packets(
    "xen_domain_network_transmit_errors_total", "Transmit errors", "Errors on what guests sent.", _PER_SECOND
)
DROPS_RECEIVED = _packets(
    "xen_domain_network_receive_drops_total",
    "Receive drops",
    "Packets dropped on the way to guests: these were too slow to take them.",
    _PER_SECOND,
)
DROPS_SENT = _packets(
    "xen_domain_network_transmit_drops_total",
    "Transmit drops",
    "Packets dropped of what guests sent: Dom0's back end was too slow to take them.",
    _PER_SECOND,
)

PACKETS_LOST = Signal(
    name="Errors and drops",
    query=f"sum({' + '.join(each.expr for each in (ERRORS_RECEIVED, ERRORS_SENT, DROPS_RECEIVED, DROPS_SENT))})",
    unit=_PER_SECOND,
    description="Errors and dropped packets of all virtual interfaces; the row Network has each of them.",
    absent=_NO_VIF,
    gap="no interfaces",
    decimals=1,
)


def _requests(counter: str) -> str:
    return _rate(counter, _VBD)


_READS = _requests("xen_domain_block_read_requests_total")
_WRITES = _requests("xen_domain_block_write_requests_total")
_OUT_OF_REQUESTS = _requests("xen_domain_block_out_of_requests_total")

READS = Signal(
    name="Read requests",
    query=_of_name(_READS, "vbd"),
    unit=units.IOOpsPerSecond,
    description="Read requests to each virtual block device.",
    legend="{{domain}} {{vbd}}",
    absent=_NO_VBD,
)

WRITES = replace(
    READS,
    name="Write requests",
    query=_of_name(_WRITES, "vbd"),
    description="Write requests to each virtual block device.",
)

OUT_OF_REQUESTS = Signal(
    name="Out of requests",
    query=_of_name(_OUT_OF_REQUESTS, "vbd"),
    unit=_PER_SECOND,
    description=(
        "Times that the back end had no request slot left for a virtual block device: its storage is slower than the "
        "guest asks."
    ),
    legend="{{domain}} {{vbd}}",
    absent=_NO_VBD,
)

ALL_OUT_OF_REQUESTS = replace(
    OUT_OF_REQUESTS,
    name="VBD out of requests",
    query=f"sum({_OUT_OF_REQUESTS})",
    gap="no block device",
    decimals=1,
)

DEVICES = [
    replace(
        OUT_OF_REQUESTS,
        query=described(_of_domains_now(_OUT_OF_REQUESTS), _VBD, on_host("xen_domain_block_info"), "type, device"),
        decimals=1,
    ),
    replace(READS, name="Reads", query=_of_domains_now(_READS), decimals=1),
    replace(WRITES, name="Writes", query=_of_domains_now(_WRITES), decimals=1),
]

CACHE = Signal(
    name="LLC occupancy",
    query=_value("xen_domain_cache_occupancy_bytes", "domid, domain, socket"),
    unit=units.BytesIEC,
    description="Bytes of each socket's last-level cache (LLC) that hold the domain's data.",
    legend="{{domain}} socket {{socket}}",
    absent=_NO_MONITORING,
)

BANDWIDTH = Signal(
    name="Memory bandwidth",
    query=_value("xen_domain_memory_bandwidth_bytes_per_second", "domid, domain, socket, memory"),
    unit=units.BytesPerSecondSI,
    description=(
        "Memory bandwidth of each domain in a recent 10 ms: to all memory (total), and to that of the socket itself "
        "(local). What lies between is remote."
    ),
    legend="{{domain}} socket {{socket}} {{memory}}",
    absent=_NO_MONITORING,
)

HOST_CPUS = Signal(
    name="CPUs",
    query=described(latest("xen_host_cpus", "host"), "host", on_host("xen_host_info"), "version"),
    unit=units.NoUnit,
    description="Physical CPUs of the host.",
    absent=_NO_DATA,
    decimals=0,
)

HOST_CLOCK = Signal(
    name="Clock rate",
    query=latest("xen_host_cpu_hertz", "host"),
    unit=units.Hertz,
    description="Clock rate of the physical CPUs.",
    absent=_NO_DATA,
    decimals=2,
)

HOST_MEMORY = Signal(
    name="Memory",
    query=latest("xen_host_memory_bytes", "host"),
    unit=units.BytesIEC,
    description="Memory of the host.",
    absent=_NO_DATA,
    decimals=1,
)
