"""Panels about waiting on several pages: by what ran meanwhile, by reason, and the named neighbours."""

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import palette, panels, tables
from dashboards.signals import Signal, highest, neighbours, others, unfiltered


def by_who(signal: Signal, *own: Signal) -> timeseries.Panel:
    """CPU wait by what ran meanwhile: the highest over the time range, the others as one, and own threads."""
    return (
        panels.stacked(highest(signal), others(signal), *own)
        .color_scheme(panels.in_order())  # coloured by name, adjacent areas could look alike
        .max_data_points(200)  # for a thousand pairs, in under a second
        .override_by_name("(cap)", panels.coloured(palette.REASONS["cap"]))
        .override_by_name("host", panels.coloured(palette.REASONS["host"]))
        .override_by_name(neighbours.OWN_THREADS, panels.coloured(palette.REASONS["self"]))
        .override_by_query("B", panels.coloured(palette.PLAIN))
    )


def by_reason(signal: Signal) -> timeseries.Panel:
    """CPU wait by reason, each in the colour of the cause that it indicates."""
    panel = panels.stacked(signal).max_data_points(300)
    for reason, colour in palette.REASONS.items():
        panel.override_by_name(reason, panels.coloured(colour))
    return panel


def named(title: str, *, of_all: bool = False) -> table.Panel:
    """Neighbours that the chosen applications wait for, with advice, or all of the host; both link to their pages."""
    signals = [neighbours.GIVES_BACK, neighbours.SHARE, neighbours.NAMED_FOR, neighbours.SINCE]
    to_neighbour = tables.to_virtual_server("Virtual server", '__data.fields["Neighbour"]')
    to_application = tables.to_page("virtscope-applications", "Application", {"app": "Application"}, keep=["host"])
    return (
        tables.columns(
            title,
            "Whom each application waited for. Moving or capping the neighbour would have given back at most so much "
            "waiting, in CPUs or seconds of disk requests per second: a mean over the time shown; it counts as 0 while "
            "it isn't named. Share: of all waiting for neighbours. A name leads to the virtual server.",
            {"app": "Application", "resource": "For", "by": "Neighbour"},
            [unfiltered(signal) for signal in signals] if of_all else signals,
            height=6,
        )
        .override_by_name("Neighbour", tables.links(to_neighbour))
        .override_by_name("Application", tables.links(to_application))
        .override_by_name(neighbours.SINCE.name, tables.as_wide(150))
    )
