"""The monitor itself: is it all there, and what does it cost?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard

from dashboards import panels
from dashboards.layout import Row, page
from dashboards.signals import highest, stack

_GROUPS = 280  # pixels: "alerts: objectives of an-application, latency"


def make() -> dashboard.Dashboard:
    """The dashboard of what watches: targets and sources, rules and storage."""
    return page(
        uid="virtscope-monitor",
        title="The monitor itself",
        question="Can I trust what I see, and what does it cost?",
        answer=(
            "Targets that don't answer and sources that fail leave gaps; scrapes cost CPU on the hosts that are "
            "watched, rules and storage on the one that Prometheus runs on."
        ),
        any_hosts=True,
        rows=[
            Row(
                "Now",
                [
                    panels.number(signal).span(4).height(3)
                    for signal in (
                        stack.TARGETS_DOWN,
                        stack.SOURCES_FAILING,
                        stack.RULE_FAILURES,
                        stack.SLOWEST_RULES,
                        stack.SAMPLES,
                        stack.MEMORY,
                    )
                ],
            ),
            Row(
                "On the hosts",
                [
                    panels.coloured_by_job(panels.lines(stack.CPU)).span(12).height(7),
                    panels.coloured_by_job(panels.lines(highest(stack.SCRAPE_SECONDS))).span(12).height(7),
                    _targets(),
                    _sources(),
                ],
            ),
            Row(
                "Rules and storage",
                [
                    panels.lines(stack.RULES).legend(panels.legend_at_the_side(_GROUPS)).span(12).height(8),
                    panels.over_time(stack.SERIES).span(6).height(8),
                    panels.over_time(stack.DISK).title("Storage").axis_soft_max(2**20).span(6).height(8),
                ],
            ),
        ],
    )


def _targets() -> table.Panel:
    return (
        panels.columns(
            "Targets",
            "Everything that Prometheus asks, what does not answer first. Samples: figures in an answer.",
            {"host": "Host", "job": "Job", "instance": "Address"},
            [stack.DOWN, stack.TARGET_SECONDS, stack.TARGET_SAMPLES],
        )
        .override_by_name(stack.DOWN.name, panels.alarming(stack.DOWN))
        .span(14)
        .height(9)
    )


def _sources() -> table.Panel:
    return (
        panels.columns(
            "Sources that failed",
            stack.SOURCE_ERRORS.description,
            {"host": "Host", "job": "Job", "source": "Source", "reason": "Reason"},
            [stack.SOURCE_ERRORS],
        )
        .override_by_name("Job", panels.as_wide(70))
        .override_by_name("Source", panels.as_wide(90))
        .override_by_name("Reason", panels.as_wide(95))
        .span(10)
        .height(9)
    )
