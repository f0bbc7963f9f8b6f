"""Fleet: every host on one page, sorted by need for attention."""

from dataclasses import replace

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, palette, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import fleet, of_highest

_THE_HOST = {"host": "Host", "platform": "Platform"}


# Each graph finds its hosts with its own variable.
_OVER_TIME = {
    "most_overhead": replace(fleet.OVERHEAD, name="Overhead ratio"),
    "most_used": replace(fleet.CPU_USED, name="CPU utilisation"),
    "most_misses": replace(fleet.LLC_MISSES, name="LLC misses per 1,000 instructions"),
    "most_burn": fleet.BURN,
}


def _hosts() -> table.Panel:
    panel = tables.columns(
        "Hosts by severity",
        f"The {fleet.ROWS} hosts with the severest alerts. Burn rate: the highest of the host's applications. "
        "Headroom: applications that still fit in busy hours. LLC MPKI: last-level cache misses per 1,000 "
        "instructions.",
        {"host": "Host", "platform": "Platform", "app": "Worst app"},
        [
            fleet.SEVERITY,
            fleet.FIRING,
            *map(fleet.of_shown, (fleet.WORST_BURN, fleet.HEADROOM, fleet.OVERHEAD, fleet.CPU_USED, fleet.LLC_MISSES)),
        ],
    )
    to_host = tables.links(tables.to_page("virtscope-host", "Host", _THE_HOST))
    to_application = tables.links(
        tables.to_page("virtscope-applications", "Application", {**_THE_HOST, "app": "Worst app"})
    )
    to_events = tables.links(tables.to_page("virtscope-caches-and-events", "Caches and events", _THE_HOST))
    to_consolidation = tables.links(tables.to_page("virtscope-consolidation", "Consolidation", _THE_HOST))
    return (
        panel.override_by_name("Host", to_host)
        .override_by_name("Worst app", to_application)
        .override_by_name(
            fleet.SEVERITY.name, panels.properties(custom_cellOptions=tables.GROUND, mappings=panels.severity_words())
        )
        .override_by_name(fleet.WORST_BURN.name, to_application)
        .override_by_name(fleet.OVERHEAD.name, [*tables.as_bar(palette.HOST), *to_host])
        .override_by_name(fleet.CPU_USED.name, [*tables.as_bar(palette.GUESTS), *to_host])
        .override_by_name(fleet.LLC_MISSES.name, to_events)
        .override_by_name(fleet.HEADROOM.name, to_consolidation)
        .grid_pos(dashboard.GridPos(x=0, y=8, w=24, h=7))
    )


PAGE = page(
    uid="virtscope-fleet",
    title="Fleet",
    question="Which host needs me, and why?",
    answer=(
        "All hosts, the one with the severest alerts first: the worst application, headroom, the overhead of "
        "virtualisation, cache misses. Click a value to see what is behind it."
    ),
    variables=[
        *variables.of_any_hosts(below_hosts=False),
        variables.prometheus(),
        *(variables.highest(name, signal) for name, signal in _OVER_TIME.items()),
    ],
    annotations=[marks.alerts(any_hosts=True)],
    rows=[
        Row(
            "",
            panels.board(fleet.WORST).grid_pos(dashboard.GridPos(x=0, y=2, w=16, h=6)),
            *(
                panels.number(signal).grid_pos(dashboard.GridPos(x=x, y=y, w=4, h=3))
                for signal, x, y in (
                    (fleet.HOSTS, 16, 2),
                    (fleet.SILENT, 20, 2),
                    (fleet.CRITICAL, 16, 5),
                    (fleet.WARNINGS, 20, 5),
                )
            ),
            _hosts(),
            tables.alerts(
                "Firing alerts",
                fleet.ALERTS,
                {"host": "Host", "vserver": "Virtual server", "app": "Application", "cause": "Cause"},
            ).span(24),
        ),
        Row(
            "By platform",
            tables.columns(
                "Hosts by platform and shard",
                "How many hosts of each platform have a critical alert, a warning at most, or don't answer. In "
                "a fleet of several Prometheus (docs/scale.md): of each shard.",
                {"platform": "Platform", "shard": "Shard"},
                fleet.BY_PLATFORM,
                height=7,
            ),
        ),
        Row(
            "Over time",
            *(panels.lines(of_highest(signal, name)).span(12).height(8) for name, signal in _OVER_TIME.items()),
        ),
    ],
)
