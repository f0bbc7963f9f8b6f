"""The exporters in detail: costs of reading each source, dropped values, and versions.

Metrics of the exporters about themselves; they only differ in the exporter's name as prefix.
"""

from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import Scope, Signal, highest, of_exporters
from dashboards.signals.native import described

_HOSTS = Scope('host=~"$hosts"')
_signal = partial(Signal, absent="No exporter answers from these hosts: see the table Targets.")


def _of_each(metric: str) -> str:
    return of_exporters(metric, _HOSTS.hosts)


def _growth(counter: str, by: str) -> str:
    return f"sum by ({by}) (increase({counter}[$__range]))"


def _rate(counter: str, by: str) -> str:
    return f"sum by ({by}) (rate({counter}[$__rate_interval]))"


# Each source

_SOURCE = "host, job, source"
_READS = _growth(_of_each("source_reads_total"), _SOURCE)
READS = [
    _signal(
        "Seconds per read",
        f"{_growth(_of_each('source_seconds_total'), _SOURCE)} / ({_READS} > 0)",
        units.Seconds,
        decimals=1,
    ),
    _signal(
        "CPU per read",
        f"{_growth(_of_each('source_cpu_seconds_total'), _SOURCE)} / ({_READS} > 0)",
        units.Seconds,
        decimals=1,
    ),
    _signal("Reads", described(_READS, _SOURCE, _of_each("source_info"), "detail"), units.Short, decimals=0),
    _signal("Age", f"max by ({_SOURCE}) ({_of_each('source_age_seconds')})", units.Seconds, decimals=1),
]

_graph = partial(_signal, legend="{{host}}: {{job}}")
CPU_RATE = highest(
    _signal(
        "CPU by source",
        _rate(_of_each("source_cpu_seconds_total"), _SOURCE),
        units.PercentUnit,
        "CPU used by finished reads of each source; 100 % is one processor busy all the time.",
        legend="{{host}}: {{source}}",
    )
)
ENCODING = highest(
    _graph(
        "CPU of encoding",
        _rate(_of_each("encode_seconds_total"), "host, job"),
        units.PercentUnit,
        "CPU used by writing expositions; 100 % is one processor busy all the time.",
    )
)

# What is missing

_LEFT_OUT = "|".join(
    [
        "xentop_(missing_devices|iteration_unknown_lines)",
        "kvm_libvirt_refused_lines",
        "openvz_(vestat|veinfo|latency|quota|vzlist)_refused_rows",
        "openvz_beancounters_refused_containers",
        "openvz_ioacct_refused_files",
        "openvz_(vestat|beancounters|quota)_unknown_columns",
        "openvz_vestat_unread_files",
        "perf_cgroups_left_out",
        "resctrl_missing_values",
    ]
)
_NAMED = f'label_replace({{__name__=~"{_LEFT_OUT}", {_HOSTS.hosts}}} > 0, "metric", "$1", "__name__", "(.+)")'
LEFT_OUT = Signal(
    "Now",
    f'sum by (host, job, metric, what, reason) (label_replace({_NAMED}, "what", "$1", "device", "(.+)"))',
    units.NoUnit,
    absent="Nothing is left out now.",
)
PROBLEMS = [
    Signal(
        name,
        f"{_growth(counter, 'host, job')} > 0",
        units.NoUnit,
        absent="No such problem was counted in this time range.",
    )
    for name, counter in {
        "Encoding failed": _of_each("encode_errors_total"),
        "Background errors": _of_each("source_background_errors_total"),
        "xl problems": _HOSTS("xentop_toolstack_problems_total"),
        "xentop started": _HOSTS("xentop_child_starts_total"),
        "perf reopened": _HOSTS("perf_groups_reopened_total"),
        "Waiting lost (s)": _HOSTS("sched_wait_lost_seconds_total"),
    }.items()
]

# Resources

ITERATION_AGE = highest(
    _graph(
        "Age of xentop's iteration",
        f"max by (host, job) ({_HOSTS('xentop_iteration_age_seconds')})",
        units.Seconds,
        "Maximum age of the values of the source xentop, which prints them every second or two.",
        absent="No xentop-exporter uses the source xentop: libxenstat is preferred.",
    )
)
COUNTERS = highest(
    _graph(
        "Open perf counters",
        f"sum by (host, job) ({_HOSTS('perf_open_counters')})",
        units.Short,
        "Counters that perf-exporter has open; each takes a file descriptor.",
        absent="No perf-exporter answers from these hosts: docs/perf-exporter.md.",
    )
)
DESCRIPTORS = highest(
    _graph(
        "File descriptors",
        f"max by (host, job, instance) ({_HOSTS('process_open_fds')} / {_HOSTS('process_max_fds')})",
        units.PercentUnit,
        "File descriptors that each target's process has open, divided by its limit.",
    )
)
_CHARGED, _KERNELS = (
    _rate(_HOSTS(f"sched_wait_{count}_seconds_total"), "host, job") for count in ("charged", "kernel")
)
SCHED = [
    Signal(
        "Charged",
        f"{_CHARGED} / ({_KERNELS} > 0)",
        units.PercentUnit,
        absent="No sched-exporter answers, or no kernel with SCHEDSTATS: docs/sched-exporter.md.",
        decimals=1,
    ),
    Signal("Context switches", _rate(_HOSTS("sched_switches_total"), "host, job"), "suffix:/s", decimals=0),
]

# Hosts over ssh

_TARGET = "instance, target"
OVER_SSH = [
    Signal(name, query, unit, absent="No host is watched over ssh: docs/agentless.md.", decimals=1)
    for name, query, unit in (
        ("Failures", _growth(_HOSTS("ssh_failures_total"), _TARGET), units.Short),
        ("Connections", _growth(_HOSTS("ssh_connections_total"), _TARGET), units.Short),
        ("Connected", f"max by ({_TARGET}) ({_HOSTS('ssh_connected')})", units.Short),
        ("Requests", _growth(_HOSTS("ssh_requests_total"), _TARGET), units.Short),
        ("Received", _rate(_HOSTS("ssh_received_bytes_total"), _TARGET), units.BytesPerSecondSI),
        ("CPU of ssh", _rate(_HOSTS("ssh_client_cpu_seconds_total"), _TARGET), units.PercentUnit),
    )
]

# Go programs export one too, without a Python.
_BUILD_INFO = of_exporters("build_info", f'{_HOSTS.hosts}, python!=""')
VERSIONS = _signal("Targets", f"count by (job, version, python) ({_BUILD_INFO})", units.NoUnit)
