"""Xen's own metrics: domains, vCPUs, scheduling, virtual interfaces and block devices of one host.

xentop-exporter's series, not the vocabulary, which only covers metrics of every platform (see the page Host).
"""

from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, native
from dashboards.signals.native import HOST, described, growth, latest

_DOMAIN, _VCPU, _VIF, _VBD = "domid, domain", "domid, domain, vcpu", "domid, domain, vif", "domid, domain, vbd"
_PER_SECOND = "suffix:/s"
# Domains are chosen as virtual servers, as on the pages that link here: two with the same name are NAME/DOMID. A dying
# domain isn't a virtual server: its values always show, and it has no rates.
_NOT_CHOSEN = HOST("domain:vserver:info", 'vserver!~"$vserver"')


def _value(metric: str, by: str = _DOMAIN, **labels: str) -> str:
    return f"({latest(metric, by, **labels)} unless on ({_DOMAIN}) {_NOT_CHOSEN})"


def _now(expr: str) -> str:
    """Rates or growths of the chosen domains that exist now."""
    return native.there_now(expr, _DOMAIN, "domain:vserver:info", vserver="$vserver")


def _rate(counter: str, by: str) -> str:
    return _now(native.rate(counter, by))


_NO_DATA = "Not a Xen host, or no values from xentop-exporter: see Monitoring and docs/xentop-exporter.md."
_NO_TOOLSTACK = "Neither xl nor xm answers on this host, or it doesn't know: docs/xentop-exporter.md."
_NO_VIF = "The chosen domains have no virtual interface."
_NO_VBD = "The chosen domains have no virtual block device."
_NO_TRACE = "Not traced: set xentop-exporter's --xentrace.interval, docs/xentop-exporter.md."
_number = partial(Signal, unit=units.NoUnit)

DOMAINS = _number(
    "Domains on the host",
    latest("xen_host_domains", "host"),
    description="Domains on the host, Dom0 included.",
    absent=_NO_DATA,
)
FREE_MEMORY = Signal(
    "Free memory (host)",
    latest("xen_host_memory_free_bytes", "host"),
    units.BytesIEC,
    "Memory that is given to no domain.",
    _NO_DATA,
    decimals=1,
)
_LOST = [f"xen_domain_network_{way}_{what}_total" for way in ("receive", "transmit") for what in ("drops", "errors")]
PACKETS_LOST = Signal(
    "Errors and drops (host)",
    " + ".join(f"sum({native.rate(counter, _VIF)})" for counter in _LOST),
    _PER_SECOND,
    "Errors and dropped packets of all virtual interfaces; the table Virtual interfaces has each of them.",
    _NO_VIF,
    gap="no interfaces",
)
_OUT_OF_REQUESTS = _rate("xen_domain_block_out_of_requests_total", _VBD)
OUT_OF_REQUESTS = Signal(
    "VBD out of requests",
    f"sum({_OUT_OF_REQUESTS})",
    _PER_SECOND,
    "Times that the back end had no request slot left for a virtual block device: its storage is slower than the "
    "guest asks.",
    _NO_VBD,
    gap="no block device",
)

