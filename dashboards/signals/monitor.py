"""What watching costs: the studies found that sensors were part of what they measured."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_host

# By host alone: of a host of containers, some exporters are told of the bare machine.
_USAGE = 'monitor:cpu_usage:rate{host="$host"}'

_NO_DATA = "No process of the monitor reports from this host. Prometheus, Status, Targets tells why."

CPU = Signal(
    name="The monitor's own CPU, by job",
    expr=_USAGE,
    unit=units.PercentUnit,
    description=(
        "CPU that the monitor's own processes use on this host, one band per scrape job; 100 % is one processor busy "
        "all the time. It is part of the overhead shown above."
    ),
    legend="{{job}}",
    absent=_NO_DATA,
)

SHARE = Signal(
    name="Monitor, of capacity",
    expr=f"sum by (host) ({_USAGE}) / on (host) {on_host('host:cpu_capacity:cpus')}",
    unit=units.PercentUnit,
    description="CPU used by all of the monitor's processes on this host, of what the machine has.",
    absent=_NO_DATA,
    decimals=2,
    high=0.02,
)
