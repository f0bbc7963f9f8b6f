"""The metrics of a Xen host: one table, from the model's values to families; raw counters in Xen's own terms.

What it exposes, with the command that shows the same by hand:

    # xentop -b -f -n -x -v -i 1
    xen_host_info{version="4.17.7"} 1
    xen_host_cpus 4
    xen_domain_info{domid="3",domain="web01",role="guest",uuid="",type="",os="",cpupool="",ssid="0"} 1
    xen_domain_state{domid="3",domain="web01",state="blocked"} 1
    xen_domain_cpu_seconds_total{domid="3",domain="web01"} 1234.567890123
    xen_vcpu_cpu_seconds_total{domid="3",domain="web01",vcpu="0"} 1234.567890123
    xen_domain_network_receive_bytes_total{domid="3",domain="web01",vif="0"} 4096
    xen_domain_block_read_bytes_total{domid="3",domain="web01",vbd="xvda"} 512
    xentop_missing_devices{device="network"} 0

    # xl sched-credit2; xl vcpu-list; xl psr-cmt-show cache-occupancy; xl cpupool-list
    xen_domain_scheduler_weight{domid="3",domain="web01"} 256
    xen_domain_scheduler_changes_total{domid="3",domain="web01",what="cap"} 0
    xen_domain_cpu_limit_cpus{domid="3",domain="web01"} 0.5
    xen_vcpu_cpu{domid="3",domain="web01",vcpu="0"} 7
    xen_vcpu_affinity_info{domid="3",domain="web01",vcpu="0",hard="4-7",soft="all"} 1
    xen_domain_cache_occupancy_bytes{domid="3",domain="web01",socket="0"} 2654208
    xen_cpupool_info{cpupool="Pool-0",scheduler="credit2"} 1
    xentop_toolstack_problems_total{command="sched-credit",reason="stderr"} 1

    # no command: a call that XenServer and XCP-ng add (runstate.py)
    xen_domain_runstate_seconds_total{domid="3",domain="web01",runstate="full_contention"} 12.5
    xen_domain_runnable_seconds_total{domid="3",domain="web01"} 31.25

    # xentrace -D -e 0x21000 -T 1 FILE; only with --xentrace.interval
    xen_domain_wait_estimated_seconds_total{domid="3",domain="web01",running_domid="7",running="batch"} 421.5
    xen_trace_windows_total 17
    xen_trace_lost_records_total 0

    # ps -o etimes,args -C xentop; only with source xentop
    xentop_iteration_age_seconds 1.4
    xentop_child_starts_total 1

To add a metric, add a line to the rows of the values that it is of (HOST, DOMAIN, VCPU and so on): its name (a
counter's ends in _total), its help, and how such a value gives it. Values of another kind get rows of their own: which
values, with which labels, their metrics. A value that isn't read yet is also a field of the model, with a default at
its end, and a line of the function that reads it: xl_host.parse_info for what only `xl info` knows of the host.

Every guest's series carry `domid` and `domain`: names repeat and change, ids don't while a domain lives. Where the
source has no ids, `domid` is "" (Dom0: "0"; several domains of one name: "duplicate-1" and so on).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Callable, NamedTuple, TypeVar

from prometheus_client import Metric

from virtscope.toolkit.families import Definition, Info, Labels, Table, page, parts, scalars, table
from virtscope.xen.model import (
    DOM0,
    IDLE,
    REST,
    STATES,
    Child,
    Domain,
    Guest,
    Host,
    Pool,
    Toolstack,
    Vcpu,
    WaitEstimates,
    Waiting,
)

T = TypeVar("T")


class HostSamples(NamedTuple):
    """A host whose domains have their labels, made once and shared by all their series."""

    host: Host
    domains: list[tuple[Labels, Domain]]
    guests: list[tuple[Labels, Guest]]  # of the domains that the toolstack knows


class ToolstackResult(NamedTuple):
    """What the toolstack answered, and how many answers had something wrong, by command and reason."""

    toolstack: Toolstack
    problems: Mapping[tuple[str, str], int]


def _of_domains(
    label: str, parts_of: Callable[[Domain], Sequence[tuple[str, T]]]
) -> Callable[[HostSamples], list[tuple[Labels, T]]]:
    """Return what gives the parts of all domains, each with the domain's labels and one of its own."""
    return lambda samples: parts(samples.domains, label, parts_of)


