"""The monitor as a whole: what it asks, what fails, and what its own database and rules cost.

Prometheus' and the exporters' own words, not the vocabulary: that speaks of what is watched.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, highest, monitor, on_hosts

_NOT_ITSELF = (
    "Prometheus doesn't watch itself. `make up` has it do so; else add a job prometheus with its own address to "
    "prometheus.yml."
)
_NO_TARGETS = "Nothing is watched. Add a host by two lines in prometheus/targets/: see README.md, Watch another host."
_OWN = 'job="prometheus"'
_SOURCE_UP = '{__name__=~"(xentop|vestat|perf)_source_up", platform=~"$platform", host=~"$hosts"}'
_SOURCE_ERRORS = '{__name__=~"(xentop|vestat|perf)_source_errors_total", platform=~"$platform", host=~"$hosts"}'
_UNPARSED = on_hosts("app_log_lines_unparsed_total")

TARGETS_DOWN = Signal(
    name="Targets down",
    expr=f"count({on_hosts('up')} == 0) or 0 * count({on_hosts('up')})",
    unit=units.NoUnit,
    description="Exporters, sensors and parts of the stack that don't answer. The table below names them.",
    absent=_NO_TARGETS,
    decimals=0,
    high=1,
)

SOURCES_FAILING = Signal(
    name="Sources failing",
    expr=f"count({_SOURCE_UP} == 0) or 0 * count({on_hosts('up')})",
    unit=units.NoUnit,
    description=(
        "What exporters read from and get nothing of, or rubbish: their figures are missing. Some exporters fall back "
        "to another source; SourceFailing fires for those that can't."
    ),
    absent=_NO_TARGETS,
    decimals=0,
    high=1,
)

SAMPLES = Signal(
    name="Samples per second",
    expr=f"sum(rate(prometheus_tsdb_head_samples_appended_total{{{_OWN}}}[$__rate_interval]))",
    unit=units.Short,
    description="Figures that Prometheus stores each second, of exporters and of its own rules.",
    absent=_NOT_ITSELF,
    decimals=0,
)

SERIES = Signal(
    name="Series",
    expr=f"sum(prometheus_tsdb_head_series{{{_OWN}}})",
    unit=units.Short,
    description="Series that Prometheus holds in memory, of the last hours. Its memory grows with them.",
    absent=_NOT_ITSELF,
    decimals=1,
)

_DURATION = f"max by (rule_group) (prometheus_rule_group_last_duration_seconds{{{_OWN}}})"
_INTERVAL = f"max by (rule_group) (prometheus_rule_group_interval_seconds{{{_OWN}}})"

SLOWEST_RULES = Signal(
    name="Slowest rules",
    expr=f"max({_DURATION} / {_INTERVAL})",
    unit=units.PercentUnit,
    description=(
        "How much of the time between two evaluations the slowest group of rules takes. At 100 % evaluations are left "
        "out, and alerts come late: watch fewer hosts with this Prometheus, or lengthen evaluation_interval."
    ),
    absent=_NOT_ITSELF,
    decimals=2,
    high=0.5,
)

RULES = replace(
    SLOWEST_RULES,
    name="Rules, of interval",
    # Prometheus calls a group PATH;GROUP.
    expr=(
        "label_replace(label_replace("
        f"{_DURATION} / {_INTERVAL} and topk(8, max by (rule_group) (avg_over_time("
        f"prometheus_rule_group_last_duration_seconds{{{_OWN}}}[$__range] @ end()))), "
        '"group", "$1", "rule_group", ".*;(.*)"), "group", "$1: $2", "rule_group", ".*/(alerts)/.*;(.*)")'
    ),
    description="How much of the time between two evaluations a group of rules takes; the eight slowest.",
    legend="{{group}}",
)

RULE_FAILURES = Signal(
    name="Rules that failed",
    expr=f"sum(increase(prometheus_rule_evaluation_failures_total{{{_OWN}}}[$__range]))",
    unit=units.NoUnit,
    description=(
        "Evaluations that failed in the time that the dashboard shows: a record is missing for each. Prometheus' log "
        "and its page Status, Rules say why."
    ),
    absent=_NOT_ITSELF,
    decimals=0,
    high=1,
)

MEMORY = Signal(
    name="Prometheus' memory",
    expr=f"sum(process_resident_memory_bytes{{{_OWN}}})",
    unit=units.BytesIEC,
    description="RAM that Prometheus uses.",
    absent=_NOT_ITSELF,
    decimals=0,
)

DISK = Signal(
    name="on disk",
    expr=f'sum({{__name__=~"prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes", {_OWN}}})',
    unit=units.BytesIEC,
    description=(
        "What Prometheus has stored: blocks of two hours and longer, and where it tells so the log of what is not yet "
        "in one. It grows until the first 30 days are full."
    ),
    legend="on disk",
    absent=_NOT_ITSELF,
    decimals=1,
)

CPU = highest(replace(monitor.CPU, expr=on_hosts("monitor:cpu_usage:rate"), legend="{{host}}: {{job}}"))

SCRAPE_SECONDS = Signal(
    name="Time of a scrape",
    expr=f"max by (host, job) ({on_hosts('scrape_duration_seconds')})",
    unit=units.Seconds,
    description="How long the slowest target of each job took to answer. At 4 s Prometheus gives up.",
    legend="{{host}}: {{job}}",
    absent=_NO_TARGETS,
    decimals=1,
)

DOWN = Signal(
    name="Down",
    expr=f"1 - max by (host, job, instance) ({on_hosts('up')})",
    unit=units.BoolYesNo,
    description="Whether the target left the last scrape without an answer.",
    absent=_NO_TARGETS,
    high=1,
)

TARGET_SECONDS = replace(
    SCRAPE_SECONDS,
    name="Answers in",
    expr=f"max by (host, job, instance) ({on_hosts('scrape_duration_seconds')})",
)

TARGET_SAMPLES = Signal(
    name="Samples",
    expr=f"max by (host, job, instance) ({on_hosts('scrape_samples_scraped')})",
    unit=units.Short,
    description="Figures in its answer.",
    absent=_NO_TARGETS,
    decimals=0,
)

SOURCE_ERRORS = Signal(
    name="Failures",
    expr=(
        f"sum by (host, job, source, reason) (increase({_SOURCE_ERRORS}[$__range])) > 0"
        " or sum by (host, job, source, reason) (label_replace(label_replace("
        f'increase({_UNPARSED}[$__range]), "source", "access log of $1", "app", "(.*)"), "reason", "unparsed", "", ""))'
        " > 0"
    ),
    unit=units.NoUnit,
    description=(
        "Scrapes that a source failed, in the time that the dashboard shows, by reason: timeout, unavailable (what it "
        "reads isn't there), error, rubbish (what it says makes no sense). The exporter's log says more, as does "
        "docs/runbooks/SourceFailing.md. Of access logs, lines that don't parse, and so are in no response time: a few "
        "are garbage that visitors send; if all are, their format is none of docs/sensors.md."
    ),
    absent="No source of an exporter has failed in this time.",
    decimals=0,
)