DOMAIN = [
    _number(
        "vCPUs",
        described(_value("xen_domain_vcpus"), _DOMAIN, HOST("xen_domain_info"), "type, os, cpupool, uuid"),
        absent=_NO_DATA,
    ),
    Signal("Memory", _value("xen_domain_memory_bytes"), units.BytesIEC, decimals=1),
]
VCPU = [
    Signal(
        "CPU used",
        described(_rate("xen_vcpu_cpu_seconds_total", _VCPU), _VCPU, HOST("xen_vcpu_affinity_info"), "hard, soft"),
        CPUS,
        absent=_NO_DATA,
    ),
    _number("On CPU", _value("xen_vcpu_cpu", _VCPU)),
]
SCHEDULING = [
    _number(
        "Changes",
        f"sum by ({_DOMAIN}) ({_now(growth('xen_domain_scheduler_changes_total', f'{_DOMAIN}, what'))})",
        absent=_NO_TOOLSTACK,
    ),
    _number("Weight", _value("xen_domain_scheduler_weight")),
    Signal("Cap", _value("xen_domain_cpu_limit_cpus"), CPUS),
    Signal("Budget", _value("xen_domain_scheduler_budget_seconds"), units.Seconds),
    Signal("Period", _value("xen_domain_scheduler_period_seconds"), units.Seconds),
    _number("Missed states", _now(growth("xen_domain_runstate_missed_changes_total", _DOMAIN))),
]
POOLS = [
    _number(
        "CPUs",
        described(latest("xen_cpupool_cpus", "cpupool"), "cpupool", HOST("xen_cpupool_info"), "scheduler"),
        absent=_NO_TOOLSTACK,
    ),
    Signal("Time slice", latest("xen_cpupool_timeslice_seconds", "cpupool"), units.Seconds),
    Signal("Rate limit", latest("xen_cpupool_ratelimit_seconds", "cpupool"), units.Seconds),
]
TRACED = Signal(
    "Traced time (host)",
    native.rate("xen_trace_windows_total", "host"),
    units.PercentUnit,
    "Part of the time in which xentrace recorded who waits while who runs, in windows of a second: what a domain "
    "waits for whom is estimated from these.",
    _NO_TRACE,
)
TRACE_LOST = Signal(
    "Lost trace records (host)",
    native.rate("xen_trace_lost_records_total", "host"),
    _PER_SECOND,
    "Records that Xen's trace buffer had no room for: their time is missing in the estimates, which are then less "
    "exact.",
    _NO_TRACE,
)

# Drops first: the most important panel is on top.
INTERFACES = [
    Signal(name, _rate(f"xen_domain_network_{metric}_total", _VIF), unit, absent=_NO_VIF, decimals=1)
    for name, metric, unit in (
        ("Drops (in)", "receive_drops", _PER_SECOND),
        ("Drops (out)", "transmit_drops", _PER_SECOND),
        ("Errors (in)", "receive_errors", _PER_SECOND),
        ("Errors (out)", "transmit_errors", _PER_SECOND),
        ("Packets in", "receive_packets", units.PacketsPerSecond),
        ("Packets out", "transmit_packets", units.PacketsPerSecond),
    )
]
DEVICES = [
    Signal(
        "Out of requests",
        described(_OUT_OF_REQUESTS, _VBD, HOST("xen_domain_block_info"), "type, device"),
        _PER_SECOND,
        absent=_NO_VBD,
    ),
    Signal("Reads", _rate("xen_domain_block_read_requests_total", _VBD), units.IOOpsPerSecond, decimals=1),
    Signal("Writes", _rate("xen_domain_block_write_requests_total", _VBD), units.IOOpsPerSecond, decimals=1),
]

_BANDWIDTH = "xen_domain_memory_bandwidth_bytes_per_second"
CACHE = [
    Signal(
        "LLC occupancy",
        _value("xen_domain_cache_occupancy_bytes", "domid, domain, socket"),
        units.BytesIEC,
        absent="Only of domains attached by xl psr-cmt-attach, on processors that monitor caches.",
    ),
    *(
        Signal(f"Bandwidth ({name})", _value(_BANDWIDTH, "domid, domain, socket", memory=name), units.BytesPerSecondSI)
        for name in ("total", "local")
    ),
]

HYPERVISOR = [
    _number(
        "CPUs", described(latest("xen_host_cpus", "host"), "host", HOST("xen_host_info"), "version"), absent=_NO_DATA
    ),
    Signal("Clock rate", latest("xen_host_cpu_hertz", "host"), units.Hertz, decimals=2),
    Signal("Memory", latest("xen_host_memory_bytes", "host"), units.BytesIEC, decimals=1),
]
