"""A physical machine: its capacity, usage, and virtualisation overhead."""

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, on_host, with_cause

_NO_DATA = "No records of this host yet: a minute after the start, see Prometheus, Status, Targets."
_NO_OVERHEAD = "No overhead is known: bare Linux has none; elsewhere see this host's alerts."

OVERHEAD_RATIO = Signal(
    "Overhead ratio",
    lambda at: at("host:overhead:ratio"),
    units.PercentUnit,
    "CPU used by the host itself (Dom0 on Xen) / all CPU used, guests included. It rises with the guests' network "
    "and disk traffic. HostOverheadHigh fires if it stays above the line and the overhead in CPUs is high as well.",
    _NO_OVERHEAD,
    decimals=1,
    high=0.25,
)
OVERHEAD_CPU = Signal(
    "Overhead (CPUs)",
    on_host("host:overhead_cpu:rate"),
    CPUS,
    "CPU used by the host itself (Dom0 on Xen; on KVM all but what guests compute). 1 CPU is one processor busy all "
    "the time.",
    _NO_OVERHEAD,
    high=0.5,
)
CPU_CAPACITY = Signal("CPU capacity", on_host("host:cpu_capacity:cpus"), CPUS, legend="capacity")
# Not summed over virtual servers: a fleet has thousands.
CPU_USED_RATIO = Signal(
    "CPU utilisation",
    lambda at: f"1 - {at('host:cpu_free:cpus')} / on (host, platform) {at('host:cpu_capacity:cpus')}",
    units.PercentUnit,
    "CPU used by the host and all its guests, divided by the machine's capacity; what a hypervisor below it gave to "
    "others counts as used. Near 100 % guests wait for one another.",
    _NO_DATA,
    decimals=1,
    high=0.9,
)
OVERHEAD_PER_REQUEST = Signal(
    "Overhead per request",
    f"{on_host('host:overhead_cpu:rate')} "
    f"/ on (host, platform) (sum by (host, platform) ({on_host('app:requests:rate', tier='web')}) > 0)",
    units.Seconds,
    "CPU time of the host itself per request that the web tiers on it answer. It compares hosts, and days of different "
    "load: where it rises, the same work costs more.",
    "No overhead is known, or no requests to a web tier: docs/sensors.md.",
)
OVERHEAD_PER_BYTE = Signal(
    "Overhead per GB",
    f"1e9 * {on_host('host:overhead_cpu:rate')} / ({on_host('host:traffic:rate')} > 1e4)",
    "suffix:s",  # CPU time; Grafana's own seconds become minutes and hours
    "CPU time of the host itself per gigabyte that its guests receive and send: on Xen, all of it passes Dom0. Not "
    "known below 10 kB/s, or where a busy guest has no network device of its own.",
    "No overhead is known, or traffic is below 10 kB/s or not known of all guests.",
)
WAITED_SHARE_EXPECTED = Signal(
    "Expected CPU wait / demand",
    f"1 - 1 / clamp_min((sum by (host, platform) ({on_host('vserver:cpu_wait:rate')}) "
    f"+ on (host, platform) {on_host('host:cpu_usage:rate')}) "
    f"/ on (host, platform) ({on_host('host:cpu_free:cpus')} + {on_host('host:cpu_usage:rate')}), 1)",
    units.PercentUnit,
    legend="expected (1 - 1/x)",
)
REALLOCATIONS = Signal(
    "Reallocations per minute",
    f"60 * {on_host('host:reallocations:rate')}",
    units.Short,
    "Changes of guests' caps and weights, over five minutes. If the overhead rises and falls with them, they cost too "
    "much: `make lab SCENARIO=allocation-short` says what one costs.",
    "Caps and weights are known of Xen (with xl), KVM and containers.",
)
STEAL = Signal(
    "Host CPU steal (hypervisor)",
    on_host("host:cpu_steal:rate"),
    CPUS,
    "Where this machine is a guest itself: CPU that a hypervisor below it gave to others. A tenth of its CPUs is "
    "evidence for the cause hypervisor.",
    "Steal time is not known here: on Xen see the guests' CPU wait.",
)


def active_for(whose: str, state: str = "pending|firing") -> str:
    """Seconds since alerts became active; alerts of severity none are for programs."""
    # ALERTS_FOR_STATE holds the time an alert became active; it has ALERTS' labels except its state.
    chosen = f'{whose}, severity!="none"'
    return (
        f"(time() - ALERTS_FOR_STATE{{{chosen}}}) * ignoring (alertstate) group_right () "
        f'ALERTS{{{chosen}, alertstate=~"{state}"}}'
    )


ALERTS = Signal(
    "Active for",
    with_cause(active_for('host="$host"'), 'app:objective_cause:info{host="$host"}'),
    units.Seconds,
    "Alerts on this host, its virtual servers and applications: firing ones, and pending ones, whose condition has not "
    "held for long enough yet. An alert's name leads to its runbook.",
    "No alert is pending or firing for this host.",
)

# Cost of monitoring: in the studies, sensors were part of the measured load. Selected by host only: on a host of
# containers, some exporters have the platform of the bare machine.
_MONITORING = 'monitor:cpu_usage:rate{host="$host"}'
_NOT_REPORTED = "No exporter reports its CPU usage from this host: see Prometheus, Status, Targets."

MONITORING_CPU = Signal(
    "Monitoring CPU by job",
    _MONITORING,
    units.PercentUnit,
    "CPU used by exporters and the rest of the stack on this host, one band per scrape job; 100 % is one processor "
    "busy all the time. It is part of the overhead shown above.",
    _NOT_REPORTED,
    legend="{{job}}",
)
MONITORING_SHARE = Signal(
    "Monitoring overhead",
    f"sum by (host) ({_MONITORING}) / on (host) {on_host('host:cpu_capacity:cpus')}",
    units.PercentUnit,
    "CPU used by exporters and the rest of the stack on this host, divided by the machine's capacity.",
    _NOT_REPORTED,
    decimals=2,
    high=0.02,
)
