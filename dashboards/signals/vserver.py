"""A virtual server: a guest, a container, or the host's own share (Dom0, or a bare machine as a whole)."""

from collections.abc import Callable
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Scope, Signal, on_host

_NO_DATA = "No virtual server is known yet: a minute after the start, see Prometheus, Status, Targets."
_NO_WAIT = "CPU wait is not known here: docs/vocabulary.md says which platforms have it."
_signal = partial(Signal, legend="{{vserver}}")


def _of(record: str) -> Callable[[Scope], str]:
    return lambda at: at(f"vserver:{record}", vserver="$vserver")


_usage, _wait, _limit = _of("cpu_usage:rate"), _of("cpu_wait:rate"), _of("cpu_limit:cpus")

HOST_CPU = Signal(
    "CPU used by the host itself",
    on_host("vserver:cpu_usage:rate", role="host"),
    CPUS,
    absent=_NO_DATA,
    legend="{{vserver}} (host)",
)
GUEST_CPU = _signal("CPU used by guests", on_host("vserver:cpu_usage:rate", role="guest"), CPUS)
CPU = _signal(
    "CPU used",
    _usage,
    CPUS,
    "CPU used by a virtual server. 1 CPU is one processor busy all the time.",
    _NO_DATA,
    decimals=2,
)
CPU_SHARE = _signal(
    "Utilisation",
    lambda at: f"{_usage(at)} / on (host, platform) group_left () {at('host:cpu_capacity:cpus')}",
    units.PercentUnit,
    decimals=1,
)
MEMORY = _signal(
    "Memory",
    _of("memory:bytes"),
    units.BytesIEC,
    "Memory that a virtual server holds.",
    _NO_DATA,
)
WAIT = _signal(
    "CPU wait",
    _wait,
    units.PercentUnit,
    "Time per second that it was ready to run while others had the CPU; 100 % is one vCPU or process that waits all "
    "the time. If many wait at once, the host is overloaded or a neighbour takes more than its share.",
    _NO_WAIT,
    decimals=1,
)
LIMIT = _signal("Cap", _limit, CPUS)
WAITED_SHARE = _signal(
    "CPU wait / demand",
    lambda at: f"{_wait(at)} / ({at('vserver:cpu_demand:rate', vserver='$vserver')} > 0.01)",
    units.PercentUnit,
    "CPU wait / demand. Dashed: expected if x busy ones share a CPU, 1 - 1/x (Huber 2010). Above it: less weight, a "
    "cap, or a CPU that is busier than others; while x is below 1, bursts at the same moment. See "
    "docs/vocabulary.md.",
    _NO_WAIT,
)
# The highest cap within the usage's minute: otherwise usage would exceed a cap that was just lowered.
LIMIT_USED = _signal(
    "CPU cap utilisation",
    lambda at: f"{_usage(at)} / (max_over_time({_limit(at)}[90s]) > 0)",
    units.PercentUnit,
    "CPU used, divided by the cap. Above the line the cap limits it: raise it, or accept that its users wait.",
    "No virtual server on this host has a CPU cap.",
    high=0.9,
)
HELD_BACK = _signal("Throttled", _of("cpu_throttled:rate"), units.PercentUnit, decimals=1)
WEIGHT = _signal("Weight", _of("cpu_weight:shares"), units.NoUnit)
NETWORK = _signal(
    "Network",
    lambda at: f"sum without (direction) ({at('vserver:network_bytes:rate', vserver='$vserver')})",
    units.BytesPerSecondSI,
    "Bytes received and sent.",
    "Network traffic is known of guests with a device of their own: docs/vocabulary.md.",
    decimals=1,
)
DISK = _signal(
    "Disk",
    lambda at: f"sum without (direction) ({at('vserver:disk_bytes:rate', vserver='$vserver')})",
    units.BytesPerSecondSI,
    "Bytes read from disks and written to them.",
    "Disk traffic is not known here: docs/vocabulary.md.",
)

OF_EACH = [CPU, CPU_SHARE, WAIT, LIMIT, HELD_BACK, WEIGHT, MEMORY]
"""Columns of a table of virtual servers."""
