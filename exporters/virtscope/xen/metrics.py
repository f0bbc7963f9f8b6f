"""The metrics of a Xen host: tables that map the model's values to families; raw counters in Xen's terms.

Commands that show the same values:

    xentop -b -f -n -x -v -i 1                        xen_host_*, xen_domain_*, xen_vcpu_cpu_seconds_total
    xl sched-credit2; xl vcpu-list; xl cpupool-list   xen_domain_scheduler_*, xen_vcpu_cpu, xen_cpupool_*
    xl psr-cmt-show cache-occupancy                   xen_domain_cache_occupancy_bytes
    xentrace -D -e 0x21000 -T 1 FILE                  xen_domain_wait_estimated_seconds_total; off by default
    none (a call of XenServer's and XCP-ng's Xen)     xen_domain_runstate_*, xen_domain_runnable_seconds_total
    none (sums of this exporter)                      xen_host_cpu_seconds_total, xen_host_guests_*

To add a metric, add it to the table of its object (_HOST, _DOMAIN, _VCPU and so on). A value that isn't read yet also
needs a field in the model, and a line in the parser: xl_host.parse_info for `xl info`.

Every guest's series have the labels `domid` and `domain`: names repeat and change, ids don't while a domain lives.
Without ids in the source, `domid` is "" (Dom0: "0"; several domains of one name: "duplicate-1" and so on).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Callable, TypeVar

from prometheus_client import Metric

from virtscope.toolkit.families import Definition, Info, Labels, family, parts
from virtscope.xen.model import (
    DOM0,
    IDLE,
    REST,
    STATES,
    Block,
    Child,
    Domain,
    Guest,
    Host,
    Network,
    Placement,
    Pool,
    Toolstack,
    Totals,
    Vcpu,
    WaitEstimates,
    Waiting,
)

T = TypeVar("T")
Labelled = list[tuple[Labels, T]]

_HOST: tuple[Info[Host] | Definition[Host], ...] = (
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
_SINCE = "since the exporter started"
_ENDED = "ended guests count up to their last scrape"
_TOTALS: tuple[Definition[Totals], ...] = (
    Definition(
        "xen_host_cpu_seconds_total",
        f"CPU time used on the host's physical CPUs {_SINCE}, in seconds; from source xentop and in recordings the sum "
        "over Dom0 and guests, with an estimate of what guests used after their last scrape.",
        lambda totals: totals.cpu_seconds,
    ),
    Definition(
        "xen_host_guests_cpu_seconds_total",
        f"CPU time used by guests {_SINCE}, in seconds; {_ENDED}.",
        lambda totals: totals.guests_cpu_seconds,
    ),
    Definition(
        "xen_host_guests_network_receive_bytes_total",
        f"Bytes received by guests {_SINCE}; {_ENDED}.",
        lambda totals: totals.receive_bytes,
    ),
    Definition(
        "xen_host_guests_network_transmit_bytes_total",
        f"Bytes sent by guests {_SINCE}; {_ENDED}.",
        lambda totals: totals.transmit_bytes,
    ),
    Definition(
        "xen_host_guests_block_read_bytes_total",
        f"Bytes read from virtual block devices {_SINCE}; {_ENDED}.",
        lambda totals: totals.read_bytes,
    ),
    Definition(
        "xen_host_guests_block_write_bytes_total",
        f"Bytes written to virtual block devices {_SINCE}; {_ENDED}.",
        lambda totals: totals.write_bytes,
    ),
)
_DOMAIN: tuple[Definition[Domain], ...] = (
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
_VCPU: tuple[Definition[Vcpu], ...] = (
    Definition(
        "xen_vcpu_cpu_seconds_total",
        "CPU time used by the vCPU, in seconds (whole seconds from source xentop).",
        lambda vcpu: vcpu.cpu_seconds,
    ),
    Definition("xen_vcpu_online", "1 if the vCPU is online, else 0.", lambda vcpu: vcpu.online),
)
_ON_A_VIF: dict[str, tuple[str, Callable[[Network], int]]] = {
    "receive_bytes": ("Bytes received by the guest", lambda network: network.receive.bytes),
    "receive_packets": ("Packets received by the guest", lambda network: network.receive.packets),
    "receive_errors": ("Receive errors of the guest", lambda network: network.receive.errors),
    "receive_drops": ("Packets to the guest dropped", lambda network: network.receive.drops),
    "transmit_bytes": ("Bytes sent by the guest", lambda network: network.transmit.bytes),
    "transmit_packets": ("Packets sent by the guest", lambda network: network.transmit.packets),
    "transmit_errors": ("Transmit errors of the guest", lambda network: network.transmit.errors),
    "transmit_drops": ("Packets from the guest dropped", lambda network: network.transmit.drops),
}
_NETWORK = [
    Definition(f"xen_domain_network_{name}_total", f"{what} on this virtual interface.", value)
    for name, (what, value) in _ON_A_VIF.items()
]
_ON_A_VBD: dict[str, tuple[str, Callable[[Block], int | None]]] = {
    "read_requests": ("Read requests of", lambda block: block.read and block.read.requests),
    "read_bytes": ("Bytes read from", lambda block: block.read and block.read.bytes),
    "write_requests": ("Write requests of", lambda block: block.write and block.write.requests),
    "write_bytes": ("Bytes written to", lambda block: block.write and block.write.bytes),
    "out_of_requests": ("Times the back end's request ring was full for", lambda block: block.out_of_requests),
}
_BLOCK: tuple[Info[Block] | Definition[Block], ...] = (
    Info(
        "xen_domain_block",
        "Back end of this virtual block device, and its number as hexadecimal major:minor.",
        lambda block: {"type": block.type, "device": block.device},
    ),
    *(
        Definition(f"xen_domain_block_{name}_total", f"{what} this virtual block device.", value)
        for name, (what, value) in _ON_A_VBD.items()
    ),
)
_SCHEDULER: tuple[Definition[Guest], ...] = (
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
)
_WAITING: tuple[Definition[Waiting], ...] = (
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
_PLACEMENT: tuple[Info[Placement] | Definition[Placement], ...] = (
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
)
_POOL: tuple[Info[Pool] | Definition[Pool], ...] = (
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
_NO_DOMAIN = {IDLE: "(idle)", REST: "(rest)"}


def host_families(host: Host) -> list[Metric]:
    """Return the families of the host and its domains."""
    domains = [({"domid": _domid(domain), "domain": domain.name}, domain) for domain in host.domains]
    guests = [(labels, guest) for (labels, _), guest in zip(domains, host.guests) if guest]
    missing = zip(("vcpu", "network", "block"), host.missing())
    return [
        *_families(_HOST, [({}, host)]),
        *(_families(_TOTALS, [({}, host.totals)]) if host.totals else []),
        Info[Labels](
            "xen_domain",
            "Role (dom0 or guest), UUID, type (pv, hvm or pvh), OS, CPU pool and ssid of the domain; empty if unknown.",
        ).family(
            (labels, _facts(domain, guest))
            for (labels, domain), guest in zip(domains, host.guests or [None] * len(domains))
        ),
        family(
            "xen_domain_state",
            "1 if the domain is in this state, else 0; if no state is 1, the domain is runnable and waits for a CPU.",
            parts(domains, "state", lambda domain: [(state, state in domain.states) for state in STATES]),
        ),
        *_families(_DOMAIN, domains),
        *_families(_VCPU, parts(domains, "vcpu", lambda domain: _numbered(enumerate(domain.vcpus)))),
        *_families(_NETWORK, parts(domains, "vif", lambda domain: [(vif.vif, vif) for vif in domain.networks])),
        *_families(_BLOCK, parts(domains, "vbd", lambda domain: [(block.vbd, block) for block in domain.blocks])),
        *_of_guests(guests),
        family(
            "xentop_missing_devices",
            "vCPUs, network interfaces and block devices without series, because their values are missing, malformed "
            "or ambiguous (several with one number).",
            [({"device": kind}, count) for kind, count in missing],
        ),
    ]


def _of_guests(guests: Labelled[Guest]) -> Iterator[Metric]:
    """Yield the families of the toolstack's values, without empty ones."""
    if guests:
        yield from _families(_SCHEDULER, guests)
        yield family(
            "xen_domain_scheduler_changes_total",
            "Changes of the domain's weight or cap that the exporter observed.",
            [
                ({**labels, "what": what}, count)
                for labels, guest in guests
                if guest.share.weight is not None
                for what, count in (("weight", guest.weight_changes), ("cap", guest.cap_changes))
            ],
        )
    if placements := parts(guests, "vcpu", lambda guest: _numbered(guest.placements.items())):
        yield from _families(_PLACEMENT, placements)
    if sizes := parts(guests, "socket", lambda guest: _numbered(guest.cache_bytes.items())):  # few machines measure it
        yield family("xen_domain_cache_occupancy_bytes", "Last-level cache occupied by the domain, in bytes.", sizes)
    bandwidths = [
        ({**labels, "socket": str(socket), "memory": memory}, bandwidth)
        for labels, guest in guests
        for memory, by_socket in guest.bandwidth._asdict().items()
        for socket, bandwidth in by_socket.items()
    ]
    if bandwidths:
        yield family(
            "xen_domain_memory_bandwidth_bytes_per_second",
            "Memory bandwidth of the domain over a recent 10 ms, in bytes per second: total, and to the socket's own "
            "memory (local).",
            bandwidths,
        )