def _of_guests(
    label: str, parts_of: Callable[[Guest], Sequence[tuple[str, T]]]
) -> Callable[[HostSamples], list[tuple[Labels, T]]]:
    """Return the same for what the toolstack knows of the domains."""
    return lambda samples: parts(samples.guests, label, parts_of)


def _the_host(samples: HostSamples) -> list[tuple[Labels, Host]]:
    return [({}, samples.host)]


def _online(vcpus: Iterable[Vcpu]) -> int | None:
    online = [vcpu.online for vcpu in vcpus]
    return None if None in online else online.count(True)


HOST = table(
    _the_host,
    Info(
        "xen_host",
        "The hypervisor's version.",
        lambda host: {"version": host.xen_version} if host.xen_version else None,
    ),
    Definition("xen_host_cpus", "Physical CPUs of the host.", lambda host: host.cpus),
    Definition("xen_host_cpu_hertz", "Clock rate of the host's physical CPUs, in hertz.", lambda host: host.cpu_hertz),
    Definition("xen_host_memory_bytes", "Memory of the host, in bytes.", lambda host: host.memory_bytes),
    Definition("xen_host_memory_free_bytes", "Free memory of the host, in bytes.", lambda host: host.memory_free_bytes),
    Definition(
        "xen_host_vcpus",
        "Online vCPUs of all domains, Dom0's included.",
        lambda host: _online(vcpu for domain in host.domains for vcpu in domain.vcpus),
    ),
    Definition("xen_host_domains", "Domains on the host, Dom0 included.", lambda host: len(host.domains)),
)


def _domains_and_guests(samples: HostSamples) -> list[tuple[Labels, tuple[Domain, Guest | None]]]:
    guests = samples.host.guests or [None] * len(samples.domains)
    return [(labels, (domain, guest)) for (labels, domain), guest in zip(samples.domains, guests)]


def _facts(known: tuple[Domain, Guest | None]) -> Labels:
    domain, guest = known
    return {
        # By number and not by name: a guest may be called Domain-0.
        "role": "dom0" if domain.domid == DOM0 else "guest",
        "uuid": guest.uuid if guest else "",
        "type": guest.type if guest else "",
        "os": guest.os if guest else "",
        "cpupool": guest.cpupool if guest else "",
        "ssid": str(domain.ssid),
    }


DOMAIN_INFO = table(
    _domains_and_guests,
    Info(
        "xen_domain",
        "Role (dom0 or guest), UUID, type (pv, hvm or pvh), OS, CPU pool and ssid of the domain; empty if unknown.",
        _facts,
    ),
)


DOMAIN_STATE = table(
    _of_domains("state", lambda domain: [(state, state in domain.states) for state in STATES]),
    Definition(
        "xen_domain_state",
        "1 if the domain is in this state, else 0; if no state is 1, the domain is runnable and waits for a CPU.",
    ),
)


def _domains(samples: HostSamples) -> list[tuple[Labels, Domain]]:
    return samples.domains


DOMAIN = table(
    _domains,
    Definition(
        "xen_domain_cpu_seconds_total",
        "CPU time used by the domain, in seconds summed over vCPUs (whole seconds from source xentop).",
        lambda domain: domain.cpu_seconds,
    ),
    Definition("xen_domain_vcpus", "vCPUs of the domain, offline ones included.", lambda domain: len(domain.vcpus)),
    Definition(
        "xen_domain_memory_bytes", "Current memory of the domain, in bytes.", lambda domain: domain.memory_bytes
    ),
    Definition(
        "xen_domain_memory_limit_bytes",
        "Maximum memory of the domain, in bytes; absent if unlimited.",
        lambda domain: domain.memory_limit_bytes,
    ),
)


VCPU = table(
    _of_domains("vcpu", lambda domain: [(str(number), vcpu) for number, vcpu in enumerate(domain.vcpus)]),
    Definition(
        "xen_vcpu_cpu_seconds_total",
        "CPU time used by the vCPU, in seconds (whole seconds from source xentop).",
        lambda vcpu: vcpu.cpu_seconds,
    ),
    Definition("xen_vcpu_online", "1 if the vCPU is online, else 0.", lambda vcpu: vcpu.online),
)


