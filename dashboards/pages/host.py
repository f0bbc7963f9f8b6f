"""Host: what does virtualisation itself cost on one machine?"""

from grafana_foundation_sdk.builders import timeseries

from dashboards import marks, palette, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, highest, host, others, unfiltered, vserver

_VSERVER = {"vserver": "Virtual server"}


def _graph(signal: Signal) -> timeseries.Panel:
    return panels.of_guests_and_host(highest(unfiltered(signal)))


def _cpu_and_capacity() -> timeseries.Panel:
    """The host's share is at the bottom, so it can be read from zero."""
    return (
        panels.stacked(vserver.HOST_CPU, highest(vserver.GUEST_CPU), others(vserver.GUEST_CPU), host.CPU_CAPACITY)
        .title("CPU usage and capacity")
        .description(
            "CPU used by the host itself (bottom) and by its guests: the top 10 in the selected time range and the "
            "others as one. Dashed line: the machine's capacity."
        )
        .override_by_query("A", panels.coloured(palette.HOST))
        .override_by_query("C", panels.coloured(palette.PLAIN))
        .override_by_query("D", panels.as_line(palette.PLAIN))
        .span(14)
        .height(9)
    )


PAGE = page(
    uid="virtscope-host",
    title="Host",
    question="What does virtualisation itself cost on this host?",
    answer=(
        "CPU used by the host itself (Dom0 on Xen), as a share of all CPU used and in CPUs; which virtual servers "
        "use the rest, wait or are capped; and what monitoring adds."
    ),
    variables=[*variables.of_one_host(), variables.prometheus()],
    annotations=[marks.changes(), marks.alerts()],
    rows=[
        Row(
            "",
            *panels.tiles(host.OVERHEAD_RATIO, host.OVERHEAD_CPU, host.CPU_USED_RATIO, host.MONITORING_SHARE),
            panels.over_time(host.OVERHEAD_RATIO).title("Overhead ratio over time").span(10).height(9),
            _cpu_and_capacity(),
        ),
        Row(
            "Alerts",
            tables.alerts(
                "Alerts",
                host.ALERTS,
                {
                    "alertstate": "State",
                    "host": "Host",
                    "vserver": "Virtual server",
                    "app": "Application",
                    "cause": "Cause",
                },
            ).span(24),
        ),
        Row(
            "CPU contention",
            _graph(vserver.WAIT).title("CPU wait").span(8).height(8),
            _graph(vserver.WAITED_SHARE)
            .with_target(panels.query(host.WAITED_SHARE_EXPECTED, 1).range())
            .override_by_query("B", panels.as_line(palette.PLAIN))
            .span(8)
            .height(8),
            panels.lines(highest(unfiltered(vserver.LIMIT_USED))).span(8).height(8),
            tables.columns(
                "Virtual servers",
                "Every virtual server alive on this host, the busiest first. Role host: Dom0, or a bare machine.",
                {"vserver": "Virtual server", "role": "Role"},
                [unfiltered(signal) for signal in vserver.OF_EACH],
                height=10,
            )
            .override_by_name(
                "Virtual server",
                tables.links(
                    tables.to_page("virtscope-neighbours", "Who waits for whom", _VSERVER, keep=["host"]),
                    *tables.to_own_words(_VSERVER, keep=["host"]),
                ),
            )
            .override_by_name(vserver.CPU_SHARE.name, tables.as_bar(palette.GUESTS, 130)),
        ),
        Row(
            "Overhead per unit of work",
            *(
                panels.over_time(signal).span(8).height(7)
                for signal in (host.OVERHEAD_PER_REQUEST, host.OVERHEAD_PER_BYTE, host.REALLOCATIONS)
            ),
        ),
        Row("Monitoring", panels.stacked(host.MONITORING_CPU).span(24).height(7), collapsed=True),
    ],
)
