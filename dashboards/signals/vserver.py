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

ENDED_CPU = Signal(
    name="CPU used by guests that have ended",
    expr=f"sum by (host, platform) ({on_host('vserver:ended_cpu_usage:rate')})",
    unit=CPUS,
    description="CPU used within the last minute by guests that have ended since.",
    legend="ended",
    absent=_NO_DATA,
)

CPU = Signal(
    name="CPU used",
    expr=on_host("vserver:cpu_usage:rate", vserver="$vserver"),
    unit=CPUS,
    description="CPU used by a virtual server. 1 CPU is one processor busy all the time.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=2,
)

CPU_SHARE = Signal(
    name="Of capacity",
    expr=f"{on_host('vserver:cpu_usage:rate', vserver='$vserver')}"
    f" / on (host, platform) group_left () {on_host('host:cpu_capacity:cpus')}",
    unit=units.PercentUnit,
    description="CPU used by a virtual server, of what the machine has.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=1,
)

MEMORY = Signal(
    name="Memory",
    expr=on_host("vserver:memory:bytes", vserver="$vserver"),
    unit=units.BytesIEC,
    description="Memory that a virtual server holds.",
    legend="{{vserver}}",
    absent=_NO_DATA,
)

_NO_WAIT = (
    "How long guests wait is not known here. Xen tells it through XAPI, else a node_exporter inside the guest does "
    "(prometheus/targets/guest.yml); OpenVZ and containers (cAdvisor 0.53, cgroup version 2) tell it by themselves; "
    "bare Linux has nobody to wait for."
)

WAIT = Signal(
    name="Waits",
    expr=on_host("vserver:cpu_wait:rate", vserver="$vserver"),
    unit=units.PercentUnit,
    description=(
        "How long it was ready to run and others had the CPU, in each second; 100 % is one vCPU or process that waits "
        "all the time. Many waiting at once: the host is full, or its neighbours take what they can get."
    ),
    legend="{{vserver}}",
    absent=_NO_WAIT,
    decimals=1,
)

LIMIT = Signal(
    name="Cap",
    expr=on_host("vserver:cpu_limit:cpus", vserver="$vserver"),
    unit=CPUS,
    description="CPUs it may use at most.",
    legend="{{vserver}}",
    absent="No virtual server has a cap.",
    decimals=2,
)

LIMIT_USED = Signal(
    name="Cap used",
    expr=f"{on_host('vserver:cpu_usage:rate', vserver='$vserver')}"
    f" / on (host, platform, vserver, role) ({on_host('vserver:cpu_limit:cpus', vserver='$vserver')} > 0)",
    unit=units.PercentUnit,
    description=(
        "CPU used, of what its cap allows. Above the line the cap is what holds it back: give it more, or know that "
        "its users wait."
    ),
    legend="{{vserver}}",
    absent="No virtual server here has a cap. Each may use what its vCPUs and its neighbours leave it.",
    decimals=0,
    high=0.9,
)

HELD_BACK = Signal(
    name="Held back",
    expr=on_host("vserver:cpu_throttled:rate", vserver="$vserver"),
    unit=units.PercentUnit,
    description="How long its cap held it back, in each second, summed over CPUs. Containers alone tell.",
    legend="{{vserver}}",
    absent="Containers alone tell how long their cap held them back.",
    decimals=1,
)

WEIGHT = Signal(
    name="Weight",
    expr=on_host("vserver:cpu_weight:shares", vserver="$vserver"),
    unit=units.NoUnit,
    description=(
        "What it gets of a CPU that others want too, against their weights: with twice as much, twice the time. Xen's "
        "default is 256, that of containers 1024."
    ),
    legend="{{vserver}}",
    absent="Xen tells weights through xl, and cAdvisor those of containers; here nobody does.",
    decimals=0,
)

NETWORK = Signal(
    name="Network",
    expr=f"sum by (host, platform, vserver, role) ({on_host('vserver:network_bytes:rate', vserver='$vserver')})",
    unit=units.BytesPerSecondSI,
    description="What it receives and sends, together.",
    legend="{{vserver}}",
    absent="Network traffic is told of guests with a device of their own: docs/vocabulary.md, Network and disk.",
    decimals=1,
)

DISK = Signal(
    name="Disk",
    expr=f"sum by (host, platform, vserver, role) ({on_host('vserver:disk_bytes:rate', vserver='$vserver')})",
    unit=units.BytesPerSecondSI,
    description="What it reads from disks and writes to them, together.",
    legend="{{vserver}}",
    absent="Nobody tells what goes to disks here: docs/vocabulary.md, Network and disk.",
    decimals=1,
)