def waiting_families(accounts: Sequence[Waiting], total: float | None) -> list[Metric]:
    """Return the families of domains' run time and CPU wait, with the guests' total."""
    domains = [({"domid": str(account.domid), "domain": account.name}, account) for account in accounts]
    return [
        family(
            "xen_domain_runstate_seconds_total",
            "Time that the domain's online vCPUs spent in this run state, in seconds: full_run (all run), "
            "full_contention (all wait for a CPU), concurrency_hazard (some run, some wait), partial_run (some run, "
            "others blocked), partial_contention (some wait, others blocked), blocked (all blocked). Use rates: "
            "full_run starts at the host's uptime.",
            parts(domains, "runstate", lambda account: account.runstate_seconds.items()),
        ),
        *_families(_WAITING, domains),
        family(
            "xen_host_guests_runnable_seconds_total",
            f"Time that vCPUs of guests were runnable without a CPU {_SINCE}, in seconds; {_ENDED}; absent on "
            "hypervisors that only have run states of domains.",
            [({}, total)],
        ),
    ]


def wait_estimate_families(estimates: WaitEstimates, names: Mapping[int, str]) -> list[Metric]:
    """Return the families of a trace, for domains with a name; the others have ended."""
    running: dict[int, Labels] = {
        **{domid: {"running_domid": str(domid), "running": name} for domid, name in names.items()},
        **{domid: {"running_domid": "", "running": name} for domid, name in _NO_DOMAIN.items()},
    }
    return [
        family(
            "xen_domain_wait_estimated_seconds_total",
            "Time that the domain's vCPUs were runnable without a CPU, by the domain that ran on their CPUs, in "
            "seconds summed over vCPUs; estimated from one second per --xentrace.interval. (idle): one of these CPUs "
            "was idle; (rest): domains without a series.",
            [
                ({"domid": str(domid), "domain": names[domid], **running[other]}, seconds)
                for domid, row in estimates.seconds.items()
                if domid in names
                for other, seconds in row.items()
                if other in running
            ],
        ),
        family("xen_trace_windows_total", "Traces of one second.", [({}, estimates.windows)]),
        family(
            "xen_trace_lost_records_total",
            "Records lost because Xen's trace buffer was full; estimates lack their time.",
            [({}, estimates.lost_records)],
        ),
    ]


