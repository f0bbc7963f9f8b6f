"""Caches and events: which virtual servers miss the caches, and how much of that was measured."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, panels
from dashboards.layout import Row, page
from dashboards.signals import Signal, events, highest


def make() -> dashboard.Dashboard:
    """The dashboard of the processor's event counts of each virtual server of one host."""
    return page(
        uid="virtscope-caches-and-events",
        title="Caches and events",
        question="Which virtual servers miss the caches on this host?",
        answer=(
            "Cache and TLB misses per 1,000 instructions (MPKI) and instructions per cycle (IPC) of each, how much of "
            "that was measured, and why an event is missing."
        ),
        annotations=[marks.changes(), marks.alerts()],
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (
                            events.HOST_LLC_MISSES,
                            events.HOST_IPC,
                            events.MEASURED_LEAST,
                            events.NOT_COUNTED,
                        )
                    ),
                    panels.of_guests_and_host(events.LLC_MISSES).title("LLC MPKI").span(9).height(8),
                    panels.of_guests_and_host(events.IPC).title("IPC").span(9).height(8),
                    _measured("Measured share", events.CACHE_MEASURED),
                    _virtual_servers(),
                ],
            ),
            Row(
                "TLB",
                [
                    panels.of_guests_and_host(events.DTLB_MISSES).title("dTLB MPKI").span(9).height(8),
                    panels.of_guests_and_host(events.ITLB_MISSES).title("iTLB MPKI").span(9).height(8),
                    _measured("Measured (TLB)", events.TLB_MEASURED),
                ],
                collapsed=True,
            ),
            Row("Event support", [panels.number(events.COVERED).span(6).height(9), _supported()]),
            Row(
                "Groups of resctrl",
                [
                    panels.small(panels.lines(signal))
                    for signal in (
                        highest(events.GROUP_OCCUPANCY),
                        highest(events.GROUP_BANDWIDTH),
                        events.GROUP_REMOTE,
                    )
                ],
                collapsed=True,
            ),
            Row(
                "Memory traffic, power and clocks",
                [
                    panels.small(panels.lines(events.UNCORE_BYTES)),
                    panels.small(panels.lines(events.POWER)),
                    panels.small(panels.lines(events.CLOCKS)).with_target(
                        panels.query(highest(events.CGROUP_CLOCKS), 1).range()
                    ),
                ],
                collapsed=True,
            ),
        ],
    )


def _measured(title: str, share: Signal) -> timeseries.Panel:
    # The legends of the graphs beside it name the same.
    without = common.VizLegendOptions().show_legend(False)
    return panels.of_guests_and_host(share).title(title).max(1).legend(without).span(6).height(8)


def _virtual_servers() -> table.Panel:
    return (
        panels.columns(
            "Misses per 1,000 instructions",
            "Each virtual server, the one with most LLC misses first: LLC MPKI now and its median of a week, IPC, TLB "
            "MPKI, instructions, and the measured share of the time; the rest is estimated.",
            {"vserver": "Virtual server"},
            [
                events.LLC_MISSES,
                events.LLC_MISSES_MEDIAN,
                events.IPC,
                events.CACHE_MEASURED,
                events.DTLB_MISSES,
                events.ITLB_MISSES,
                events.TLB_MEASURED,
                events.INSTRUCTIONS,
            ],
        )
        .span(24)
        .height(8)
    )


def _supported() -> table.Panel:
    reason = "Reason and remedy"
    return (
        panels.columns(
            "Events",
            "Events that perf-exporter is configured to count, first those that it can't count and the reason. Without "
            "a guest: on the host itself. See docs/perf-events.md.",
            {"event": "Event", "group": "Group", "pmu": "PMU", "vserver": "Guest", "reason": reason},
            [events.SUPPORTED],
        )
        .override_by_name(reason, [*panels.as_wide(270), *panels.in_words(events.REASONS), *panels.wrapped()])
        .sort_by([common.TableSortByFieldState().display_name(events.SUPPORTED.name).desc(False)])
        .span(18)
        .height(9)
    )
