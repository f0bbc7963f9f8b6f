"""Caches and events: which virtual servers miss the caches, and what share of the time was measured."""

from grafana_foundation_sdk.builders import common, timeseries

from dashboards import marks, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, events, highest

_REASON = "Reason and remedy"


def _measured(title: str, share: Signal) -> timeseries.Panel:
    # The adjacent graphs' legends have the same names.
    without = common.VizLegendOptions().show_legend(False)
    return panels.of_guests_and_host(share).title(title).max(1).legend(without).span(6).height(8)


PAGE = page(
    uid="virtscope-caches-and-events",
    title="Caches and events",
    question="Which virtual servers miss the caches on this host?",
    answer=(
        "Cache and TLB misses per 1,000 instructions (MPKI) and instructions per cycle (IPC) of each, how much of "
        "that was measured, and why an event is missing."
    ),
    variables=variables.of_one_host(),
    annotations=[marks.changes(), marks.alerts()],
    rows=[
        Row(
            "",
            *panels.tiles(events.HOST_LLC_MISSES, events.HOST_IPC, events.MEASURED_LEAST, events.NOT_COUNTED),
            panels.of_guests_and_host(events.LLC_MISSES).span(9).height(8),
            panels.of_guests_and_host(events.IPC).span(9).height(8),
            _measured("Measured share", events.CACHE_MEASURED),
            tables.columns(
                "Misses per 1,000 instructions",
                "Each virtual server, the one with most LLC misses first: LLC MPKI now and its median of a "
                "week, IPC, TLB MPKI, instructions, and the measured share of the time; the rest is estimated.",
                {"vserver": "Virtual server"},
                [
                    *(events.LLC_MISSES, events.LLC_MISSES_MEDIAN, events.IPC, events.CACHE_MEASURED),
                    *(events.DTLB_MISSES, events.ITLB_MISSES, events.TLB_MEASURED, events.INSTRUCTIONS),
                ],
            ),
        ),
        Row(
            "TLB",
            panels.of_guests_and_host(events.DTLB_MISSES).span(9).height(8),
            panels.of_guests_and_host(events.ITLB_MISSES).span(9).height(8),
            _measured("Measured (TLB)", events.TLB_MEASURED),
            collapsed=True,
        ),
        Row(
            "Event support",
            panels.number(events.COVERED).span(6).height(9),
            tables.columns(
                "Events",
                "Events that perf-exporter is configured to count; unsupported events first, with the reason. "
                "Without a guest: on the host itself. See docs/perf-events.md.",
                {"event": "Event", "group": "Group", "pmu": "PMU", "vserver": "Guest", "reason": _REASON},
                [events.SUPPORTED],
                width=18,
                height=9,
            )
            .override_by_name(
                _REASON,
                [
                    *tables.as_wide(270, wrapped=True),
                    *panels.properties(mappings=[panels.in_words(events.REASONS.items(), {})]),
                ],
            )
            .sort_by([common.TableSortByFieldState().display_name(events.SUPPORTED.name).desc(False)]),
        ),
        Row(
            "Groups of resctrl",
            *(
                panels.small(panels.lines(signal))
                for signal in (highest(events.GROUP_OCCUPANCY), highest(events.GROUP_BANDWIDTH), events.GROUP_REMOTE)
            ),
            collapsed=True,
        ),
        Row(
            "Memory traffic, power and clocks",
            panels.small(panels.lines(events.UNCORE_BYTES)),
            panels.small(panels.lines(events.POWER)),
            panels.small(panels.lines(events.CLOCKS, highest(events.CGROUP_CLOCKS))),
            collapsed=True,
        ),
    ],
)