def toolstack_families(toolstack: Toolstack) -> list[Metric]:
    """Return the families of the toolstack itself."""
    pools = [({"cpupool": pool.name}, pool) for pool in toolstack.pools]
    return [
        *_families(_POOL, pools),
        family(
            "xentop_toolstack_problems_total",
            "Toolstack commands with incomplete output, by command and reason: error (non-zero exit status), stderr "
            "(output on standard error), malformed (unparsable lines).",
            [({"command": command, "reason": reason}, n) for (command, reason), n in toolstack.problem_counts.items()],
        ),
    ]


def child_families(child: Child) -> list[Metric]:
    """Return the families of xentop itself."""
    return [
        family(
            "xentop_iteration_age_seconds", "Maximum age of xentop's values, in seconds.", [({}, child.iteration_age)]
        ),
        family(
            "xentop_iteration_unknown_lines",
            "Lines of this iteration that could not be parsed.",
            [({}, child.unknown_lines)],
        ),
        family("xentop_child_starts_total", "Starts of xentop.", [({}, child.starts)]),
    ]


def _families(metrics: Iterable[Info[T] | Definition[T]], things: Labelled[T]) -> list[Metric]:
    return [metric.family(things) for metric in metrics]


def _numbered(things: Iterable[tuple[int, T]]) -> list[tuple[str, T]]:
    return [(str(number), thing) for number, thing in things]


def _online(vcpus: Iterable[Vcpu]) -> int | None:
    online = [vcpu.online for vcpu in vcpus]
    return None if None in online else online.count(True)


def _facts(domain: Domain, guest: Guest | None) -> Labels:
    return {
        # By id, not by name: a guest may be called Domain-0.
        "role": "dom0" if domain.domid == DOM0 else "guest",
        "uuid": guest.uuid if guest else "",
        "type": guest.type if guest else "",
        "os": guest.os if guest else "",
        "cpupool": guest.cpupool if guest else "",
        "ssid": str(domain.ssid),
    }


def _domid(domain: Domain) -> str:
    """Return the id; if unknown "", or for one of several domains of the same name a unique number: "duplicate-2"."""
    if domain.domid is not None:
        return str(domain.domid)
    return f"duplicate-{domain.duplicate}" if domain.duplicate else ""
