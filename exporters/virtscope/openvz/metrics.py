"""An OpenVZ host's values as metric families: raw counters in seconds, no ratios, no judgement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable

from prometheus_client import Metric

from virtscope.openvz import latency
from virtscope.openvz.source.vz import Host
from virtscope.openvz.units import Units
from virtscope.openvz.veinfo import Veinfo
from virtscope.openvz.vestat import Row, Vestat
from virtscope.toolkit.families import Figure, Labels, family, gauge, info

# A difference that came out below zero is printed as if it had no sign; as such it would be of centuries.
_NEGATIVE = 1 << 63


JIFFIES: list[Figure[Row]] = [
    Figure(
        "openvz_container_uptime_seconds",
        "Time since the container was started, in seconds.",
        lambda row: row.uptime_jiffies,
    ),
]

CYCLES: list[Figure[Row]] = [
    Figure(
        "openvz_container_cpu_used_seconds_total",
        "CPU time the container has used, on the kernel's finest clock, in seconds.",
        lambda row: row.used,
    ),
    Figure(
        "openvz_container_cpu_idle_seconds_total",
        "Time the container's virtual CPUs had nothing to do, in seconds.",
        lambda row: row.idle,
    ),
]

LATENCY: list[Figure[Row]] = [
    Figure(
        "openvz_container_scheduling_latency_seconds_total",
        "Time the container's processes were ready to run and waited for a CPU, in seconds; absent where the kernel "
        "doesn't count it.",
        lambda row: row.totlat,
    ),
    Figure(
        "openvz_container_scheduling_latency_max_seconds",
        "Longest such wait of late, in seconds; absent where the kernel doesn't count it.",
        lambda row: row.maxlat,
    ),
]

SCHEDULINGS: Figure[Row] = Figure(
    "openvz_container_schedulings_total",
    "Times one of the container's processes was given a CPU; absent where the kernel doesn't count it.",
    lambda row: row.numsched,
)

MODES: list[tuple[str, Callable[[Row], int]]] = [
    ("user", lambda row: row.user),
    ("nice", lambda row: row.nice),
    ("system", lambda row: row.system),
]


def families(host: Host) -> list[Metric]:
    """Return everything that is known of the host's containers.

    openvz_host_info{version="042stab145.3"} 1
    openvz_host_containers 2
    openvz_vestat_info{version="2.2"} 1
    openvz_vestat_units_info{unit="nanoseconds",hz="1000",decided_by="/proc/vz/stats"} 1
    openvz_vestat_refused_rows 0
    openvz_vestat_unknown_columns 0
    openvz_vestat_unread_files 0
    openvz_container_cpu_seconds_total{ctid="101",mode="user"} 142.926
    openvz_container_cpu_used_seconds_total{ctid="101"} 152.017348211
    openvz_container_processes{ctid="101"} 35
    openvz_host_latency_seconds_total{type="scheduling"} 5123.7
    """
    exposition = [
        gauge("openvz_host_containers", "Running containers.", len(host.vestat.rows)),
        info("openvz_vestat", "Version of /proc/vz/vestat.", [{"version": host.vestat.version}]),
        gauge(
            "openvz_vestat_refused_rows",
            "Rows of /proc/vz/vestat that could not be understood at this read: containers that are missing here.",
            host.vestat.refused,
        ),
        gauge(
            "openvz_vestat_unknown_columns",
            "Columns of /proc/vz/vestat that this exporter doesn't know, and passes over.",
            host.vestat.unknown_columns,
        ),
        gauge(
            "openvz_vestat_unread_files",
            "Files beside /proc/vz/vestat (version, veinfo, latency) that are there and could not be read at this "
            "scrape: their figures are missing, and the log says why.",
            host.unread,
        ),
    ]
    if host.kernel is not None:
        exposition.insert(0, info("openvz_host", "Version of the OpenVZ kernel.", [{"version": host.kernel}]))
    if host.units:
        exposition += _times(host.vestat, host.units)
    if host.veinfo:
        exposition += _census(host.veinfo)
    if host.latency:
        exposition += latency.families(host.latency, host.units)
    return exposition


def _times(vestat: Vestat, units: Units) -> Iterator[Metric]:
    yield info(
        "openvz_vestat_units",
        "What /proc/vz/vestat counts in, the jiffies in a second, and the file that told.",
        [{"unit": units.unit, "hz": str(units.hz), "decided_by": units.decided_by}],
    )
    containers = [({"ctid": row.ctid}, row) for row in vestat.rows]
    yield family(
        "openvz_container_cpu_seconds_total",
        "CPU time the container has used by mode, to a jiffy, in seconds.",
        (({**labels, "mode": mode}, jiffies(row) / units.hz) for labels, row in containers for mode, jiffies in MODES),
    )
    yield from (_series(figure, containers, units.hz) for figure in JIFFIES)
    yield from (_series(figure, containers, units.per_second) for figure in CYCLES)
    # Every container has waited at least once within seconds: all zeros are a kernel that doesn't count.
    if any(row.maxlat or row.totlat or row.numsched for row in vestat.rows):
        yield from (_series(figure, containers, units.per_second) for figure in LATENCY)
        yield _series(SCHEDULINGS, containers, 1)


def _census(veinfo: Veinfo) -> Iterator[Metric]:
    containers = [({"ctid": container.ctid}, container) for container in veinfo.containers]
    yield family(
        "openvz_container_processes",
        "Processes of the container.",
        ((labels, container.processes) for labels, container in containers),
    )
    yield family(
        "openvz_container_addresses",
        "IP addresses of the container.",
        ((labels, container.addresses) for labels, container in containers),
    )
    yield gauge("openvz_veinfo_refused_rows", "Lines of /proc/vz/veinfo that could not be understood.", veinfo.refused)


def _series(figure: Figure[Row], containers: Sequence[tuple[Labels, Row]], divisor: int) -> Metric:
    value_of = figure.value
    values = [
        (labels, value / divisor)
        for labels, row in containers
        if (value := value_of(row)) is not None and value < _NEGATIVE
    ]
    return family(figure.name, figure.help, values)
