"""A virtual server: a guest, a container, or the host's own share (Dom0, or a bare machine as a whole)."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host

_NO_DATA = "No virtual server is known yet: a minute after the start, see Prometheus, Status, Targets."

HOST_CPU = Signal(
    "CPU used by the host itself",
    on_host("vserver:cpu_usage:rate", role="host"),
    CPUS,
    legend="{{vserver}} (host)",
    absent=_NO_DATA,
)

GUEST_CPU = Signal(
    "CPU used by guests", on_host("vserver:cpu_usage:rate", role="guest"), CPUS, legend="{{vserver}}", absent=_NO_DATA
)

ENDED_CPU = Signal(
    "CPU used by guests that have ended",
    f"sum by (host, platform) ({on_host('vserver:ended_cpu_usage:rate')})",
    CPUS,
    legend="ended",
    absent=_NO_DATA,
)

CPU = Signal(
    "CPU used",
    lambda at: at("vserver:cpu_usage:rate", vserver="$vserver"),
    CPUS,
    "CPU used by a virtual server. 1 CPU is one processor busy all the time.",
    _NO_DATA,
    legend="{{vserver}}",
    decimals=2,
)

CPU_SHARE = Signal(
    "Utilisation",
    lambda at: (
        f"{at('vserver:cpu_usage:rate', vserver='$vserver')}"
        f" / on (host, platform) group_left () {at('host:cpu_capacity:cpus')}"
    ),
    units.PercentUnit,
    legend="{{vserver}}",
    absent=_NO_DATA,
    decimals=1,
)

MEMORY = Signal(
    "Memory",
    lambda at: at("vserver:memory:bytes", vserver="$vserver"),
    units.BytesIEC,
    "Memory that a virtual server holds.",
    _NO_DATA,
    legend="{{vserver}}",
)

_NO_WAIT = "CPU wait is not known here: docs/vocabulary.md says which platforms have it."

WAIT = Signal(
    "CPU wait",
    lambda at: at("vserver:cpu_wait:rate", vserver="$vserver"),
    units.PercentUnit,
    "Time per second that it was ready to run while others had the CPU; 100 % is one vCPU or process that waits all "
    "the time. If many wait at once, the host is overloaded or a neighbour takes more than its share.",
    _NO_WAIT,
    legend="{{vserver}}",
    decimals=1,
)

LIMIT = Signal(
    "Cap",
    lambda at: at("vserver:cpu_limit:cpus", vserver="$vserver"),
    CPUS,
    legend="{{vserver}}",
    absent="No virtual server has a cap.",
    decimals=2,
)

WAITED_SHARE = Signal(
    "CPU wait / demand",
    lambda at: f"1 - {at('vserver:cpu_granted:ratio', vserver='$vserver')}",
    units.PercentUnit,
    "Waiting as a share of the time that it wanted a CPU. Dashed: what is expected of each if x busy ones share a "
    "CPU, 1 - 1/x (Huber 2010). Above it: less weight, a cap, or a CPU that is busier than others; while x is below "
    "1, bursts at the same moment. See docs/vocabulary.md.",
    _NO_WAIT,
    legend="{{vserver}}",
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
    "Throttled",
    lambda at: at("vserver:cpu_throttled:rate", vserver="$vserver"),
    units.PercentUnit,
    legend="{{vserver}}",
    absent="Throttling is known of containers and on KVM only.",
    decimals=1,
)

WEIGHT = Signal(
    "Weight",
    lambda at: at("vserver:cpu_weight:shares", vserver="$vserver"),
    units.NoUnit,
    legend="{{vserver}}",
    absent="Weights are known on Xen (xl), on KVM and of containers (cAdvisor).",
    decimals=0,
)

NETWORK = Signal(
    "Network",
    lambda at: f"sum by (host, platform, vserver, role) ({at('vserver:network_bytes:rate', vserver='$vserver')})",
    units.BytesPerSecondSI,
    "Bytes received and sent.",
    "Network traffic is known of guests with a device of their own: docs/vocabulary.md.",
    legend="{{vserver}}",
    decimals=1,
)

DISK = Signal(
    "Disk",
    lambda at: f"sum by (host, platform, vserver, role) ({at('vserver:disk_bytes:rate', vserver='$vserver')})",
    units.BytesPerSecondSI,
    "Bytes read from disks and written to them.",
    "Disk traffic is not known here: docs/vocabulary.md.",
    legend="{{vserver}}",
    decimals=1,
)
