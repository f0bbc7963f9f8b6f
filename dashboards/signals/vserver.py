"""A virtual server: a guest, a container, or the host's own share (Dom0, or a bare machine as a whole)."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host

_NO_DATA = "No virtual server known yet. After the start, wait a minute; then look at Prometheus, Status, Targets."

HOST_CPU = Signal(
    name="CPU used by the host itself",
    expr=on_host("vserver:cpu_usage:rate", role="host"),
    unit=CPUS,
    description="CPU used by the host's own share: Dom0 on Xen, the whole machine on bare Linux.",
    legend="{{vserver}} (host)",
    absent=_NO_DATA,
)

GUEST_CPU = Signal(
    name="CPU used by guests",
    expr=on_host("vserver:cpu_usage:rate", role="guest"),
    unit=CPUS,
    description="CPU used by each guest.",
    legend="{{vserver}}",
    absent=_NO_DATA,
)

CPU = Signal(
    name="CPU used",
    expr=on_host("vserver:cpu_usage:rate"),
    unit=CPUS,
    description="CPU used by a virtual server. 1 CPU is one processor busy all the time.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=2,
)

CPU_SHARE = Signal(
    name="Of capacity",
    expr=f"{on_host('vserver:cpu_usage:rate')} / on (host, platform) group_left () {on_host('host:cpu_capacity:cpus')}",
    unit=units.PercentUnit,
    description="CPU used by a virtual server, of what the machine has.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=1,
)

MEMORY = Signal(
    name="Memory",
    expr=on_host("vserver:memory:bytes"),
    unit=units.BytesIEC,
    description="Memory that a virtual server holds.",
    legend="{{vserver}}",
    absent=_NO_DATA,
)
