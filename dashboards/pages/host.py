"""Host: what does virtualisation itself cost on one machine?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, palette, panels
from dashboards.layout import Row, page
from dashboards.signals import highest, host, monitor, others, vserver


def make() -> dashboard.Dashboard:
    """The dashboard of one host, for every platform: what a platform can't give says so in its panel."""
    return page(
        uid="virtscope-host",
        title="Host",
        question="What does virtualisation itself cost on this host?",
        answer=(
            "CPU that went to the host itself (Dom0 on Xen) instead of its guests, as a share of all CPU used and in "
            "processors; who used the rest, who waits and who is capped; and what the monitor adds."
        ),
        annotations=[marks.reallocations(), marks.starts_and_ends()],
        rows=[
            Row(
                "Overhead",
                [
                    panels.number(host.OVERHEAD_RATIO).span(4).height(3),
                    panels.number(host.OVERHEAD_CPU).span(4).height(3),
                    panels.number(host.OVERHEAD_PER_REQUEST).span(4).height(3),
                    panels.number(host.OVERHEAD_PER_BYTE).span(4).height(3),
                    panels.number(host.CPU_USED_RATIO).span(4).height(3),
                    panels.number(monitor.SHARE).span(4).height(3),
                    panels.over_time(host.OVERHEAD_RATIO).title("Overhead over time").span(10).height(8),
                    _cpu_against_capacity(),
                ],
            ),
            Row("Alerts", [_alerts()]),
            Row(
                "Who waits, who is capped",
                [
                    panels.lines(highest(vserver.WAIT)).title("Waiting for a CPU").span(12).height(8),
                    panels.lines(highest(vserver.LIMIT_USED)).title("CPU used, of the cap").span(12).height(8),
                    _virtual_servers(),
                ],
            ),
            Row(
                "What serving costs",
                [
                    panels.over_time(host.OVERHEAD_PER_REQUEST)
                    .title("Overhead per request, over time")
                    .span(12)
                    .height(7),
                    panels.over_time(host.OVERHEAD_PER_BYTE).title("Overhead per GB, over time").span(12).height(7),
                ],
            ),
            Row("The monitor itself", [_monitor()]),
        ],
    )


def _cpu_against_capacity() -> timeseries.Panel:
    """The host's share at the bottom of the stack, so that its thickness is read from zero."""
    return (
        panels.stacked(vserver.HOST_CPU)
        .title("CPU used, against capacity")
        .description(
            "CPU used by the host itself (at the bottom) and by its guests on top of it: the ten that used most over "
            "the time shown, all others as one, and those that have ended within a minute. The dashed line is what the "
            "machine has."
        )
        .with_target(panels.query(highest(vserver.GUEST_CPU), 1).range())
        .with_target(panels.query(others(vserver.GUEST_CPU), 2).range())
        .with_target(panels.query(host.CPU_CAPACITY, 3).range())
        .with_target(panels.query(vserver.ENDED_CPU, 4).range())
        .override_by_query("A", panels.coloured(palette.HOST))
        .override_by_query("C", panels.coloured(palette.LIMIT))
        .override_by_query("D", panels.as_line(palette.LIMIT))
        .override_by_query("E", panels.coloured(palette.GREY))
        .span(14)
        .height(8)
    )


def _virtual_servers() -> table.Panel:
    return (
        panels.columns(
            "Guests, and the host itself",
            "Every virtual server alive on this host now, the busiest first. Role host is Dom0, or a bare machine.",
            {"vserver": "Virtual server", "role": "Role"},
            [
                vserver.CPU,
                vserver.CPU_SHARE,
                vserver.WAIT,
                vserver.LIMIT,
                vserver.HELD_BACK,
                vserver.WEIGHT,
                vserver.MEMORY,
            ],
        )
        .override_by_name(vserver.CPU_SHARE.name, panels.as_bar(palette.GUESTS))
        .span(24)
        .height(9)
    )


def _alerts() -> table.Panel:
    alerts = panels.columns(
        "Alerts of this host",
        host.ALERTS.description,
        {
            "alertname": "Alert",
            "severity": "Severity",
            "alertstate": "State",
            "vserver": "Virtual server",
            "app": "Application",
            "cause": "Cause",
        },
        [host.ALERTS],
    )
    return panels.severest_first(alerts).span(24).height(5)


def _monitor() -> timeseries.Panel:
    return panels.coloured_by_job(panels.stacked(monitor.CPU)).span(24).height(7)
