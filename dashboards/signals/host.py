"""A physical machine: its capacity, how much of it is used, and the overhead of virtualisation."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host, with_cause

_NO_DATA = "No records of this host yet: a minute after the start, see Prometheus, Status, Targets."

_NO_OVERHEAD = "No overhead is known: bare Linux has none; elsewhere see this host's alerts."

OVERHEAD_RATIO = Signal(
    name="Overhead ratio",
    query=lambda at: at("host:overhead:ratio"),
    unit=units.PercentUnit,
    description=(
        "CPU that the host itself used (Dom0 on Xen) divided by all CPU used on the machine, guests included. "
        "It rises with the guests' network and disk traffic, which Dom0 serves. On a nearly idle machine a high ratio "
        "does no harm: HostOverheadHigh fires when it stays above the line and the overhead in CPUs is high as well."
    ),
    absent=_NO_OVERHEAD,
    decimals=1,
    high=0.25,
)

OVERHEAD_CPU = Signal(
    name="Overhead (CPUs)",
    query=on_host("host:overhead_cpu:rate"),
    unit=CPUS,
    description=(
        "CPU used by the host itself (Dom0 on Xen; on KVM all but what guests compute). 1 CPU is one processor busy "
        "all the time."
    ),
    absent=_NO_OVERHEAD,
    decimals=2,
    high=0.5,
)

CPU_CAPACITY = Signal(
    name="CPU capacity",
    query=on_host("host:cpu_capacity:cpus"),
    unit=CPUS,
    description="Processors of the machine, which all virtual servers and the host itself share.",
    legend="capacity",
    absent=_NO_DATA,
)

CPU_USED_RATIO = Signal(
    name="CPU utilisation",
    # Not the sum over virtual servers: a fleet has thousands.
    query=lambda at: f"1 - {at('host:cpu_free:cpus')} / on (host, platform) {at('host:cpu_capacity:cpus')}",
    unit=units.PercentUnit,
    description=(
        "CPU used by the host and all its guests, divided by the machine's capacity; what a hypervisor below it gave "
        "to others counts as used. Near 100 % guests wait for one another."
    ),
    absent=_NO_DATA,
    decimals=1,
    high=0.9,
)

OVERHEAD_PER_REQUEST = Signal(
    name="Overhead per request",
    query=on_host("host:overhead_per_request:seconds"),
    unit=units.Seconds,
    description=(
        "CPU time of the host itself per request that the web tiers on it answer. It compares hosts, and days of "
        "different load: where it rises, the same work costs more."
    ),
    absent="No overhead is known, or no requests to a web tier: docs/sensors.md.",
)

OVERHEAD_PER_BYTE = Signal(
    name="Overhead per GB",
    query=f"1e9 * {on_host('host:overhead_per_guest_byte:seconds')}",
    unit="suffix:s",  # of CPU time: Grafana's own seconds become minutes and hours
    description=(
        "CPU time of the host itself per gigabyte that its guests receive and send: on Xen, all of it passes Dom0. Not "
        "known below 10 kB/s, or where a busy guest has no network device of its own."
    ),
    absent="No overhead is known, or traffic is below 10 kB/s or not known of all guests.",
    decimals=1,
)

WAITED_SHARE_EXPECTED = Signal(
    name="Expected CPU wait / demand",
    query=f"1 - {on_host('host:cpu_granted_expected:ratio')}",
    unit=units.PercentUnit,
    description="Waiting that x virtual servers per CPU cause: each has 1/x of the CPU that it wants (Huber 2010).",
    absent="CPU wait is not known here: docs/vocabulary.md says which platforms have it.",
    legend="expected (1 - 1/x)",
    decimals=1,
)

REALLOCATIONS = Signal(
    name="Reallocations per minute",
    query=f"60 * {on_host('host:reallocations:rate')}",
    unit=units.Short,
    description=(
        "Changes of guests' caps and weights, over five minutes. If the overhead rises and falls with them, they cost "
        "too much: `make lab SCENARIO=allocation-short` says what one costs."
    ),
    absent="Caps and weights are known of Xen (with xl), KVM and containers.",
    decimals=1,
)

STEAL = Signal(
    name="Host CPU steal (hypervisor)",
    query=on_host("host:cpu_steal:rate"),
    unit=CPUS,
    description=(
        "Where this machine is a guest itself: CPU that a hypervisor below it gave to others. A tenth of its CPUs is "
        "evidence for the cause hypervisor."
    ),
    absent="Steal time is not known here: on Xen see the guests' CPU wait.",
)


def active_for(whose: str, state: str = "pending|firing") -> str:
    """For how many seconds alerts have been active; those of severity none are for programs."""
    # ALERTS_FOR_STATE holds the time an alert became active; it has ALERTS' labels except its state.
    chosen = f'{whose}, severity!="none"'
    return (
        f"(time() - ALERTS_FOR_STATE{{{chosen}}}) * ignoring (alertstate) group_right () "
        f'ALERTS{{{chosen}, alertstate=~"{state}"}}'
    )


ALERTS = Signal(
    name="Active for",
    query=with_cause(active_for('host="$host"'), 'app:objective_cause:info{host="$host"}'),
    unit=units.Seconds,
    description=(
        "Alerts on this host, its virtual servers and applications: firing ones, and pending ones, whose condition has "
        "not held for long enough yet. An alert's name leads to its runbook."
    ),
    absent="No alert is pending or firing for this host.",
)
