"""Costs: what a byte and a request cost on each configuration, and which misses make it so, against a baseline."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, costs, highest, top_now

_OF_HOST = {"host": "Host", "platform": "Platform"}
_OF_VSERVER = {"vserver": "Virtual server", **_OF_HOST}
_FIFTY = "The fifty of those chosen with most"


def make() -> dashboard.Dashboard:
    """The tables of the network study, of live hosts."""
    return page(
        uid="virtscope-costs",
        title="Costs",
        question="What does a byte or a request cost here, compared with the baseline?",
        answer=(
            "Cost ratio = instruction ratio / traffic ratio, of hosts with all their guests and of virtual servers; "
            "miss rates are misses / instructions."
        ),
        any_hosts=True,
        own_variables=[
            variables.base_host(),
            variables.base_platform(),
            variables.base_vserver(),
            variables.earlier("base_time", "Baseline's time"),
        ],
        rows=[
            Row(
                "",
                [
                    _of_hosts(
                        "Hosts: a byte / baseline",
                        "Hosts with all their guests: the cost of a byte, divided by that of the baseline's host, and "
                        "as it is. A dash: not counted, or too little traffic.",
                        costs.HOST.of_bytes(),
                    ),
                    _of_hosts(
                        "Hosts: misses / baseline",
                        "Miss rates (misses / instructions) and misses per second of hosts with all their guests, "
                        "divided by those of the baseline's host.",
                        costs.HOST.of_misses(),
                    ),
                ],
            ),
            Row(
                "Virtual servers",
                [
                    _of_vservers(
                        "A byte / baseline",
                        f"{_FIFTY} traffic: the cost of a byte in each, divided by that of the baseline, and as it is. "
                        "What the host does for it is not in it.",
                        costs.VSERVER.of_bytes(),
                        costs.VSERVER.traffic,
                    ),
                    _of_vservers(
                        "Misses / baseline",
                        f"{_FIFTY} traffic: miss rates (misses / instructions) and misses per second, divided by those "
                        "of the baseline.",
                        costs.VSERVER.of_misses(),
                        costs.VSERVER.traffic,
                    ),
                ],
            ),
            Row(
                "Requests",
                [
                    _of_hosts(
                        "Hosts: a request / baseline",
                        "Hosts with all their guests: the cost of a request to the web tiers there, divided by that of "
                        "the baseline's host, and as it is.",
                        costs.HOST.of_requests(),
                    ),
                    _of_vservers(
                        "A request / baseline",
                        f"{_FIFTY} requests: the cost of a request to their applications in each, divided by that of "
                        "the baseline, and as it is. Tiers add up.",
                        costs.VSERVER.of_requests(),
                        costs.VSERVER.requests,
                    ),
                ],
            ),
            Row(
                "Over time",
                [
                    *(_graph(replace(signal, name=f"Hosts: {signal.name}")) for signal in costs.HOST.over_time),
                    *(_graph(highest(signal)) for signal in costs.VSERVER.over_time),
                ],
                collapsed=True,
            ),
        ],
    )


def _graph(signal: Signal) -> timeseries.Panel:
    return panels.lines(signal).max_data_points(300).span(8).height(9)


def _of_hosts(title: str, description: str, signals: list[Signal]) -> table.Panel:
    to_host = tables.to_page("virtscope-host", "Host", {"host": "Host"})
    columns = tables.columns(title, description, _OF_HOST, signals, height=7)
    return columns.override_by_name("Host", tables.links(to_host))


def _of_vservers(title: str, description: str, signals: list[Signal], by: Signal) -> table.Panel:
    its_host = {"host": "Host", "vserver": "Virtual server", "platform": "Platform"}
    columns = tables.columns(title, description, _OF_VSERVER, [top_now(signal, by) for signal in signals])
    return columns.override_by_name("Virtual server", tables.links(tables.to_page("virtscope-host", "Host", its_host)))
