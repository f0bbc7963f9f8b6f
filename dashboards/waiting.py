"""Panels about waiting for a CPU, as more than one page shows it: by who ran meanwhile, by reason, and who is named."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import palette, panels, tables
from dashboards.signals import Signal, highest, neighbours, others, unfiltered


def by_who(signal: Signal, *own: Signal) -> timeseries.Panel:
    """Waiting by who ran meanwhile, those highest over the time shown and all others as one; and for own threads."""
    return (
        panels.stacked(highest(signal), others(signal), *own)
        .color_scheme(panels.in_order())  # areas that touch: by their names, two that are alike may be side by side
        .max_data_points(200)  # of a thousand pairs, in under a second
        .override_by_name("(cap)", panels.coloured(palette.REASONS["cap"]))
        .override_by_name("host", panels.coloured(palette.REASONS["host"]))
        .override_by_name(neighbours.OWN_THREADS, panels.coloured(palette.REASONS["self"]))
        .override_by_query("B", panels.coloured(palette.PLAIN))
    )


def by_reason(signal: Signal) -> timeseries.Panel:
    """Waiting by reason, each in the colour of the cause that it is evidence for."""
    panel = panels.stacked(signal).max_data_points(300)
    for reason, colour in palette.REASONS.items():
        panel.override_by_name(reason, panels.coloured(colour))
    return panel


def named(title: str, *, of_all: bool = False) -> table.Panel:
    """Whom the chosen applications wait for, with the advice that follows, or all of the host."""
    signals = [neighbours.GIVES_BACK, neighbours.SHARE, neighbours.SINCE]
    return pairs(
        title,
        "Whom each application waits for. Moving or capping the neighbour would give back at most so many CPUs of "
        "waiting. Share: of all its waiting for neighbours. A name leads to the virtual server.",
        [unfiltered(signal) for signal in signals] if of_all else signals,
    ).override_by_name(neighbours.SINCE.name, tables.as_wide(150))


def pairs(title: str, description: str, signals: Sequence[Signal]) -> table.Panel:
    """A table with a row for each application and neighbour of the host that is shown; both lead to their pages."""
    to_neighbour = tables.to_virtual_server("Virtual server", '__data.fields["Neighbour"]')
    to_application = tables.to_page("virtscope-applications", "Application", {"app": "Application"}, keep=["host"])
    return (
        tables.columns(title, description, {"app": "Application", "by": "Neighbour"}, signals, height=6)
        .override_by_name("Neighbour", tables.links(to_neighbour))
        .override_by_name("Application", tables.links(to_application))
    )
