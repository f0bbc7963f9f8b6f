"""A physical machine: its capacity, how much of it is used, and what virtualisation itself takes."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host, with_cause

_NO_DATA = "Nothing known of this host yet. After the start, wait a minute; then look at Prometheus, Status, Targets."

_NO_OVERHEAD = (
    "No overhead here. On bare Linux (platform base) that is right: no hypervisor, nothing to compare. "
    "On Xen, wait a minute after the start; if this stays, look at its alerts and at Prometheus, Status, Targets."
)

OVERHEAD_RATIO = Signal(
    name="Overhead ratio",
    expr=on_host("host:overhead:ratio"),
    unit=units.PercentUnit,
    description=(
        "CPU that the host itself used (Dom0 on Xen) divided by all CPU used on the machine, guests included. "
        "0 % would be virtualisation for free. It rises with the guests' network and disk traffic, which Dom0 serves. "
        "A high share of a nearly idle machine is no trouble: HostOverheadHigh fires when it stays above the line and "
        "the overhead in CPUs is high as well."
    ),
    absent=_NO_OVERHEAD,
    decimals=1,
    high=0.25,
)

OVERHEAD_CPU = Signal(
    name="Overhead in CPUs",
    expr=on_host("host:overhead_cpu:rate"),
    unit=CPUS,
    description=(
        "CPU that no guest got: what the host itself used (Dom0 on Xen). 1 CPU is one processor busy all the time."
    ),
    absent=_NO_OVERHEAD,
    decimals=2,
    high=0.5,
)

CPU_CAPACITY = Signal(
    name="CPU capacity",
    expr=on_host("host:cpu_capacity:cpus"),
    unit=CPUS,
    description="Processors the machine has: what all virtual servers and the host itself can use together.",
    legend="capacity",
    absent=_NO_DATA,
)

CPU_USED_RATIO = Signal(
    name="Capacity used",
    # Not the sum over virtual servers: a fleet has thousands.
    expr=f"1 - {on_host('host:cpu_free:cpus')} / on (host, platform) {on_host('host:cpu_capacity:cpus')}",
    unit=units.PercentUnit,
    description=(
        "CPU used by the host and all its guests, of what the machine has; what a hypervisor below it gave to others "
        "counts as used. Near 100 % guests wait for one another, and the overhead's share says little: everything "
        "competes."
    ),
    absent=_NO_DATA,
    decimals=1,
    high=0.9,
)

OVERHEAD_PER_REQUEST = Signal(
    name="Overhead per request",
    expr=on_host("host:overhead_per_request:seconds"),
    unit=units.Seconds,
    description=(
        "CPU time of the host itself for each request that the web tiers on it answer. It compares hosts, and days of "
        "different load: where it rises, the same work costs more."
    ),
    absent=(
        "No overhead, or no requests to a web tier here. A sensor counts them, or the application itself: "
        "docs/sensors.md."
    ),
)

OVERHEAD_PER_BYTE = Signal(
    name="Overhead per GB",
    expr=f"1e9 * {on_host('host:overhead_per_guest_byte:seconds')}",
    unit="suffix:s",  # of CPU time: Grafana's own seconds become minutes and hours
    description=(
        "CPU time of the host itself for each gigabyte that its guests receive and send: on Xen, Dom0 carries every "
        "byte."
    ),
    absent=(
        "No overhead, hardly any traffic (less than 10 kB/s), or a guest at work that doesn't tell its own: on OpenVZ "
        "a container without a device of its own."
    ),
    decimals=1,
)

STEAL = Signal(
    name="Taken by a hypervisor below",
    expr=on_host("host:cpu_steal:rate"),
    unit=CPUS,
    description=(
        "Where this machine is a guest itself: CPU that it wanted and others below it got. A tenth of it is "
        "evidence for the cause hypervisor."
    ),
    absent="Nothing tells of it: on Xen look at the guests' waiting instead.",
)


def active_for(whose: str, state: str = "pending|firing") -> str:
    """For how many seconds people's alerts have been active; those of severity none are for programs."""
    # ALERTS_FOR_STATE holds the time an alert became active; it has ALERTS' labels except its state.
    told = f'{whose}, severity!="none"'
    return (
        f"(time() - ALERTS_FOR_STATE{{{told}}}) * ignoring (alertstate) group_right () "
        f'ALERTS{{{told}, alertstate=~"{state}"}}'
    )


ALERTS = Signal(
    name="For",
    expr=with_cause(active_for('host="$host"'), 'app:objective_cause:info{host="$host"}'),
    unit=units.Seconds,
    description=(
        "Alerts that concern this host: pending ones, whose condition has not held for long enough yet, and firing "
        "ones, which Alertmanager has been told of. The runbook of each is docs/runbooks/NAME.md."
    ),
    absent="No alert is pending or firing for this host.",
)
