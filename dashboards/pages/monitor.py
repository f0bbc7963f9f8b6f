"""Monitoring: is it complete, and what does it cost?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard

from dashboards import panels
from dashboards.layout import Row, page
from dashboards.signals import exporters, highest, stack


def make() -> dashboard.Dashboard:
    """The dashboard of targets and sources, rules and storage."""
    return page(
        uid="virtscope-monitor",
        title="Monitoring",
        question="Can I trust what I see, and what does it cost?",
        answer=(
            "Targets that are down and sources that fail leave gaps; scrapes cost CPU on the monitored hosts, rules "
            "and storage on the one that Prometheus runs on."
        ),
        any_hosts=True,
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (
                            stack.TARGETS_DOWN,
                            stack.SOURCES_FAILING,
                            stack.RULE_FAILURES,
                            stack.SLOWEST_RULES,
                        )
                    ),
                    _targets(),
                    _sources(),
                ],
            ),
            Row(
                "Cost on the hosts",
                [
                    panels.lines(stack.CPU).span(12).height(10),
                    panels.lines(highest(stack.SCRAPE_SECONDS)).span(12).height(10),
                ],
            ),
            Row(
                "Rules and storage of Prometheus",
                [
                    panels.number(stack.SAMPLES).span(12).height(3),
                    panels.number(stack.MEMORY).span(12).height(3),
                    panels.lines(stack.RULES).span(12).height(8),
                    panels.over_time(stack.SERIES).span(6).height(8),
                    panels.over_time(stack.DISK).title("Storage").axis_soft_max(2**20).span(6).height(8),
                    _parts(),
                ],
            ),
            Row(
                "Exporters in detail",
                [
                    _left_out(),
                    _reads(),
                    panels.lines(exporters.CPU_RATE).span(12).height(8),
                    panels.lines(exporters.ENCODING).span(12).height(8),
                    panels.small(panels.lines(exporters.ITERATION_AGE)),
                    panels.small(panels.lines(exporters.COUNTERS)),
                    panels.small(panels.lines(exporters.DESCRIPTORS)),
                    panels.lines(exporters.WAITS_COVERED).span(12).height(8),
                    panels.lines(exporters.SWITCHES).span(12).height(8),
                    _versions(),
                    _over_ssh(),
                ],
                collapsed=True,
            ),
        ],
    )


def _targets() -> table.Panel:
    return (
        panels.columns(
            "Targets",
            "Every target of Prometheus, those first that are down, with the duration and the samples of its scrapes.",
            {"host": "Host", "job": "Job", "instance": "Address"},
            [stack.DOWN, stack.TARGET_SECONDS, stack.TARGET_SAMPLES],
        )
        .span(24)
        .height(9)
    )


def _sources() -> table.Panel:
    return (
        panels.columns(
            "Source failures",
            stack.SOURCE_ERRORS.description,
            {"host": "Host", "job": "Job", "source": "Source", "reason": "Reason"},
            [stack.SOURCE_ERRORS],
        )
        .span(24)
        .height(7)
    )


def _parts() -> table.Panel:
    return (
        panels.columns(
            "Parts of the stack",
            "What `make up` has started here. A part that ends or hangs is started again; docs/faults.md says how.",
            {"host": "Host", "part": "Part"},
            stack.PARTS,
        )
        .span(24)
        .height(8)
    )


def _left_out() -> table.Panel:
    metric = "Metric"
    return (
        panels.columns(
            "Left out by exporters",
            "Values that are in no series, as they were malformed, unknown or not readable, and problems that were "
            "counted in the time shown. docs/metrics.md explains each metric; the exporter's log has the text.",
            {"host": "Host", "job": "Job", "metric": metric, "what": "Of", "reason": "Reason"},
            [exporters.LEFT_OUT, exporters.PROBLEMS],
        )
        .override_by_name(metric, panels.as_wide(320))
        .span(24)
        .height(7)
    )


def _reads() -> table.Panel:
    return (
        panels.columns(
            "Reads of sources",
            "Each source of each exporter, the slowest first: where its values come from, and what reading it takes. "
            "Age: of sources that are read in the background.",
            {"host": "Host", "job": "Job", "source": "Source", "detail": "From"},
            [exporters.SECONDS, exporters.CPU, exporters.READS, exporters.AGE],
        )
        .override_by_name("From", [*panels.as_wide(230), *panels.wrapped()])
        .span(24)
        .height(9)
    )


def _versions() -> table.Panel:
    return (
        panels.columns(
            "Versions of exporters",
            exporters.VERSIONS.description,
            {"job": "Job", "version": "Version", "python": "Python"},
            [exporters.VERSIONS],
        )
        .span(24)
        .height(6)
    )


def _over_ssh() -> table.Panel:
    return (
        panels.columns(
            "Hosts over ssh",
            "Each host that ssh-exporter has been asked for; instance is that exporter. Requests to it, and what its "
            "connection costs here.",
            {"instance": "Exporter", "target": "Host"},
            exporters.OVER_SSH,
        )
        .span(24)
        .height(6)
    )
