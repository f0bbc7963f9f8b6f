"""A virtual server: a guest, a container, or the host's own share (Dom0, or a bare machine as a whole)."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host

_NO_DATA = "No virtual server is known yet: a minute after the start, see Prometheus, Status, Targets."

HOST_CPU = Signal(
    name="CPU used by the host itself",
    query=on_host("vserver:cpu_usage:rate", role="host"),
    unit=CPUS,
    description=(
        "CPU used by the host's own share: Dom0 on Xen, on KVM all but what guests compute, the whole machine on bare "
        "Linux."
    ),
    legend="{{vserver}} (host)",
    absent=_NO_DATA,
)

GUEST_CPU = Signal(
    name="CPU used by guests",
    query=on_host("vserver:cpu_usage:rate", role="guest"),
    unit=CPUS,
    description="CPU used by each guest.",
    legend="{{vserver}}",
    absent=_NO_DATA,
)

ENDED_CPU = Signal(
    name="CPU used by guests that have ended",
    query=f"sum by (host, platform) ({on_host('vserver:ended_cpu_usage:rate')})",
    unit=CPUS,
    description="CPU used within the last minute by guests that have ended since.",
    legend="ended",
    absent=_NO_DATA,
)

CPU = Signal(
    name="CPU used",
    query=lambda at: at("vserver:cpu_usage:rate", vserver="$vserver"),
    unit=CPUS,
    description="CPU used by a virtual server. 1 CPU is one processor busy all the time.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=2,
)

CPU_SHARE = Signal(
    name="Utilisation",
    query=lambda at: (
        f"{at('vserver:cpu_usage:rate', vserver='$vserver')}"
        f" / on (host, platform) group_left () {at('host:cpu_capacity:cpus')}"
    ),
    unit=units.PercentUnit,
    description="CPU used by a virtual server, divided by the machine's capacity.",
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=1,
)

MEMORY = Signal(
    name="Memory",
    query=lambda at: at("vserver:memory:bytes", vserver="$vserver"),
    unit=units.BytesIEC,
    description="Memory that a virtual server holds.",
    legend="{{vserver}}",
    absent=_NO_DATA,
)

_NO_WAIT = "CPU wait is not known here: docs/vocabulary.md says which platforms have it."

WAIT = Signal(
    name="CPU wait",
    query=lambda at: at("vserver:cpu_wait:rate", vserver="$vserver"),
    unit=units.PercentUnit,
    description=(
        "Time per second that it was ready to run while others had the CPU; 100 % is one vCPU or process that waits "
        "all the time. If many wait at once, the host is overloaded or a neighbour takes more than its share."
    ),
    legend="{{vserver}}",
    absent=_NO_WAIT,
    decimals=1,
)

LIMIT = Signal(
    name="Cap",
    query=lambda at: at("vserver:cpu_limit:cpus", vserver="$vserver"),
    unit=CPUS,
    description="CPU limit.",
    legend="{{vserver}}",
    absent="No virtual server has a cap.",
    decimals=2,
)

WAITED_SHARE = Signal(
    name="CPU wait / demand",
    query=lambda at: f"1 - {at('vserver:cpu_granted:ratio', vserver='$vserver')}",
    unit=units.PercentUnit,
    description=(
        "Waiting as a share of the time that it wanted a CPU. Dashed: what is expected of each if x busy ones share a "
        "CPU, 1 - 1/x (Huber 2010). Above it: less weight, a cap, or a CPU that is busier than others; while x is "
        "below 1, bursts at the same moment. See docs/vocabulary.md."
    ),
    legend="{{vserver}}",
    absent=_NO_WAIT,
    decimals=1,
)

LIMIT_USED = Signal(
    name="CPU cap utilisation",
    query=lambda at: (
        f"{at('vserver:cpu_usage:rate', vserver='$vserver')}"
        # The highest one of the minute that the use is of: else one that has just been lowered would be exceeded.
        f" / on (host, platform, vserver, role)"
        f" (max_over_time({at('vserver:cpu_limit:cpus', vserver='$vserver')}[90s]) > 0)"
    ),
    unit=units.PercentUnit,
    description=(
        "CPU used, divided by the cap. Above the line the cap limits it: raise it, or accept that its users wait."
    ),
    legend="{{vserver}}",
    absent="No virtual server on this host has a CPU cap.",
    decimals=0,
    high=0.9,
)

HELD_BACK = Signal(
    name="Throttled",
    query=lambda at: at("vserver:cpu_throttled:rate", vserver="$vserver"),
    unit=units.PercentUnit,
    description="Time per second that its cap throttled it, summed over CPUs. Known of containers and on KVM.",
    legend="{{vserver}}",
    absent="Throttling is known of containers and on KVM only.",
    decimals=1,
)

WEIGHT = Signal(
    name="Weight",
    query=lambda at: at("vserver:cpu_weight:shares", vserver="$vserver"),
    unit=units.NoUnit,
    description=(
        "Its share of a contended CPU relative to the others' weights: twice the weight, twice the time. Xen's default "
        "is 256, that of containers 1024, on KVM 100 (cgroup version 2)."
    ),
    legend="{{vserver}}",
    absent="Weights are known on Xen (xl), on KVM and of containers (cAdvisor).",
    decimals=0,
)

NETWORK = Signal(
    name="Network",
    query=lambda at: f"sum by (host, platform, vserver, role) ({at('vserver:network_bytes:rate', vserver='$vserver')})",
    unit=units.BytesPerSecondSI,
    description="Bytes received and sent.",
    legend="{{vserver}}",
    absent="Network traffic is known of guests with a device of their own: docs/vocabulary.md.",
    decimals=1,
)

DISK = Signal(
    name="Disk",
    query=lambda at: f"sum by (host, platform, vserver, role) ({at('vserver:disk_bytes:rate', vserver='$vserver')})",
    unit=units.BytesPerSecondSI,
    description="Bytes read from disks and written to them.",
    legend="{{vserver}}",
    absent="Disk traffic is not known here: docs/vocabulary.md.",
    decimals=1,
)
