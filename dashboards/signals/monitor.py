"""What monitoring costs: the studies found that sensors were part of what they measured."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_host

# By host alone: of a host of containers, some exporters have the platform of the bare machine.
_USAGE = 'monitor:cpu_usage:rate{host="$host"}'

_NO_DATA = "No exporter reports its CPU usage from this host: see Prometheus, Status, Targets."

CPU = Signal(
    "Monitoring CPU by job",
    _USAGE,
    units.PercentUnit,
    "CPU used by exporters and the rest of the stack on this host, one band per scrape job; 100 % is one processor "
    "busy all the time. It is part of the overhead shown above.",
    _NO_DATA,
    legend="{{job}}",
)

SHARE = Signal(
    "Monitoring overhead",
    f"sum by (host) ({_USAGE}) / on (host) {on_host('host:cpu_capacity:cpus')}",
    units.PercentUnit,
    "CPU used by exporters and the rest of the stack on this host, divided by the machine's capacity.",
    _NO_DATA,
    decimals=2,
    high=0.02,
)
