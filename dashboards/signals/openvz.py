"""OpenVZ in its own words: containers, beancounters, disk I/O accounting, waits and quotas of one host.

vestat-exporter's own series, not the vocabulary: that has what every platform has, and the page Host shows it.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, ONE_HOST, Scope, Signal, on_host
from dashboards.signals.native import described, growth, latest, rate, there_now

_CTID = "ctid"
_CHOSEN = {"ctid": "$vserver"}
_PER_SECOND = "suffix:/s"

_NO_DATA = "Not an OpenVZ host, or no values from vestat-exporter: see Monitoring and docs/vestat-exporter.md."
_NO_COUNTERS = "No beancounters of this container: docs/vestat-exporter.md says what reads them."
_NO_IOACCT = "This kernel has no /proc/bc/CTID/ioacct, or no value of this kind in it."
_NO_LATENCY = "This kernel does not count these waits, or not in a known unit: docs/vestat-exporter.md."
_NO_QUOTA = "No container has a disk quota in /proc/vz/vzquota; Virtuozzo 7 limits disk images instead."

# Containers

LONGEST_WAIT = Signal(
    name="Longest wait for a CPU",
    query=latest("openvz_container_scheduling_latency_max_seconds", _CTID, **_CHOSEN),
    unit=units.Seconds,
    description="Longest recent wait of one of the container's processes for a CPU.",
    legend="{{ctid}}",
    absent=_NO_LATENCY,
    gap="not counted",
    decimals=1,
)

LONGEST_OF_ALL = replace(LONGEST_WAIT, name="Max wait for a CPU", query=f"max({LONGEST_WAIT.expr})")

FAILURES = Signal(
    name="Beancounter failures",
    query=f"sum({growth('openvz_beancounter_failures_total', 'ctid, resource', **_CHOSEN)})",
    unit=units.NoUnit,
    description=(
        "Requests for a resource that the kernel refused to containers in the time shown: programs saw errors or "
        "waited. The table of beancounters names the resource."
    ),
    absent=_NO_COUNTERS,
    decimals=0,
)

PROCESSES = Signal(
    name="Processes",
    query=latest("openvz_container_processes", _CTID, **_CHOSEN),
    unit=units.NoUnit,
    description="Processes of the container.",
    absent="This kernel has no /proc/vz/veinfo.",
    gap="no veinfo",
    decimals=0,
)

ALL_PROCESSES = replace(PROCESSES, query=f"sum({PROCESSES.expr})", description="Processes of all containers chosen.")

DIRTY = Signal(
    name="Dirty memory",
    query=latest("openvz_container_io_dirty_bytes", _CTID, **_CHOSEN),
    unit=units.BytesIEC,
    description="Bytes changed in memory by the container and not yet written to disk.",
    legend="{{ctid}}",
    absent=_NO_IOACCT,
    gap="no ioacct",
)

ALL_DIRTY = replace(DIRTY, query=f"sum({DIRTY.expr})", decimals=1)

CONTAINERS = [
    replace(
        PROCESSES,
        query=described(PROCESSES.expr, _CTID, on_host("openvz_container_info", **_CHOSEN), "name, hostname, template"),
    ),
    Signal(
        name="Idle",
        query=there_now(
            rate("openvz_container_cpu_idle_seconds_total", _CTID, **_CHOSEN),
            _CTID,
            "openvz_container_uptime_seconds",
            **_CHOSEN,
        ),
        unit=CPUS,
        description="Virtual CPUs of the container that had nothing to do.",
        absent=_NO_DATA,
        decimals=2,
    ),
    Signal(
        name="Addresses",
        query=latest("openvz_container_addresses", _CTID, **_CHOSEN),
        unit=units.NoUnit,
        description="IP addresses of the container.",
        absent=_NO_DATA,
        decimals=0,
    ),
    replace(LONGEST_WAIT, name="Max wait"),
    Signal(
        name="Uptime",
        query=latest("openvz_container_uptime_seconds", _CTID, **_CHOSEN),
        unit=units.Seconds,
        description="Time since the container was started.",
        absent=_NO_DATA,
        decimals=1,
    ),
]

CPU_BY_MODE = Signal(
    name="CPU used by mode",
    query=rate("openvz_container_cpu_seconds_total", "ctid, mode", **_CHOSEN),
    unit=CPUS,
    description="CPU used by each container in user mode, there by niced processes, and in the kernel (system).",
    legend="{{ctid}} {{mode}}",
    absent=_NO_DATA,
)

# Beancounters of one container: all of a host's would be thousands of rows.

_RESOURCE = "resource"


_ONE = Scope(f'{ONE_HOST}, ctid="$ctid"')
"""The one container that is chosen for this: its name is no regular expression."""


def _of_resource(name: str, metric: str, unit: str, description: str) -> Signal:
    return Signal(
        name=name,
        query=latest(metric, _RESOURCE, _ONE),
        unit=unit,
        description=description,
        absent=_NO_COUNTERS,
    )


def _beancounters(held: str, maxheld: str, barrier: str, limit: str, unit: str) -> list[Signal]:
    """Failures and values of the resources that have these metrics, in one unit."""
    held_now = _of_resource("Held", held, unit, "What the container holds now.")
    failed = growth("openvz_beancounter_failures_total", _RESOURCE, _ONE)
    return [
        Signal(
            name="Failed",
            query=f"{failed} and on ({_RESOURCE}) {held_now.expr}",
            unit=units.NoUnit,
            description="Requests for the resource that the kernel refused in the time shown.",
            absent=_NO_COUNTERS,
            decimals=0,
        ),
        held_now,
        _of_resource("Max", maxheld, unit, "What it has held at most."),
        _of_resource("Barrier", barrier, unit, "Above it only urgent requests are met."),
        _of_resource("Limit", limit, unit, "What it may hold at most."),
    ]


BYTES = _beancounters(
    "openvz_beancounter_held_bytes",
    "openvz_beancounter_maxheld_bytes",
    "openvz_beancounter_barrier_bytes",
    "openvz_beancounter_limit_bytes",
    units.BytesIEC,
)
NUMBERS = _beancounters(
    "openvz_beancounter_held",
    "openvz_beancounter_maxheld",
    "openvz_beancounter_barrier",
    "openvz_beancounter_limit",
    units.Short,
)

# Disk I/O


def _io(name: str, counter: str, unit: str, description: str, series: str = "") -> Signal:
    """`series`: what of the container the counter has, in the legend of a graph of several."""
    return Signal(
        name=name,
        query=rate(counter, _CTID, **_CHOSEN),
        unit=unit,
        description=description,
        legend=f"{{{{ctid}}}} {series}".rstrip(),
        absent=_NO_IOACCT,
    )


VFS_READS = _io(
    "Calls of read()",
    "openvz_container_io_vfs_reads_total",
    units.OpsPerSecond,
    "Calls of read() and the like.",
)
VFS_WRITES = _io(
    "Calls of write()",
    "openvz_container_io_vfs_writes_total",
    units.OpsPerSecond,
    "Calls of write() and the like.",
)
VFS_READ_BYTES = _io(
    "Bytes read",
    "openvz_container_io_vfs_read_bytes_total",
    units.BytesPerSecondSI,
    "Bytes that came through read() and the like, from disk, cache, pipes or elsewhere.",
)
VFS_WRITTEN_BYTES = _io(
    "Bytes written",
    "openvz_container_io_vfs_write_bytes_total",
    units.BytesPerSecondSI,
    "Bytes given to write() and the like.",
)

SYNCS = [
    _io(
        "Syncs",
        "openvz_container_io_fsyncs_total",
        units.OpsPerSecond,
        "Calls of fsync(), fdatasync(), sync() and sync_file_range(): each waits for the disk.",
        "fsync",
    ),
    _io(
        "fdatasync()", "openvz_container_io_fdatasyncs_total", units.OpsPerSecond, "Calls of fdatasync().", "fdatasync"
    ),
    _io("sync()", "openvz_container_io_syncs_total", units.OpsPerSecond, "Calls of sync().", "sync"),
    _io(
        "sync_file_range()",
        "openvz_container_io_range_syncs_total",
        units.OpsPerSecond,
        "Calls of sync_file_range().",
        "sync_file_range",
    ),
]


def _active(name: str, gauge: str, series: str) -> Signal:
    return Signal(
        name=name,
        query=latest(gauge, _CTID, **_CHOSEN),
        unit=units.NoUnit,
        description="Calls of fsync(), sync() and sync_file_range() that wait for the disk now.",
        legend=f"{{{{ctid}}}} {series}",
        absent=_NO_IOACCT,
    )


SYNCS_ACTIVE = [
    _active("Syncs under way", "openvz_container_io_fsyncs_active", "fsync"),
    _active("sync() under way", "openvz_container_io_syncs_active", "sync"),
    _active("sync_file_range() under way", "openvz_container_io_range_syncs_active", "sync_file_range"),
]

_DIRTIED = on_host("openvz_container_io_dirtied_bytes", **_CHOSEN)
WRITE_BACK = [
    Signal(
        name="Memory dirtied",
        # A gauge: newer kernels step back a little.
        query=f"clamp_min(avg by ({_CTID}) (deriv({_DIRTIED}[$__rate_interval])), 0)",
        unit=units.BytesPerSecondSI,
        description=(
            "Bytes changed in memory that are to be written (dirtied), that never had to be, as their file was cut or "
            "deleted (cancelled), and that the kernel could not ascribe to the container in time (missed)."
        ),
        legend="{{ctid}} dirtied",
        absent=_NO_IOACCT,
    ),
    _io(
        "Cancelled",
        "openvz_container_io_cancelled_bytes_total",
        units.BytesPerSecondSI,
        "Bytes that never had to be written.",
        "cancelled",
    ),
    _io(
        "Missed",
        "openvz_container_io_missed_bytes_total",
        units.BytesPerSecondSI,
        "Bytes not ascribed in time.",
        "missed",
    ),
]

_NO_FUSE = "This kernel does not count FUSE: Virtuozzo 7 does."
FUSE_REQUESTS = replace(
    _io(
        "FUSE requests",
        "openvz_container_io_fuse_requests_total",
        units.OpsPerSecond,
        "Requests to file systems outside of the kernel.",
    ),
    absent=_NO_FUSE,
)
FUSE_BYTES = replace(
    _io(
        "FUSE bytes",
        "openvz_container_io_fuse_bytes_total",
        units.BytesPerSecondSI,
        "Bytes to and from these file systems.",
    ),
    absent=_NO_FUSE,
)

UNKNOWN = Signal(
    name="Value",
    query=latest("openvz_container_io_unknown", "ctid, field", **_CHOSEN),
    unit=units.NoUnit,
    description="As the kernel prints it, in a unit that is not known.",
    absent="Every value of ioacct is known to vestat-exporter.",
)

# Waits

SCHEDULINGS = Signal(
    name="Schedulings",
    query=rate("openvz_container_schedulings_total", _CTID, **_CHOSEN),
    unit=_PER_SECOND,
    description="Times that one of the container's processes was given a CPU.",
    legend="{{ctid}}",
    absent=_NO_LATENCY,
)

_TYPE = "type"

HOST_WAIT = Signal(
    name="Time waited (host)",
    query=rate("openvz_host_latency_seconds_total", _TYPE),
    unit="suffix:s/s",
    description=(
        "Seconds per second that processes of the whole host waited for a CPU (scheduling), for memory (aloc*), and "
        "for pages from swap and disk (swap_in, page_in)."
    ),
    legend="{{type}}",
    absent=_NO_LATENCY,
)

HOST_WAITS = replace(
    HOST_WAIT,
    name="Waits (host)",
    query=rate("openvz_host_latency_calls_total", _TYPE),
    unit=_PER_SECOND,
    description="Waits per second of the whole host's processes, by what for.",
)

HOST_LONGEST = replace(
    HOST_WAIT,
    name="Longest wait (host)",
    query=latest("openvz_host_latency_max_seconds", _TYPE),
    unit=units.Seconds,
    description="Longest recent wait of a process of the whole host, by what for.",
)

# Disk quotas


def _quota(name: str, metric: str, unit: str, description: str) -> Signal:
    return Signal(
        name=name,
        query=latest(metric, _CTID, **_CHOSEN),
        unit=unit,
        description=description,
        absent=_NO_QUOTA,
    )


QUOTAS = [
    _quota("Used", "openvz_quota_used_bytes", units.BytesIEC, "Bytes of disk used."),
    _quota("Inodes", "openvz_quota_used_inodes", units.Short, "Inodes used."),
    _quota(
        "Soft limit", "openvz_quota_soft_limit_bytes", units.BytesIEC, "Bytes that may be used but for a grace period."
    ),
    _quota("Hard limit", "openvz_quota_hard_limit_bytes", units.BytesIEC, "Bytes that may be used at most."),
    _quota(
        "Soft (inodes)",
        "openvz_quota_soft_limit_inodes",
        units.Short,
        "Inodes that may be used but for a grace period.",
    ),
    _quota("Hard (inodes)", "openvz_quota_hard_limit_inodes", units.Short, "Inodes that may be used at most."),
    _quota("Enforced", "openvz_quota_on", units.BoolYesNo, "Whether the quota is counted and enforced."),
]

_LIMIT = "ctid, limit"
GRACE = [
    Signal(
        name="Grace period",
        query=latest("openvz_quota_grace_period_seconds", _LIMIT, **_CHOSEN),
        unit=units.Seconds,
        description="Time for which the container may exceed the soft limit.",
        absent=_NO_QUOTA,
    ),
    Signal(
        name="Ends in",
        query=f"{latest('openvz_quota_grace_end_timestamp_seconds', _LIMIT, **_CHOSEN)} - time()",
        unit=units.Seconds,
        description="Time until the container is held to the soft limit that it exceeds; below 0 it is.",
        absent=_NO_QUOTA,
        signed=True,
    ),
]

# What the kernel's files say of themselves


def _of_file(info: str, file: str, labels: str) -> str:
    return f'label_replace(group by ({labels}) ({on_host(info)}), "file", "{file}", "", "")'


FILES = Signal(
    name="Read",
    query=" or ".join(
        [
            _of_file("openvz_host_info", "/proc/vz/version", "version"),
            _of_file("openvz_vestat_info", "/proc/vz/vestat", "version"),
            _of_file("openvz_beancounters_info", "beancounters", "version"),
            _of_file("openvz_vestat_units_info", "time in vestat", "unit, hz, decided_by"),
        ]
    ),
    unit=units.BoolYesNo,
    description="Whether it is read now.",
    absent=_NO_DATA,
)
