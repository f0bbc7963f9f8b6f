"""Consolidation: what does one more application on a host cost those that are there, and how many more fit?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, palette, panels
from dashboards.layout import Row, page
from dashboards.signals import application, consolidation, host


def make() -> dashboard.Dashboard:
    """The dashboard of one host's applications as a crowd, under real load or the lab's."""
    return page(
        uid="virtscope-consolidation",
        title="Consolidation",
        question="How many more applications fit on this host?",
        answer=(
            "Before the CPU is used up or the first objective breaks, and what became of response, throughput, CPU, "
            "overhead and misses with the number of applications and of their clients. What the lab does is marked."
        ),
        annotations=[marks.lab_crowds(), marks.lab_steps()],
        rows=[
            Row(
                "Headroom",
                [
                    panels.number(consolidation.APPS).span(4).height(3),
                    *(
                        panels.number(room).thresholds(panels.low_below(1)).span(4).height(3)
                        for room in (
                            consolidation.HEADROOM,
                            consolidation.BY_CPU,
                            consolidation.BY_OBJECTIVE,
                            consolidation.BUSY_HOURS,
                            consolidation.IN_A_WEEK,
                        )
                    ),
                    panels.lines(application.MEAN)
                    .title("Mean response, and what is promised")
                    .with_target(panels.query(application.CEILING, 1).range())
                    .override_by_query("B", panels.as_line(palette.LIMIT))
                    .span(12)
                    .height(8),
                    _cpu().span(12).height(8),
                ],
            ),
            Row(
                "Over time",
                [
                    panels.small(panels.stacked(application.REQUESTS).title("Throughput")),
                    panels.over_time(consolidation.MISSES).span(8).height(8),
                    panels.small(_headroom()),
                    panels.over_time(host.OVERHEAD_RATIO).title("Overhead, of all CPU used").span(8).height(8),
                    panels.small(panels.lines(application.CPU_PER_REQUEST).title("CPU per request")),
                    panels.small(panels.lines(consolidation.USED_UP)),
                ],
            ),
            Row(
                "Against the number of applications: means over the time shown, so choose days",
                [
                    panels.against(signal, "apps", "applications").span(8).height(7)
                    for signal in consolidation.AGAINST_APPS
                ],
            ),
            Row(
                "Against the clients of each application, in the lab: the last minute of each step",
                [
                    panels.against_by(signal, "clients", "clients of each application", "steps").span(8).height(8)
                    for signal in consolidation.AGAINST_CLIENTS
                ],
            ),
        ],
    )


def _cpu() -> timeseries.Panel:
    """The host's share on top: each application's own grows from below."""
    return (
        panels.stacked(application.CPU)
        .title("CPU used, by application")
        .description(consolidation.OVERHEAD.description)
        .with_target(panels.query(consolidation.OVERHEAD, 1).range())
        .with_target(panels.query(consolidation.CAPACITY, 2).range())
        .override_by_query("B", panels.coloured(palette.HOST))
        .override_by_query("C", panels.as_line(palette.LIMIT))
    )


def _headroom() -> timeseries.Panel:
    """All that speaks of it, in one graph: the lowest decides."""
    return (
        panels.lines(consolidation.BY_CPU)
        .title("Headroom over time")
        .description("How many more applications fit, by what is free of the CPU and of the objectives.")
        .with_target(panels.query(consolidation.BY_OBJECTIVE, 1).range())
        .with_target(panels.query(consolidation.APPS, 2).range())
        .override_by_query("A", panels.coloured(palette.BLUE))
        .override_by_query("B", panels.coloured(palette.ORANGE))
        .override_by_query("C", panels.as_line(palette.GREY))
    )
