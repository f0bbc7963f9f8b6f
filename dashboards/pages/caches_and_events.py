"""Caches and events: who loses the cache to whom, and how much of the figures was measured."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.builders import common, stat, table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import palette, panels
from dashboards.layout import Row, page
from dashboards.signals import Signal, events


def make() -> dashboard.Dashboard:
    """The dashboard of what the processor counts of each virtual server of one host."""
    return page(
        uid="virtscope-caches-and-events",
        title="Caches and events",
        question="Who loses the cache to whom on this host?",
        answer=(
            "Cache and TLB misses per 1,000 instructions of each virtual server, what came of its cycles, how much of "
            "that was measured, and why an event is missing. Which code they belong to is on the dashboard Profile."
        ),
        rows=[
            Row(
                "Caches",
                [
                    panels.number(events.HOST_LLC_MISSES).span(6).height(3),
                    panels.number(events.HOST_IPC).span(4).height(3),
                    panels.number(events.COVERED).span(4).height(3),
                    panels.number(events.MEASURED_LEAST).span(4).height(3),
                    _not_counted(),
                    _lines(events.LLC_MISSES).title("LLC misses per 1,000 instructions, over time").span(9).height(8),
                    _lines(events.IPC).title("Instructions per cycle, over time").span(9).height(8),
                    _measured("Of these, measured", events.CACHE_MEASURED),
                    _virtual_servers(),
                ],
            ),
            Row(
                "TLB",
                [
                    _lines(events.DTLB_MISSES).title("dTLB misses per 1,000 instructions, over time").span(9).height(8),
                    _lines(events.ITLB_MISSES).title("iTLB misses per 1,000 instructions, over time").span(9).height(8),
                    _measured("Of TLB misses, measured", events.TLB_MEASURED),
                ],
            ),
            Row("What is counted, what is not, and why", [_supported()]),
        ],
    )


def _lines(signal: Signal) -> timeseries.Panel:
    """A line for each virtual server, and in the host's own colour the host itself."""
    named = f'label_replace({signal.expr}, "is", " (host)", "role", "host")'
    return panels.lines(replace(signal, expr=named, legend="{{vserver}}{{is}}")).override_by_regexp(
        r"/ \(host\)$/", panels.coloured(palette.HOST)
    )


def _measured(title: str, share: Signal) -> timeseries.Panel:
    # The legend of the graphs beside it would take half of its place.
    without = common.VizLegendOptions().show_legend(False)
    return _lines(share).title(title).max(1).legend(without).span(6).height(8)


def _virtual_servers() -> table.Panel:
    return (
        panels.columns(
            "Misses per 1,000 instructions",
            "Of each virtual server, the worst first: misses of the last-level cache and what is usual for it, IPC, "
            "misses of the TLBs, how much it does, and how much of the time was measured; the rest is estimated.",
            {"vserver": "Virtual server"},
            [
                events.LLC_MISSES,
                events.LLC_MISSES_USUAL,
                events.IPC,
                events.CACHE_MEASURED,
                events.DTLB_MISSES,
                events.ITLB_MISSES,
                events.TLB_MEASURED,
                events.INSTRUCTIONS,
            ],
        )
        .override_by_name(events.TLB_MEASURED.name, panels.as_wide(128))
        .span(24)
        .height(8)
    )


def _not_counted() -> stat.Panel:
    panel = panels.named_number(events.NOT_COUNTED).span(6).height(3)
    for reason, words in events.REASONS.items():
        panel.override_by_name(reason, panels.called(words))
    return panel


def _supported() -> table.Panel:
    reason = "Why not, and what to do"
    return (
        panels.columns(
            "Events",
            events.SUPPORTED.description,
            {"event": "Event", "group": "Group", "pmu": "PMU", "vserver": "Guest", "reason": reason},
            [events.SUPPORTED],
        )
        .override_by_name(reason, [*panels.as_wide(500), *panels.in_words(events.REASONS)])
        .sort_by([common.TableSortByFieldState().display_name(events.SUPPORTED.name).desc(False)])
        .span(24)
        .height(9)
    )
