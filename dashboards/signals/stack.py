"""Monitoring as a whole: targets, failures, and costs of Prometheus's database and rules.

Metrics of Prometheus and of the exporters themselves, not the vocabulary, which describes monitored systems.
"""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, highest, host, of_exporters, on_hosts

_ANY_HOSTS = 'host=~"$hosts"'
_OWN = 'job="prometheus"'
_of_targets = partial(Signal, absent="There are no targets: see docs/watched-hosts.md.")
_of_prometheus = partial(Signal, absent="Prometheus does not scrape itself: add a job prometheus to prometheus.yml.")
_of_parts = partial(Signal, absent="Parts are watched where `make up` runs the stack.")
_UP = on_hosts("up")

TARGETS_DOWN = _of_targets(
    "Targets down",
    f"count({_UP} == 0) or 0 * count({_UP})",
    units.NoUnit,
    "Exporters, sensors and parts of the stack that don't answer. The table Targets names them.",
    high=1,
)
SOURCES_FAILING = _of_targets(
    "Sources failing",
    f"count({of_exporters('source_up', _ANY_HOSTS)} == 0) or 0 * count({_UP})",
    units.NoUnit,
    "Sources that an exporter cannot read or parse: their values are missing. Some exporters fall back to another "
    "source; SourceFailing fires for those that can't.",
    high=1,
)
SCRAPE_SECONDS = _of_targets(
    "Scrape duration",
    f"max by (host, job) ({on_hosts('scrape_duration_seconds')})",
    units.Seconds,
    "Scrape duration of the slowest target of each job. The timeout is 4 s.",
    legend="{{host}}: {{job}}",
)
_TARGET = "host, job, instance"
TARGETS = [
    _of_targets("Down", f"1 - max by ({_TARGET}) ({_UP})", units.BoolYesNo, high=1),
    _of_targets("Duration", f"max by ({_TARGET}) ({on_hosts('scrape_duration_seconds')})", units.Seconds, decimals=1),
    _of_targets("Samples", f"max by ({_TARGET}) ({on_hosts('scrape_samples_scraped')})", units.Short, decimals=0),
]

_SOURCE = "host, job, source, reason"
_FAILED = f"sum by ({_SOURCE}) (increase({of_exporters('source_errors_total', _ANY_HOSTS)}[$__range])) > 0"
_NAMED = (
    f"label_replace(label_replace(increase({on_hosts('app_log_lines_unparsed_total')}[$__range]), "
    '"source", "access log of $1", "app", "(.*)"), "reason", "unparsed", "", "")'
)
SOURCE_ERRORS = Signal(
    "Failures",
    f"{_FAILED} or sum by ({_SOURCE}) ({_NAMED}) > 0",
    units.NoUnit,
    absent="No source has failed in this time range.",
)

SAMPLES = _of_prometheus(
    "Samples ingested",
    f"sum(rate(prometheus_tsdb_head_samples_appended_total{{{_OWN}}}[$__rate_interval]))",
    "suffix:/s",
    "Samples per second that Prometheus stores, of exporters and of its own rules.",
    decimals=0,
)
SERIES = _of_prometheus(
    "Active series",
    f"sum(prometheus_tsdb_head_series{{{_OWN}}})",
    units.Short,
    "Series in Prometheus' head block, those of the last hours. Its memory grows with them.",
    legend="series",
)
_DURATION = f"max by (rule_group) (prometheus_rule_group_last_duration_seconds{{{_OWN}}})"
_INTERVAL = f"max by (rule_group) (prometheus_rule_group_interval_seconds{{{_OWN}}})"
SLOWEST_RULES = _of_prometheus(
    "Max rule duration",
    f"max({_DURATION} / {_INTERVAL})",
    units.PercentUnit,
    "Duration of the slowest rule group, divided by its evaluation interval. At 100 % evaluations are skipped, and "
    "alerts come late: monitor fewer hosts with this Prometheus, or raise evaluation_interval.",
    decimals=2,
    high=0.5,
    critical=1,
)
_SLOWEST = (
    f"max by (rule_group) (avg_over_time(prometheus_rule_group_last_duration_seconds{{{_OWN}}}[$__range] @ end()))"
)
# Prometheus names a group PATH;GROUP.
RULES = replace(
    SLOWEST_RULES,
    name="Rule duration / interval",
    query=(
        f"label_replace(label_replace({_DURATION} / {_INTERVAL} and topk(8, {_SLOWEST}), "
        '"group", "$1", "rule_group", ".*;(.*)"), "group", "$1: $2", "rule_group", ".*/(alerts)/.*;(.*)")'
    ),
    description="Duration of each rule group, divided by its evaluation interval; the eight slowest.",
    legend="{{group}}",
)
RULE_FAILURES = _of_prometheus(
    "Rule failures",
    f"sum(increase(prometheus_rule_evaluation_failures_total{{{_OWN}}}[$__range]))",
    units.NoUnit,
    "Rule evaluations that failed in the time shown: a sample is missing for each. Prometheus' log and its page "
    "Status, Rules say why.",
    high=1,
)
MEMORY = _of_prometheus(
    "Prometheus memory",
    f"sum(process_resident_memory_bytes{{{_OWN}}})",
    units.BytesIEC,
    "Resident memory of Prometheus.",
    decimals=0,
)
DISK = _of_prometheus(
    "on disk",
    f'sum({{__name__=~"prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes", {_OWN}}})',
    units.BytesIEC,
    "Size of Prometheus' blocks, and of its write-ahead log where it is known. It grows until the retention of 30 days "
    "is reached.",
    legend="on disk",
)

_PART = "host, part"
PARTS = [
    _of_parts("Answers", f'min by ({_PART}) (stack_part_up{{job="stack"}})', units.BoolYesNo),
    _of_parts(
        "Failures",
        f'sum by ({_PART}) (increase(stack_part_failures_total{{job="stack"}}[$__range]))',
        units.NoUnit,
        high=1,
    ),
]

CPU = highest(replace(host.MONITORING_CPU, query=on_hosts("monitor:cpu_usage:rate"), legend="{{host}}: {{job}}"))
