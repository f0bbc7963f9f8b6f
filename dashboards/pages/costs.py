"""Costs: CPU and events per byte and request on each configuration, and the misses behind them, against a baseline."""

from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, costs, highest

_OF_HOST = {"host": "Host", "platform": "Platform"}
_OF_VSERVER = {"vserver": "Virtual server", **_OF_HOST}
_COST = "Divided by the baseline's, and as it is: the cost of a"
_DASH = "A dash: not counted, or too little traffic."
_MISSES = "Miss rates (misses / instructions) and misses per second, divided by the baseline's."


def _graph(signal: Signal) -> timeseries.Panel:
    return panels.lines(signal).max_data_points(300).span(8).height(9)


def _of_hosts(title: str, description: str, signals: list[Signal]) -> table.Panel:
    to_host = tables.to_page("virtscope-host", "Host", {"host": "Host"})
    columns = tables.columns(title, f"Hosts with all their guests. {description}", _OF_HOST, signals, height=7)
    return columns.override_by_name("Host", tables.links(to_host))


def _of_vservers(title: str, description: str, signals: list[Signal], by: costs.Divisor = costs.BYTES) -> table.Panel:
    its_host = {"host": "Host", "vserver": "Virtual server", "platform": "Platform"}
    most = costs.VSERVER.amount(by).name.lower()
    fifty = f"The fifty of those chosen with most {most}. {description}"
    columns = tables.columns(title, fifty, _OF_VSERVER, signals)
    return columns.override_by_name("Virtual server", tables.links(tables.to_page("virtscope-host", "Host", its_host)))


PAGE = page(
    uid="virtscope-costs",
    title="Costs",
    question="What does a byte or a request cost here, compared with the baseline?",
    answer=(
        "Cost ratio = instruction ratio / traffic ratio, of hosts with all their guests and of virtual servers; "
        "miss rates are misses / instructions."
    ),
    variables=[
        *variables.of_any_hosts(),
        *variables.baseline("platform", "vserver"),
        variables.earlier("base_time", "Baseline's time"),
    ],
    rows=[
        Row(
            "",
            _of_hosts("Hosts: a byte / baseline", f"{_COST} byte. {_DASH}", costs.HOST.of_bytes()),
            _of_hosts("Hosts: misses / baseline", _MISSES, costs.HOST.of_misses()),
        ),
        Row(
            "Virtual servers",
            _of_vservers(
                "A byte / baseline",
                f"{_COST} byte; what the host does for it is not in it. {_DASH}",
                costs.VSERVER.of_bytes(),
            ),
            _of_vservers("Misses / baseline", _MISSES, costs.VSERVER.of_misses()),
        ),
        Row(
            "Requests",
            _of_hosts("Hosts: a request / baseline", f"{_COST} request to the web tiers.", costs.HOST.of_requests()),
            _of_vservers(
                "A request / baseline",
                f"{_COST} request to its application; tiers add up.",
                costs.VSERVER.of_requests(),
                costs.REQUESTS,
            ),
        ),
        Row(
            "Over time",
            *(_graph(replace(signal, name=f"Hosts: {signal.name}")) for signal in costs.HOST.over_time()),
            *(_graph(highest(signal, by=costs.VSERVER.amount())) for signal in costs.VSERVER.over_time()),
            collapsed=True,
        ),
    ],
)
