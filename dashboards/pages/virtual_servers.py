"""Virtual servers side by side: any set of guests, containers and machines, on common axes and against a baseline."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import panels, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, beside, highest, top_now

_LEGEND = 230  # pixels: a host's and a virtual server's name


def make() -> dashboard.Dashboard:
    """The dashboard that compares as the studies did: the baseline is 1."""
    return page(
        uid="virtscope-virtual-servers",
        title="Virtual servers",
        question="Who needs more than the other for the same work?",
        answer=(
            "Guests, containers and bare machines of any hosts, side by side: as they are (left) and as multiples of "
            "the chosen baseline, which is 1 (right)."
        ),
        any_hosts=True,
        own_variables=[variables.base_host(), variables.base_vserver()],
        rows=[
            Row("CPU", _pair(beside.CPU)),
            Row("Now", [_virtual_servers()]),
            Row("Caches", [*_pair(beside.LLC_MISSES), *_pair(beside.IPC)]),
            # Not against the baseline: a bare machine waits for nobody.
            Row(
                "Waiting",
                [_graph(highest(beside.WAIT)).span(24).height(8)],
            ),
            Row("Memory, network, disk", [*_pair(beside.MEMORY), *_pair(beside.NETWORK), *_pair(beside.DISK)]),
        ],
    )


def _pair(signal: Signal) -> list[timeseries.Panel]:
    return [
        _graph(highest(signal)).span(12).height(8),
        _graph(beside.relative(signal, of_highest=True)).span(12).height(8),
    ]


def _graph(signal: Signal) -> timeseries.Panel:
    """Thousands of virtual servers are looked through for each point in time: no more than can be seen."""
    return panels.lines(signal).legend(panels.legend_at_the_side(_LEGEND)).max_data_points(300)


def _virtual_servers() -> table.Panel:
    signals = [
        replace(top_now(signal, beside.CPU), name=name)
        for name, signal in {
            "CPU used": beside.CPU,
            "Baseline = 1": beside.relative(beside.CPU),
            "Waits": beside.WAIT,
            "Memory": beside.MEMORY,
            "Network": beside.NETWORK,
            "LLC misses": beside.LLC_MISSES,
            "IPC": beside.IPC,
        }.items()
    ]
    titles = {"vserver": "Virtual server", "host": "Host", "platform": "Platform", "role": "Role"}
    return (
        panels.columns(
            "Virtual servers",
            "The fifty busiest of those chosen. Role host is Dom0, what a host of containers uses itself, or a bare "
            "machine. A dash: this platform, or this host as it is watched, doesn't tell.",
            titles,
            signals,
        )
        .override_by_name(
            "Virtual server",
            panels.leads_to(
                "virtscope-host", "Open its host", {"host": "Host", "platform": "Platform", "vserver": "Virtual server"}
            ),
        )
        .span(24)
        .height(9)
    )
