"""Fleet: every host on one page, the one in most trouble first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard

from dashboards import palette, panels
from dashboards.layout import Row, page
from dashboards.signals import fleet, highest

_THE_HOST = {"host": "Host", "platform": "Platform"}
_ALERT = {
    "alertname": "Alert",
    "severity": "Severity",
    "host": "Host",
    "vserver": "Virtual server",
    "app": "Application",
    "cause": "Cause",
}
_THE_APPLICATION = {**_THE_HOST, "app": "Worst app"}


def make() -> dashboard.Dashboard:
    """The dashboard that Grafana opens with; a click leads down to what is behind a figure."""
    return page(
        uid="virtscope-fleet",
        title="Fleet",
        question="Which host needs me?",
        answer=(
            "Every host, the one in most trouble first: alerts that fire, the application worst off, what "
            "virtualisation takes, cache misses, and how many applications still fit. Click on a figure to see what is "
            "behind it."
        ),
        any_hosts=True,
        rows=[
            Row(
                "Now",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (fleet.HOSTS, fleet.SILENT, fleet.CRITICAL, fleet.WARNINGS)
                    ),
                    _hosts(),
                ],
            ),
            Row("Alerts", [_alerts()]),
            Row(
                "Over time",
                [
                    panels.lines(highest(fleet.OVERHEAD)).title("Overhead, of all CPU used").span(12).height(8),
                    panels.lines(highest(fleet.CPU_USED)).title("CPU used, of capacity").span(12).height(8),
                    panels.lines(highest(fleet.LLC_MISSES))
                    .title("LLC misses per 1,000 instructions")
                    .span(12)
                    .height(8),
                    panels.lines(highest(fleet.BURN)).span(12).height(8),
                ],
            ),
        ],
    )


def _hosts() -> table.Panel:
    panel = panels.columns(
        "Hosts, by trouble",
        "A row for each host and platform. Trouble: a point for each warning that fires, ten for a critical alert. "
        "Burn rate: how many times too fast the error budget of the worst application goes. LLC misses: of 1,000 "
        "instructions. A dash: not known; the page that the column leads to says why.",
        {"host": "Host", "platform": "Platform", "app": "Worst app"},
        [
            fleet.TROUBLE,
            fleet.FIRING,
            fleet.WORST_BURN,
            fleet.OVERHEAD,
            fleet.CPU_USED,
            fleet.LLC_MISSES,
            fleet.HEADROOM,
        ],
        whose={"app": fleet.WORST_BURN},
    )
    to_host = panels.leads_to("virtscope-host", "Open this host", _THE_HOST)
    to_application = panels.leads_to("virtscope-applications", "Open this application", _THE_APPLICATION)
    to_events = panels.leads_to("virtscope-caches-and-events", "Open its caches and events", _THE_HOST)
    to_consolidation = panels.leads_to("virtscope-consolidation", "Open its consolidation", _THE_HOST)
    return (
        panel.override_by_name("Host", to_host)
        .override_by_name("Worst app", to_application)
        .override_by_name(fleet.TROUBLE.name, panels.alarming(fleet.TROUBLE))
        .override_by_name(fleet.WORST_BURN.name, [*panels.alarming(fleet.WORST_BURN), *to_application])
        .override_by_name(fleet.OVERHEAD.name, [*panels.as_bar(palette.HOST), *to_host])
        .override_by_name(fleet.CPU_USED.name, [*panels.as_bar(palette.GUESTS), *to_host])
        .override_by_name(fleet.LLC_MISSES.name, to_events)
        .override_by_name(fleet.HEADROOM.name, [*panels.alarming_below(1), *to_consolidation])
        .span(24)
        .height(8)
    )


def _alerts() -> table.Panel:
    return (
        panels.severest_first(
            panels.columns("Alerts that fire", fleet.ALERTS.description, _ALERT, [fleet.ALERTS]),
        )
        .override_by_name("Host", panels.leads_to("virtscope-host", "Open this host", {"host": "Host"}))
        .span(24)
        .height(6)
    )
