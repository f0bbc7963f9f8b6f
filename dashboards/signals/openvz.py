"""OpenVZ's own metrics: containers, beancounters, disk I/O accounting, waits and quotas of one host.

vestat-exporter's series, not the vocabulary, which only covers metrics of every platform (see the page Host).
"""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, DELAY, Scope, Signal, native
from dashboards.signals.native import HOST, described, growth, latest, there_now

_CHOSEN = {"ctid": "$vserver"}
_PER_SECOND = "suffix:/s"


def _value(metric: str, by: str = "ctid") -> str:
    return latest(f"openvz_{metric}", by, **_CHOSEN)


def _rate(counter: str, by: str = "ctid") -> str:
    return native.rate(f"openvz_container_{counter}_total", by, **_CHOSEN)


_NO_DATA = "Not an OpenVZ host, or no values from vestat-exporter: see Monitoring and docs/vestat-exporter.md."
_NO_COUNTERS = "No beancounters of this container: docs/vestat-exporter.md says what reads them."
_NO_IOACCT = "This kernel has no /proc/bc/CTID/ioacct, or no value of this kind in it."
_NO_LATENCY = "This kernel does not count these waits, or not in a known unit: docs/vestat-exporter.md."
_NO_QUOTA = "No container has a disk quota in /proc/vz/vzquota; Virtuozzo 7 limits disk images instead."
_number = partial(Signal, unit=units.NoUnit)

# Containers

LONGEST_WAIT = Signal(
    "Longest wait for a CPU",
    _value("container_scheduling_latency_max_seconds"),
    units.Seconds,
    "Longest recent wait of one of the container's processes for a CPU.",
    _NO_LATENCY,
    legend="{{ctid}}",
    gap="not counted",
    decimals=1,
)
LONGEST_OF_ALL = replace(LONGEST_WAIT, name="Max wait for a CPU", query=f"max({LONGEST_WAIT.expr})")
FAILURES = _number(
    "Beancounter failures",
    f"sum({growth('openvz_beancounter_failures_total', 'ctid, resource', **_CHOSEN)})",
    description=(
        "Requests for a resource that the kernel refused to containers in the time shown: programs saw errors or "
        "waited. The table of beancounters names the resource."
    ),
    absent=_NO_COUNTERS,
)
_PROCESSES = _value("container_processes")
ALL_PROCESSES = _number(
    "Processes",
    f"sum({_PROCESSES})",
    description="Processes of all containers chosen.",
    absent="This kernel has no /proc/vz/veinfo.",
    gap="no veinfo",
)
ALL_DIRTY = Signal(
    "Dirty memory",
    f"sum({_value('container_io_dirty_bytes')})",
    units.BytesIEC,
    "Bytes changed in memory by the containers and not yet written to disk.",
    _NO_IOACCT,
    gap="no ioacct",
    decimals=1,
)
CONTAINERS = [
    _number(
        "Processes",
        described(_PROCESSES, "ctid", HOST("openvz_container_info", **_CHOSEN), "name, hostname, template"),
        absent="This kernel has no /proc/vz/veinfo.",
    ),
    Signal(
        "Idle",
        there_now(_rate("cpu_idle_seconds"), "ctid", "openvz_container_uptime_seconds", **_CHOSEN),
        CPUS,
    ),
    _number("Addresses", _value("container_addresses")),
    replace(LONGEST_WAIT, name="Max wait"),
    Signal("Uptime", _value("container_uptime_seconds"), units.Seconds, decimals=1),
]

# Beancounters of one chosen container: a whole host would have thousands of rows. Its name isn't a regular expression.
_ONE = Scope(f'{HOST.hosts}, ctid="$ctid"')


def _beancounters(suffix: str, unit: str) -> list[Signal]:
    """Failures and values of the resources with this metric suffix, in one unit."""
    held, *others = (
        Signal(name, latest(f"openvz_beancounter_{metric}{suffix}", "resource", _ONE), unit)
        for name, metric in {"Held": "held", "Max": "maxheld", "Barrier": "barrier", "Limit": "limit"}.items()
    )
    failed = growth("openvz_beancounter_failures_total", "resource", _ONE)
    return [_number("Failed", f"{failed} and on (resource) {held.expr}", absent=_NO_COUNTERS), held, *others]


BYTES = _beancounters("_bytes", units.BytesIEC)
NUMBERS = _beancounters("", units.Short)

# CPU and waits

