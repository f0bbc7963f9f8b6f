"""Consolidation: how many more applications fit on a host, and what does each cost the others?"""

from grafana_foundation_sdk.builders import timeseries

from dashboards import marks, palette, panels, variables
from dashboards.layout import Row, page
from dashboards.signals import application, consolidation, host, unfiltered

_TALL = 10  # four legend lines in a third of the page's width


def _cpu() -> timeseries.Panel:
    """The host's share is on top, so applications stack from zero."""
    return (
        panels.stacked(unfiltered(application.CPU), consolidation.OVERHEAD, consolidation.CAPACITY)
        .title("CPU usage by application")
        .description("CPU used by the applications, and the host's overhead on top; the dashed line is the capacity.")
        .override_by_query("B", panels.coloured(palette.HOST))
        .override_by_query("C", panels.as_line(palette.PLAIN))
    )


def _headroom() -> timeseries.Panel:
    """All limits in one graph: the lowest decides."""
    return (
        panels.lines(consolidation.BY_CPU, consolidation.BY_OBJECTIVE, consolidation.APPS)
        .title("Headroom over time")
        .description(
            "Headroom by free CPU and by objectives; memory and disks are below. At 0 by CPU, x times as much may be "
            "wanted as there is, and each has 1/x of it (Huber 2010). Dashed: the applications that run."
        )
        .override_by_query("A", panels.coloured(palette.BLUE))
        .override_by_query("B", panels.coloured(palette.MAGENTA))
        .override_by_query("C", panels.as_line(palette.PLAIN))
    )


PAGE = page(
    uid="virtscope-consolidation",
    title="Consolidation",
    question="How many more applications fit on this host?",
    answer=(
        "Headroom in busy hours, before the CPU is used up or the first objective is missed; and response, CPU and "
        "cache misses by the number of applications."
    ),
    variables=variables.of_one_host(),
    annotations=[marks.of_lab(), marks.alerts()],
    refresh="30s",
    rows=[
        Row(
            "",
            *panels.tiles(
                consolidation.BUSY_HOURS, consolidation.HEADROOM, consolidation.IN_A_WEEK, consolidation.APPS
            ),
            _headroom().span(12).height(9),
            panels.against(unfiltered(application.CEILING), unfiltered(application.MEAN))
            .title("Mean response and objective")
            .span(12)
            .height(9),
            panels.lines(consolidation.FITS).span(12).height(8),
            panels.lines(consolidation.TIME_LEFT).span(12).height(8),
        ),
        Row(
            "Over time",
            panels.small(_cpu()).height(_TALL),
            panels.small(panels.stacked(unfiltered(application.REQUESTS)).title("Throughput")).height(_TALL),
            panels.small(panels.lines(unfiltered(consolidation.USED_UP))).height(_TALL),
            panels.small(panels.lines(unfiltered(application.CPU_PER_REQUEST)).title("CPU per request")),
            panels.over_time(host.OVERHEAD_RATIO).span(8).height(8),
            panels.over_time(consolidation.MISSES).span(8).height(8),
        ),
        Row(
            "By number of applications (means over the time shown: choose days)",
            *(panels.small(panels.against_apps(signal)) for signal in consolidation.AGAINST_APPS),
        ),
    ],
)