NETWORK = table(
    _of_domains("vif", lambda domain: [(network.vif, network) for network in domain.networks]),
    Definition(
        "xen_domain_network_receive_bytes_total",
        "Bytes received by the guest on this virtual interface.",
        lambda network: network.receive.bytes,
    ),
    Definition(
        "xen_domain_network_receive_packets_total",
        "Packets received by the guest on this virtual interface.",
        lambda network: network.receive.packets,
    ),
    Definition(
        "xen_domain_network_receive_errors_total",
        "Receive errors of the guest on this virtual interface.",
        lambda network: network.receive.errors,
    ),
    Definition(
        "xen_domain_network_receive_drops_total",
        "Packets to the guest dropped on this virtual interface.",
        lambda network: network.receive.drops,
    ),
    Definition(
        "xen_domain_network_transmit_bytes_total",
        "Bytes sent by the guest on this virtual interface.",
        lambda network: network.transmit.bytes,
    ),
    Definition(
        "xen_domain_network_transmit_packets_total",
        "Packets sent by the guest on this virtual interface.",
        lambda network: network.transmit.packets,
    ),
    Definition(
        "xen_domain_network_transmit_errors_total",
        "Transmit errors of the guest on this virtual interface.",
        lambda network: network.transmit.errors,
    ),
    Definition(
        "xen_domain_network_transmit_drops_total",
        "Packets from the guest dropped on this virtual interface.",
        lambda network: network.transmit.drops,
    ),
)


BLOCK = table(
    _of_domains("vbd", lambda domain: [(block.vbd, block) for block in domain.blocks]),
    Info(
        "xen_domain_block",
        "Back end of this virtual block device, and its number as hexadecimal major:minor.",
        lambda block: {"type": block.type, "device": block.device},
    ),
    Definition(
        "xen_domain_block_read_requests_total",
        "Read requests of this virtual block device.",
        lambda block: block.read and block.read.requests,
    ),
    Definition(
        "xen_domain_block_read_bytes_total",
        "Bytes read from this virtual block device.",
        lambda block: block.read and block.read.bytes,
    ),
    Definition(
        "xen_domain_block_write_requests_total",
        "Write requests of this virtual block device.",
        lambda block: block.write and block.write.requests,
    ),
    Definition(
        "xen_domain_block_write_bytes_total",
        "Bytes written to this virtual block device.",
        lambda block: block.write and block.write.bytes,
    ),
    Definition(
        "xen_domain_block_out_of_requests_total",
        "Times the back end's request ring was full for this virtual block device.",
        lambda block: block.out_of_requests,
    ),
)


def _guests(samples: HostSamples) -> list[tuple[Labels, Guest]]:
    return samples.guests


SCHEDULER = table(
    _guests,
    Definition(
        "xen_domain_scheduler_weight",
        "Scheduler weight of the domain, relative to others of its CPU pool (credit, credit2).",
        lambda guest: guest.share.weight,
    ),
    Definition(
        "xen_domain_cpu_limit_cpus",
        "CPU limit (cap) of the domain, in CPUs (credit, credit2); absent if unlimited.",
        lambda guest: guest.share.cap / 100 if guest.share.cap else None,
    ),
    Definition(
        "xen_domain_scheduler_period_seconds",
        "Period of the domain's real-time budget, in seconds (rtds).",
        lambda guest: guest.share.period,
    ),
    Definition(
        "xen_domain_scheduler_budget_seconds",
        "CPU time allowed to each vCPU of the domain per period, in seconds (rtds).",
        lambda guest: guest.share.budget,
    ),
    optional=True,
)


def _changes(guest: Guest) -> list[tuple[str, int | None]]:
    counted = ("weight", guest.weight_changes), ("cap", guest.cap_changes)
    return [(what, None if guest.share.weight is None else count) for what, count in counted]


SCHEDULER_CHANGES = table(
    _of_guests("what", _changes),
    Definition(
        "xen_domain_scheduler_changes_total", "Changes of the domain's weight or cap that the exporter observed."
    ),
    optional=True,
)