CPU_BY_MODE = Signal(
    "CPU used by mode",
    _rate("cpu_seconds", "ctid, mode"),
    CPUS,
    "CPU used by each container in user mode, there by niced processes, and in the kernel (system).",
    _NO_DATA,
    legend="{{ctid}} {{mode}}",
)
SCHEDULINGS = Signal(
    "Schedulings",
    _rate("schedulings"),
    _PER_SECOND,
    "Times that one of the container's processes was given a CPU.",
    _NO_LATENCY,
    legend="{{ctid}}",
)
HOST_WAITS = [
    Signal("Time waited", native.rate("openvz_host_latency_seconds_total", "type"), DELAY, absent=_NO_LATENCY),
    Signal("Waits", native.rate("openvz_host_latency_calls_total", "type"), _PER_SECOND),
    Signal("Longest", latest("openvz_host_latency_max_seconds", "type"), units.Seconds),
]

# Disk I/O

_bytes_per_second = partial(Signal, unit=units.BytesPerSecondSI, absent=_NO_IOACCT, legend="{{ctid}}")
READ_BYTES = _bytes_per_second(
    "Bytes read",
    _rate("io_vfs_read_bytes"),
    description="Bytes that came through read() and the like, from disk, cache, pipes or elsewhere.",
)
WRITTEN_BYTES = _bytes_per_second(
    "Bytes written", _rate("io_vfs_write_bytes"), description="Bytes given to write() and the like."
)
_DIRTIED = HOST("openvz_container_io_dirtied_bytes", **_CHOSEN)
IO = [
    Signal("Dirty memory", _value("container_io_dirty_bytes"), units.BytesIEC, absent=_NO_IOACCT),
    # A gauge: on newer kernels it may decrease a little.
    _bytes_per_second("Dirtied", f"clamp_min(avg by (ctid) (deriv({_DIRTIED}[$__rate_interval])), 0)"),
    _bytes_per_second("Cancelled", _rate("io_cancelled_bytes")),
    _bytes_per_second("Missed", _rate("io_missed_bytes")),
    Signal("read()", _rate("io_vfs_reads"), units.OpsPerSecond),
    Signal("write()", _rate("io_vfs_writes"), units.OpsPerSecond),
    Signal("FUSE requests", _rate("io_fuse_requests"), units.OpsPerSecond),
    _bytes_per_second("FUSE bytes", _rate("io_fuse_bytes")),
]
_SYNCS = {"fsync()": "fsyncs", "sync()": "syncs", "sync_file_range()": "range_syncs"}
SYNCS = [
    *(
        Signal(name, _rate(f"io_{metric}"), units.OpsPerSecond, absent=_NO_IOACCT)
        for name, metric in {**_SYNCS, "fdatasync()": "fdatasyncs"}.items()
    ),
    *(_number(f"In {name}", _value(f"container_io_{metric}_active")) for name, metric in _SYNCS.items()),
]
UNKNOWN = Signal(
    "Value",
    _value("container_io_unknown", "ctid, field"),
    units.NoUnit,
    absent="Every value of ioacct is known to vestat-exporter.",
)

# Disk quotas

QUOTAS = [
    Signal(name, _value(f"quota_{metric}"), unit, absent=_NO_QUOTA)
    for name, metric, unit in (
        ("Used", "used_bytes", units.BytesIEC),
        ("Inodes", "used_inodes", units.Short),
        ("Soft limit", "soft_limit_bytes", units.BytesIEC),
        ("Hard limit", "hard_limit_bytes", units.BytesIEC),
        ("Soft (inodes)", "soft_limit_inodes", units.Short),
        ("Hard (inodes)", "hard_limit_inodes", units.Short),
        ("Enforced", "on", units.BoolYesNo),
    )
]
_GRACE_END = _value("quota_grace_end_timestamp_seconds", "ctid, limit")
GRACE = [
    Signal("Grace period", _value("quota_grace_period_seconds", "ctid, limit"), units.Seconds, absent=_NO_QUOTA),
    Signal("Ends in", f"{_GRACE_END} - time()", units.Seconds),
]

# The kernel's own files


def _of_file(info: str, file: str, labels: str) -> str:
    return f'label_replace(group by ({labels}) ({HOST(info)}), "file", "{file}", "", "")'


FILES = Signal(
    "Read",
    " or ".join(
        [
            _of_file("openvz_host_info", "/proc/vz/version", "version"),
            _of_file("openvz_vestat_info", "/proc/vz/vestat", "version"),
            _of_file("openvz_beancounters_info", "beancounters", "version"),
            _of_file("openvz_vestat_units_info", "time in vestat", "unit, hz, decided_by"),
        ]
    ),
    units.BoolYesNo,
    absent=_NO_DATA,
)
