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
    "Targets down",
    f"count({on_hosts('up')} == 0) or 0 * count({on_hosts('up')})",
    units.NoUnit,
    "Exporters, sensors and parts of the stack that don't answer. The table Targets names them.",
    _NO_TARGETS,
    decimals=0,
    high=1,
)

SOURCES_FAILING = Signal(
    "Sources failing",
    f"count({_SOURCE_UP} == 0) or 0 * count({on_hosts('up')})",
    units.NoUnit,
    "Sources that an exporter cannot read or parse: their values are missing. Some exporters fall back to another "
    "source; SourceFailing fires for those that can't.",
    _NO_TARGETS,
    decimals=0,
    high=1,
)

SAMPLES = Signal(
    "Samples ingested",
    f"sum(rate(prometheus_tsdb_head_samples_appended_total{{{_OWN}}}[$__rate_interval]))",
    "suffix:/s",
    "Samples per second that Prometheus stores, of exporters and of its own rules.",
    _NOT_ITSELF,
    decimals=0,
)

SERIES = Signal(
    "Active series",
    f"sum(prometheus_tsdb_head_series{{{_OWN}}})",
    units.Short,
    "Series in Prometheus' head block, those of the last hours. Its memory grows with them.",
    _NOT_ITSELF,
    legend="series",
    decimals=1,
)

_DURATION = f"max by (rule_group) (prometheus_rule_group_last_duration_seconds{{{_OWN}}})"
_INTERVAL = f"max by (rule_group) (prometheus_rule_group_interval_seconds{{{_OWN}}})"

SLOWEST_RULES = Signal(
    "Max rule duration",
    f"max({_DURATION} / {_INTERVAL})",
    units.PercentUnit,
    "Duration of the slowest rule group, divided by its evaluation interval. At 100 % evaluations are skipped, and "
    "alerts come late: monitor fewer hosts with this Prometheus, or raise evaluation_interval.",
    _NOT_ITSELF,
    decimals=2,
    high=0.5,
    critical=1,
)

_PART = "host, part"
_NO_PARTS = "Parts are watched where `make up` runs the stack."

PARTS = (
    Signal(
        "Answers",
        f'min by ({_PART}) (stack_part_up{{job="stack"}})',
        units.BoolYesNo,
        "Whether this part of the stack answers.",
        _NO_PARTS,
    ),
    Signal(
        "Failures",
        f'sum by ({_PART}) (increase(stack_part_failures_total{{job="stack"}}[$__range]))',
        units.NoUnit,
        "Times in the time shown that it was started again, as it had ended, was stopped or hung.",
        _NO_PARTS,
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
    "Rule failures",
    f"sum(increase(prometheus_rule_evaluation_failures_total{{{_OWN}}}[$__range]))",
    units.NoUnit,
    "Rule evaluations that failed in the time shown: a sample is missing for each. Prometheus' log and its page "
    "Status, Rules say why.",
    _NOT_ITSELF,
    decimals=0,
    high=1,
)

MEMORY = Signal(
    "Prometheus memory",
    f"sum(process_resident_memory_bytes{{{_OWN}}})",
    units.BytesIEC,
    "Resident memory of Prometheus.",
    _NOT_ITSELF,
    decimals=0,
)

DISK = Signal(
    "on disk",
    f'sum({{__name__=~"prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes", {_OWN}}})',
    units.BytesIEC,
    "Size of Prometheus' blocks, and of its write-ahead log where it is known. It grows until the retention of 30 "
    "days is reached.",
    _NOT_ITSELF,
    legend="on disk",
    decimals=1,
)

CPU = highest(replace(monitor.CPU, query=on_hosts("monitor:cpu_usage:rate"), legend="{{host}}: {{job}}"))

SCRAPE_SECONDS = Signal(
    "Scrape duration",
    f"max by (host, job) ({on_hosts('scrape_duration_seconds')})",
    units.Seconds,
    "Scrape duration of the slowest target of each job. The timeout is 4 s.",
    _NO_TARGETS,
    legend="{{host}}: {{job}}",
    decimals=1,
)

DOWN = Signal(
    "Down", f"1 - max by (host, job, instance) ({on_hosts('up')})", units.BoolYesNo, absent=_NO_TARGETS, high=1
)

TARGET_SECONDS = replace(
    SCRAPE_SECONDS, name="Duration", query=f"max by (host, job, instance) ({on_hosts('scrape_duration_seconds')})"
)

TARGET_SAMPLES = Signal(
    "Samples",
    f"max by (host, job, instance) ({on_hosts('scrape_samples_scraped')})",
    units.Short,
    absent=_NO_TARGETS,
    decimals=0,
)

SOURCE_ERRORS = Signal(
    "Failures",
    (
        f"sum by (host, job, source, reason) (increase({_SOURCE_ERRORS}[$__range])) > 0"
        " or sum by (host, job, source, reason) (label_replace(label_replace("
        f'increase({_UNPARSED}[$__range]), "source", "access log of $1", "app", "(.*)"), "reason", "unparsed", "", ""))'
        " > 0"
    ),
    units.NoUnit,
    "Scrapes in which a source failed, in the time shown, by reason; docs/runbooks/SourceFailing.md explains each. Of "
    "access logs, lines that don't parse: a few are malformed requests; if all are, docs/sensors.md doesn't have "
    "their format.",
    "No source has failed in this time range.",
    decimals=0,
)
