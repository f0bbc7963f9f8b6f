"""The exporters in detail: what each read of a source costs, what they left out, and their versions.

Metrics of the exporters about themselves; the same for each but for the name of the exporter before it.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, Signal, highest, of_exporters, on_hosts
from dashboards.signals.native import described

_NONE = "No exporter answers from these hosts: see the table Targets."


def _of_each(metric: str) -> str:
    return of_exporters(metric, ANY_HOSTS)


# Each source

_SOURCE = "host, job, source"


def _growth(metric: str) -> str:
    return f"sum by ({_SOURCE}) (increase({_of_each(metric)}[$__range]))"


_READS = _growth("source_reads_total")

SECONDS = Signal(
    "Seconds per read",
    (described(f"({_growth('source_seconds_total')} / ({_READS} > 0))", _SOURCE, _of_each("source_info"), "detail")),
    units.Seconds,
    absent=_NONE,
    decimals=1,
)

CPU = replace(SECONDS, name="CPU per read", query=f"{_growth('source_cpu_seconds_total')} / ({_READS} > 0)")

READS = replace(SECONDS, name="Reads", query=_READS, unit=units.Short, decimals=0)

AGE = replace(SECONDS, name="Age", query=f"max by ({_SOURCE}) ({_of_each('source_age_seconds')})")

CPU_RATE = highest(
    Signal(
        "CPU by source",
        f"sum by ({_SOURCE}) (rate({_of_each('source_cpu_seconds_total')}[$__rate_interval]))",
        units.PercentUnit,
        "CPU used by finished reads of each source; 100 % is one processor busy all the time.",
        _NONE,
        legend="{{host}}: {{source}}",
    )
)

ENCODING = highest(
    Signal(
        "CPU of encoding",
        f"sum by (host, job) (rate({_of_each('encode_seconds_total')}[$__rate_interval]))",
        units.PercentUnit,
        "CPU used by writing expositions; 100 % is one processor busy all the time.",
        _NONE,
        legend="{{host}}: {{job}}",
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
_ROW = "host, job, metric, what, reason"

LEFT_OUT = Signal(
    "Now",
    (
        f'sum by ({_ROW}) (label_replace(label_replace({{__name__=~"{_LEFT_OUT}", {ANY_HOSTS}}} > 0, '
        '"metric", "$1", "__name__", "(.+)"), "what", "$1", "device", "(.+)"))'
    ),
    units.NoUnit,
    absent="Nothing is left out now, and no such problem was counted in this time range.",
    decimals=0,
)


def _problems(counter: str, name: str, what: str) -> str:
    """Growth of a counter, with its name as `metric` and its label `what`, if it has one, called so."""
    named = f'label_replace(increase({counter}[$__range]) > 0, "metric", "{name}", "", "")'
    return f'sum by ({_ROW}) (label_replace({named}, "what", "$1", "{what}", "(.+)"))'


PROBLEMS = replace(
    LEFT_OUT,
    name="In the time shown",
    query=(
        " or ".join(
            [
                _problems(_of_each("encode_errors_total"), "encode_errors_total", ""),
                _problems(_of_each("source_background_errors_total"), "source_background_errors_total", "source"),
                _problems(on_hosts("xentop_toolstack_problems_total"), "xentop_toolstack_problems_total", "command"),
                _problems(on_hosts("xentop_child_starts_total"), "xentop_child_starts_total", ""),
                _problems(on_hosts("perf_groups_reopened_total"), "perf_groups_reopened_total", ""),
                _problems(on_hosts("sched_wait_lost_seconds_total"), "sched_wait_lost_seconds_total", ""),
            ]
        )
    ),
)

# Resources

ITERATION_AGE = highest(
    Signal(
        "Age of xentop's iteration",
        f"max by (host, job) ({on_hosts('xentop_iteration_age_seconds')})",
        units.Seconds,
        "Maximum age of the values of the source xentop, which prints them every second or two.",
        "No xentop-exporter uses the source xentop: libxenstat is preferred.",
        legend="{{host}}: {{job}}",
    )
)

COUNTERS = highest(
    Signal(
        "Open perf counters",
        f"sum by (host, job) ({on_hosts('perf_open_counters')})",
        units.Short,
        "Counters that perf-exporter has open; each takes a file descriptor.",
        "No perf-exporter answers from these hosts: docs/perf-exporter.md.",
        legend="{{host}}: {{job}}",
    )
)


def _sched(metric: str) -> str:
    return f"sum by (host, job) (rate({on_hosts(metric)}[$__rate_interval]))"


WAITS_COVERED = highest(
    Signal(
        "Charged waiting / kernel's",
        f"{_sched('sched_wait_charged_seconds_total')} / ({_sched('sched_wait_kernel_seconds_total')} > 0)",
        units.PercentUnit,
        "Waiting for CPUs that sched-exporter has charged to who ran meanwhile, divided by the kernel's own count of "
        "it. It should be 97 % or more, where there is any to speak of.",
        "No sched-exporter answers, or no kernel with SCHEDSTATS: docs/sched-exporter.md.",
        legend="{{host}}: {{job}}",
    )
)

SWITCHES = highest(
    Signal(
        "Context switches",
        _sched("sched_switches_total"),
        units.Short,
        "Context switches per second that sched-exporter has seen. Each costs some 50 to 70 ns: at 60,000 per second "
        "0.4 % of one CPU, which is not in the CPU of its process.",
        "No sched-exporter answers from these hosts: docs/sched-exporter.md.",
        legend="{{host}}: {{job}}",
    )
)

_FILES = "max by (host, job, instance) ({open} / {limit})"

DESCRIPTORS = highest(
    Signal(
        "File descriptors",
        _FILES.format(open=on_hosts("process_open_fds"), limit=on_hosts("process_max_fds")),
        units.PercentUnit,
        "File descriptors that each target's process has open, divided by its limit.",
        _NONE,
        legend="{{host}}: {{job}}",
    )
)

# Hosts over ssh

_TARGET = "instance, target"
_NO_SSH = "No host is watched over ssh: docs/agentless.md."


def _over_ssh(name: str, expr: str, unit: str, description: str) -> Signal:
    return Signal(name, expr, unit, description, _NO_SSH, decimals=1)


def _in_the_time_shown(counter: str) -> str:
    return f"sum by ({_TARGET}) (increase({on_hosts(counter)}[$__range]))"


def _rate_over_ssh(counter: str) -> str:
    return f"sum by ({_TARGET}) (rate({on_hosts(counter)}[$__range]))"


OVER_SSH = (
    _over_ssh(
        "Failures",
        _in_the_time_shown("ssh_failures_total"),
        units.Short,
        "Requests to the host that failed in the time shown; ssh-exporter's log says why.",
    ),
    _over_ssh(
        "Connections", _in_the_time_shown("ssh_connections_total"), units.Short, "Connections made in the time shown."
    ),
    _over_ssh("Connected", f"max by ({_TARGET}) ({on_hosts('ssh_connected')})", units.Short, "1 if it is connected."),
    _over_ssh(
        "Requests", _in_the_time_shown("ssh_requests_total"), units.Short, "Requests to the host in the time shown."
    ),
    _over_ssh("Received", _rate_over_ssh("ssh_received_bytes_total"), units.BytesPerSecondSI, "Bytes from the host."),
    _over_ssh(
        "CPU of ssh",
        _rate_over_ssh("ssh_client_cpu_seconds_total"),
        units.PercentUnit,
        "CPU used by the ssh client here; 100 % is one processor busy all the time.",
    ),
)

# Programs in Go have one too, without a Python.
_BUILD_INFO = of_exporters("build_info", f'{ANY_HOSTS}, python!=""')

VERSIONS = Signal(
    "Targets",
    f"count by (job, version, python) ({_BUILD_INFO})",
    units.NoUnit,
    "Exporters of each version, and of the Python that runs them.",
    _NONE,
    decimals=0,
)