PLACEMENT = table(
    _of_guests("vcpu", lambda guest: [(str(number), each) for number, each in guest.placements.items()]),
    Definition(
        "xen_vcpu_cpu",
        "Number of the physical CPU that the vCPU last ran on; absent while it is offline.",
        lambda placement: placement.cpu,
    ),
    Info(
        "xen_vcpu_affinity",
        "Physical CPUs that the vCPU may run on (hard) and prefers (soft).",
        lambda placement: {"hard": placement.hard, "soft": placement.soft},
    ),
    optional=True,
)


CACHE = table(
    _of_guests("socket", lambda guest: [(str(socket), size) for socket, size in guest.cache_bytes.items()]),
    Definition("xen_domain_cache_occupancy_bytes", "Last-level cache occupied by the domain, in bytes."),
    optional=True,  # few machines measure it
)


def _bandwidths(samples: HostSamples) -> list[tuple[Labels, int]]:
    return [
        ({**labels, "socket": str(socket), "memory": memory}, bandwidth)
        for labels, guest in samples.guests
        for memory, by_socket in zip(guest.bandwidth._fields, guest.bandwidth)
        for socket, bandwidth in by_socket.items()
    ]


BANDWIDTH = table(
    _bandwidths,
    Definition(
        "xen_domain_memory_bandwidth_bytes_per_second",
        "Memory bandwidth of the domain over a recent 10 ms, in bytes per second: total, and to the socket's own "
        "memory (local).",
    ),
    optional=True,
)


def _missing(samples: HostSamples) -> list[tuple[Labels, int]]:
    return [({"device": kind}, count) for kind, count in zip(("vcpu", "network", "block"), samples.host.missing())]


MISSING = table(
    _missing,
    Definition(
        "xentop_missing_devices",
        "vCPUs, network interfaces and block devices without series, because their values are missing, malformed or "
        "ambiguous (several with one number).",
    ),
)


def _waiting(accounts: Sequence[Waiting]) -> list[tuple[Labels, Waiting]]:
    return [({"domid": str(account.domid), "domain": account.name}, account) for account in accounts]


def _runstates(accounts: Sequence[Waiting]) -> list[tuple[Labels, float]]:
    return [
        ({**labels, "runstate": state}, seconds)
        for labels, account in _waiting(accounts)
        for state, seconds in account.runstate_seconds.items()
    ]


RUNSTATE = table(
    _runstates,
    Definition(
        "xen_domain_runstate_seconds_total",
        "Time that the domain's online vCPUs spent in this run state, in seconds: full_run (all run), "
        "full_contention (all wait for a CPU), concurrency_hazard (some run, some wait), partial_run (some run, "
        "others blocked), partial_contention (some wait, others blocked), blocked (all blocked). Use rates: full_run "
        "starts at the host's uptime.",
    ),
)


WAITING = table(
    _waiting,
    Definition(
        "xen_domain_runstate_missed_changes_total",
        "Changes of the domain's run state that the hypervisor missed; the time until the next change counts for the "
        "old state.",
        lambda account: account.missed_changes,
    ),
    Definition(
        "xen_domain_runnable_seconds_total",
        "Time that the domain's vCPUs were runnable without a CPU (CPU ready), in seconds summed over vCPUs; absent "
        "on hypervisors that only have run states of domains.",
        lambda account: account.runnable_seconds,
    ),
)


class NamedEstimates(NamedTuple):
    """How long domains waited for which, and the names of those that there are, by id."""

    estimates: WaitEstimates
    names: Mapping[int, str]


_NO_DOMAIN = {IDLE: "(idle)", REST: "(rest)"}


def _waits(named: NamedEstimates) -> list[tuple[Labels, float]]:
    names = named.names
    return [
        ({"domid": str(domid), "domain": names[domid], **_running(other, names)}, seconds)
        for domid, row in named.estimates.seconds.items()
        if domid in names
        for other, seconds in row.items()
        if other in names or other in _NO_DOMAIN
    ]


def _running(domid: int, names: Mapping[int, str]) -> Labels:
    if domid in _NO_DOMAIN:
        return {"running_domid": "", "running": _NO_DOMAIN[domid]}
    return {"running_domid": str(domid), "running": names[domid]}


WAIT_ESTIMATE = table(
    _waits,
    Definition(
        "xen_domain_wait_estimated_seconds_total",
        "Time that the domain's vCPUs were runnable without a CPU, by the domain that ran on their CPUs, in seconds "
        "summed over vCPUs; estimated from one second per --xentrace.interval. (idle): one of these CPUs was idle; "
        "(rest): domains without a series.",
    ),
)


