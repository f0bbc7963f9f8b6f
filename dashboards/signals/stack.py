"""Monitoring as a whole: targets, failures, and what Prometheus' database and rules cost.

The metrics of Prometheus and of the exporters themselves, not the vocabulary: that is of what is monitored.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, Signal, highest, monitor, of_exporters, on_hosts

_NOT_ITSELF = "Prometheus does not scrape itself: add a job prometheus to prometheus.yml."
_NO_TARGETS = "There are no targets: see docs/watched-hosts.md."
_OWN = 'job="prometheus"'
_SOURCE_UP = of_exporters("source_up", ANY_HOSTS)
_SOURCE_ERRORS = of_exporters("source_errors_total", ANY_HOSTS)
_UNPARSED = on_hosts("app_log_lines_unparsed_total")

TARGETS_DOWN = Signal(
    name="Targets down",
    query=f"count({on_hosts('up')} == 0) or 0 * count({on_hosts('up')})",
    unit=units.NoUnit,
    description="Exporters, sensors and parts of the stack that don't answer. The table Targets names them.",
    absent=_NO_TARGETS,
    decimals=0,
    high=1,
)

SOURCES_FAILING = Signal(
    name="Sources failing",
    query=f"count({_SOURCE_UP} == 0) or 0 * count({on_hosts('up')})",
    unit=units.NoUnit,
    description=(
        "Sources that an exporter cannot read or parse: their values are missing. Some exporters fall back to another "
        "source; SourceFailing fires for those that can't."
    ),
    absent=_NO_TARGETS,
    decimals=0,
    high=1,
)

SAMPLES = Signal(
    name="Samples ingested",
    query=f"sum(rate(prometheus_tsdb_head_samples_appended_total{{{_OWN}}}[$__rate_interval]))",
    unit="suffix:/s",
    description="Samples per second that Prometheus stores, of exporters and of its own rules.",
    absent=_NOT_ITSELF,
    decimals=0,
)

SERIES = Signal(
    name="Active series",
    query=f"sum(prometheus_tsdb_head_series{{{_OWN}}})",
    unit=units.Short,
    description="Series in Prometheus' head block, those of the last hours. Its memory grows with them.",
    legend="series",
    absent=_NOT_ITSELF,
    decimals=1,
)

_DURATION = f"max by (rule_group) (prometheus_rule_group_last_duration_seconds{{{_OWN}}})"
_INTERVAL = f"max by (rule_group) (prometheus_rule_group_interval_seconds{{{_OWN}}})"

SLOWEST_RULES = Signal(
    name="Max rule duration",
    query=f"max({_DURATION} / {_INTERVAL})",
    unit=units.PercentUnit,
    description=(
        "Duration of the slowest rule group, divided by its evaluation interval. At 100 % evaluations are skipped, and "
        "alerts come late: monitor fewer hosts with this Prometheus, or raise evaluation_interval."
    ),
    absent=_NOT_ITSELF,
    decimals=2,
    high=0.5,
    critical=1,
)

_PART = "host, part"
_NO_PARTS = "Parts are watched where `make up` runs the stack."

PARTS = (
    Signal(
        name="Answers",
        query=f'min by ({_PART}) (stack_part_up{{job="stack"}})',
        unit=units.BoolYesNo,
        description="Whether this part of the stack answers.",
        absent=_NO_PARTS,
    ),
    Signal(
        name="Failures",
        query=f'sum by ({_PART}) (increase(stack_part_failures_total{{job="stack"}}[$__range]))',
        unit=units.NoUnit,
        description="Times in the time shown that it was started again, as it had ended, was stopped or hung.",
        absent=_NO_PARTS,
        decimals=0,
        high=1,
    ),
)

RULES = replace(
    SLOWEST_RULES,
    name="Rule duration / interval",
    # Prometheus calls a group PATH;GROUP.
    query=(
        "label_replace(label_replace("
        f"{_DURATION} / {_INTERVAL} and topk(8, max by (rule_group) (avg_over_time("
        f"prometheus_rule_group_last_duration_seconds{{{_OWN}}}[$__range] @ end()))), "
        '"group", "$1", "rule_group", ".*;(.*)"), "group", "$1: $2", "rule_group", ".*/(alerts)/.*;(.*)")'
    ),
    description="Duration of each rule group, divided by its evaluation interval; the eight slowest.",
    legend="{{group}}",
)

RULE_FAILURES = Signal(
    name="Rule failures",
    query=f"sum(increase(prometheus_rule_evaluation_failures_total{{{_OWN}}}[$__range]))",
    unit=units.NoUnit,
    description=(
        "Rule evaluations that failed in the time shown: a sample is missing for each. Prometheus' log and its page "
        "Status, Rules say why."
    ),
    absent=_NOT_ITSELF,
    decimals=0,
    high=1,
)

MEMORY = Signal(
    name="Prometheus memory",
    query=f"sum(process_resident_memory_bytes{{{_OWN}}})",
    unit=units.BytesIEC,
    description="Resident memory of Prometheus.",
    absent=_NOT_ITSELF,
    decimals=0,
)

DISK = Signal(
    name="on disk",
    query=f'sum({{__name__=~"prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes", {_OWN}}})',
    unit=units.BytesIEC,
    description=(
        "Size of Prometheus' blocks, and of its write-ahead log where it is known. It grows until the retention of 30 "
        "days is reached."
    ),
    legend="on disk",
    absent=_NOT_ITSELF,
    decimals=1,
)

CPU = highest(replace(monitor.CPU, query=on_hosts("monitor:cpu_usage:rate"), legend="{{host}}: {{job}}"))

SCRAPE_SECONDS = Signal(
    name="Scrape duration",
    query=f"max by (host, job) ({on_hosts('scrape_duration_seconds')})",
    unit=units.Seconds,
    description="Scrape duration of the slowest target of each job. The timeout is 4 s.",
    legend="{{host}}: {{job}}",
    absent=_NO_TARGETS,
    decimals=1,
)

DOWN = Signal(
    name="Down",
    query=f"1 - max by (host, job, instance) ({on_hosts('up')})",
    unit=units.BoolYesNo,
    description="Whether the last scrape failed.",
    absent=_NO_TARGETS,
    high=1,
)

TARGET_SECONDS = replace(
    SCRAPE_SECONDS,
    name="Duration",
    query=f"max by (host, job, instance) ({on_hosts('scrape_duration_seconds')})",
)

TARGET_SAMPLES = Signal(
    name="Samples",
    query=f"max by (host, job, instance) ({on_hosts('scrape_samples_scraped')})",
    unit=units.Short,
    description="Samples per scrape.",
    absent=_NO_TARGETS,
    decimals=0,
)

SOURCE_ERRORS = Signal(
    name="Failures",
    query=(
        f"sum by (host, job, source, reason) (increase({_SOURCE_ERRORS}[$__range])) > 0"
        " or sum by (host, job, source, reason) (label_replace(label_replace("
        f'increase({_UNPARSED}[$__range]), "source", "access log of $1", "app", "(.*)"), "reason", "unparsed", "", ""))'
        " > 0"
    ),
    unit=units.NoUnit,
    description=(
        "Scrapes in which a source failed, in the time shown, by reason; docs/runbooks/SourceFailing.md explains each. "
        "Of access logs, lines that don't parse: a few are malformed requests; if all are, docs/sensors.md doesn't "
        "have their format."
    ),
    absent="No source has failed in this time range.",
    decimals=0,
)