def _windows(named: NamedEstimates) -> list[tuple[Labels, WaitEstimates]]:
    return [({}, named.estimates)]


TRACE = table(
    _windows,
    Definition("xen_trace_windows_total", "Traces of one second.", lambda estimates: estimates.windows),
    Definition(
        "xen_trace_lost_records_total",
        "Records lost because Xen's trace buffer was full; estimates lack their time.",
        lambda estimates: estimates.lost_records,
    ),
)


def _pools(result: ToolstackResult) -> list[tuple[Labels, Pool]]:
    return [({"cpupool": pool.name}, pool) for pool in result.toolstack.pools]


POOL = table(
    _pools,
    Info("xen_cpupool", "Scheduler of the CPU pool.", lambda pool: {"scheduler": pool.scheduler}),
    Definition("xen_cpupool_cpus", "Physical CPUs of the CPU pool.", lambda pool: pool.cpus),
    Definition(
        "xen_cpupool_timeslice_seconds",
        "Time slice of the scheduler, in seconds (credit).",
        lambda pool: pool.timing.timeslice,
    ),
    Definition(
        "xen_cpupool_ratelimit_seconds",
        "Minimum time that a vCPU runs before another preempts it, in seconds (credit, credit2); absent if 0.",
        lambda pool: pool.timing.ratelimit,
    ),
)


def _problems(result: ToolstackResult) -> list[tuple[Labels, int]]:
    return [({"command": command, "reason": reason}, count) for (command, reason), count in result.problems.items()]


PROBLEM = table(
    _problems,
    Definition(
        "xentop_toolstack_problems_total",
        "Toolstack commands with incomplete output, by command and reason: error (non-zero exit status), stderr "
        "(output on standard error), malformed (unparsable lines).",
    ),
)


CHILD: Table[Child] = scalars(
    Definition(
        "xentop_iteration_age_seconds", "Maximum age of xentop's values, in seconds.", lambda child: child.iteration_age
    ),
    Definition(
        "xentop_iteration_unknown_lines",
        "Lines of this iteration that could not be parsed.",
        lambda child: child.unknown_lines,
    ),
    Definition("xentop_child_starts_total", "Starts of xentop.", lambda child: child.starts),
)


# The families stand on the page in this order.
_OF_A_HOST = (
    HOST,
    DOMAIN_INFO,
    DOMAIN_STATE,
    DOMAIN,
    VCPU,
    NETWORK,
    BLOCK,
    SCHEDULER,
    SCHEDULER_CHANGES,
    PLACEMENT,
    CACHE,
    BANDWIDTH,
    MISSING,
)


def host_families(host: Host) -> list[Metric]:
    """Return the families of the host and its domains."""
    domains = [({"domid": _domid(domain), "domain": domain.name}, domain) for domain in host.domains]
    guests = [(labels, guest) for (labels, _), guest in zip(domains, host.guests) if guest]
    return page(_OF_A_HOST, HostSamples(host, domains, guests))


def waiting_families(accounts: Sequence[Waiting]) -> list[Metric]:
    """Return the families of how long domains ran and waited for a CPU."""
    return page((RUNSTATE, WAITING), accounts)


def wait_estimate_families(estimates: WaitEstimates, names: Mapping[int, str]) -> list[Metric]:
    """Return the families of a trace, of the domains that have a name; the others have ended."""
    return page((WAIT_ESTIMATE, TRACE), NamedEstimates(estimates, names))


def toolstack_families(toolstack: Toolstack, problems: Mapping[tuple[str, str], int]) -> list[Metric]:
    """Return the families of the toolstack that belong to no domain."""
    return page((POOL, PROBLEM), ToolstackResult(toolstack, problems))


def child_families(child: Child) -> list[Metric]:
    """Return the families of xentop itself."""
    return page((CHILD,), child)


def _domid(domain: Domain) -> str:
    """Return the id; if unknown "", or for one of several domains of the same name a unique number: "duplicate-2"."""
    if domain.domid is not None:
        return str(domain.domid)
    return f"duplicate-{domain.duplicate}" if domain.duplicate else ""
