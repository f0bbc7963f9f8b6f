"""The metrics of a Xen host: families from the model's values; raw counters in Xen's terms.

Commands that show the same values:

    xentop -b -f -n -x -v -i 1                        xen_host_*, xen_domain_*, xen_vcpu_cpu_seconds_total
    xl sched-credit2; xl vcpu-list; xl cpupool-list   xen_domain_scheduler_*, xen_vcpu_cpu, xen_cpupool_*
    xl psr-cmt-show cache-occupancy                   xen_domain_cache_occupancy_bytes
    xentrace -D -e 0x21000 -T 1 FILE                  xen_domain_wait_estimated_seconds_total; off by default
    none (a call of XenServer's and XCP-ng's Xen)     xen_domain_runstate_*, xen_domain_runnable_seconds_total
    none (sums of this exporter)                      xen_host_cpu_seconds_total, xen_host_guests_*

To add a metric, add its family to those of its object. A value that isn't read yet also needs a field in the model, and
a line in the parser: xl_host.parse_info for `xl info`.

Every guest's series have the labels `domid` and `domain`: names repeat and change, ids don't while a domain lives.
Without ids in the source, `domid` is "" (Dom0: "0"; several domains of one name: "duplicate-1" and so on).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client import Metric

from virtscope.toolkit.families import Labels, family, info, parts, scalar
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
    Toolstack,
    Totals,
    Vcpu,
    WaitEstimates,
    Waiting,
)

T = TypeVar("T")
Labelled = list[tuple[Labels, T]]

_SINCE = "since the exporter started"
_ENDED = "ended guests count up to their last scrape"
_NO_DOMAIN = {IDLE: "(idle)", REST: "(rest)"}


def host_families(host: Host) -> list[Metric]:
    """Return the families of the host and its domains."""
    domains = [({"domid": _domid(domain), "domain": domain.name}, domain) for domain in host.domains]
    guests = [(labels, guest) for (labels, _), guest in zip(domains, host.guests) if guest]
    return [
        *_host(host),
        *(_totals(host.totals) if host.totals else []),
        info(
            "xen_domain_info",
            "Role (dom0 or guest), UUID, type (pv, hvm or pvh), OS, CPU pool and ssid of the domain; empty if unknown.",
            [
                {**labels, **_facts(domain, guest)}
                for (labels, domain), guest in zip(domains, host.guests or [None] * len(domains))
            ],
        ),
        *_domains(domains),
        *_vcpus(parts(domains, "vcpu", lambda domain: _numbered(enumerate(domain.vcpus)))),
        *_networks(parts(domains, "vif", lambda domain: [(vif.vif, vif) for vif in domain.networks])),
        *_blocks(parts(domains, "vbd", lambda domain: [(block.vbd, block) for block in domain.blocks])),
        *_of_toolstack(guests),
        family(
            "xentop_missing_devices",
            "vCPUs, network interfaces and block devices without series, because their values are missing, malformed "
            "or ambiguous (several with one number).",
            [({"device": kind}, count) for kind, count in zip(("vcpu", "network", "block"), host.missing())],
        ),
    ]


def _host(host: Host) -> Iterator[Metric]:
    yield info(
        "xen_host_info",
        "The hypervisor's version.",
        [{"version": host.xen_version}] if host.xen_version else [],
    )
    yield scalar("xen_host_cpus", "Physical CPUs of the host.", host.cpus)
    yield scalar("xen_host_cpu_hertz", "Clock rate of the host's physical CPUs, in hertz.", host.cpu_hertz)
    yield scalar("xen_host_memory_bytes", "Memory of the host, in bytes.", host.memory_bytes)
    yield scalar("xen_host_memory_free_bytes", "Free memory of the host, in bytes.", host.memory_free_bytes)
    online = [vcpu.online for domain in host.domains for vcpu in domain.vcpus]
    yield scalar(
        "xen_host_vcpus",
        "Online vCPUs of all domains, Dom0's included.",
        None if None in online else online.count(True),
    )
    yield scalar("xen_host_domains", "Domains on the host, Dom0 included.", len(host.domains))


def _totals(totals: Totals) -> Iterator[Metric]:
    yield scalar(
        "xen_host_cpu_seconds_total",
        f"CPU time used on the host's physical CPUs {_SINCE}, in seconds; from source xentop and in recordings the sum "
        "over Dom0 and guests, with an estimate of what guests used after their last scrape.",
        totals.cpu_seconds,
    )
    for name, what, value in (
        ("cpu_seconds", f"CPU time used by guests {_SINCE}, in seconds", totals.guests_cpu_seconds),
        ("network_receive_bytes", f"Bytes received by guests {_SINCE}", totals.receive_bytes),
        ("network_transmit_bytes", f"Bytes sent by guests {_SINCE}", totals.transmit_bytes),
        ("block_read_bytes", f"Bytes read from virtual block devices {_SINCE}", totals.read_bytes),
        ("block_write_bytes", f"Bytes written to virtual block devices {_SINCE}", totals.write_bytes),
    ):
        yield scalar(f"xen_host_guests_{name}_total", f"{what}; {_ENDED}.", value)


def _domains(domains: Labelled[Domain]) -> Iterator[Metric]:
    yield family(
        "xen_domain_state",
        "1 if the domain is in this state, else 0; if no state is 1, the domain is runnable and waits for a CPU.",
        parts(domains, "state", lambda domain: [(state, state in domain.states) for state in STATES]),
    )
    yield family(
        "xen_domain_cpu_seconds_total",
        "CPU time used by the domain, in seconds summed over vCPUs (whole seconds from source xentop).",
        [(labels, domain.cpu_seconds) for labels, domain in domains],
    )
    yield family(
        "xen_domain_vcpus",
        "vCPUs of the domain, offline ones included.",
        [(labels, len(domain.vcpus)) for labels, domain in domains],
    )
    yield family(
        "xen_domain_memory_bytes",
        "Current memory of the domain, in bytes.",
        [(labels, domain.memory_bytes) for labels, domain in domains],
    )
    yield family(
        "xen_domain_memory_limit_bytes",
        "Maximum memory of the domain, in bytes; absent if unlimited.",
        [(labels, domain.memory_limit_bytes) for labels, domain in domains],
    )


def _vcpus(vcpus: Labelled[Vcpu]) -> Iterator[Metric]:
    yield family(
        "xen_vcpu_cpu_seconds_total",
        "CPU time used by the vCPU, in seconds (whole seconds from source xentop).",
        [(labels, vcpu.cpu_seconds) for labels, vcpu in vcpus],
    )
    yield family(
        "xen_vcpu_online", "1 if the vCPU is online, else 0.", [(labels, vcpu.online) for labels, vcpu in vcpus]
    )


def _networks(networks: Labelled[Network]) -> Iterator[Metric]:
    for direction, bytes_, packets, errors, drops in (
        ("receive", "Bytes received by", "Packets received by", "Receive errors of", "Packets to the guest dropped"),
        ("transmit", "Bytes sent by", "Packets sent by", "Transmit errors of", "Packets from the guest dropped"),
    ):
        ways = [(labels, getattr(network, direction)) for labels, network in networks]
        for field, text in (
            ("bytes", f"{bytes_} the guest"),
            ("packets", f"{packets} the guest"),
            ("errors", f"{errors} the guest"),
            ("drops", drops),
        ):
            yield family(
                f"xen_domain_network_{direction}_{field}_total",
                f"{text} on this virtual interface.",
                [(labels, getattr(way, field)) for labels, way in ways],
            )


def _blocks(blocks: Labelled[Block]) -> Iterator[Metric]:
    yield info(
        "xen_domain_block_info",
        "Back end of this virtual block device, and its number as hexadecimal major:minor.",
        [{**labels, "type": block.type, "device": block.device} for labels, block in blocks],
    )
    for direction, requests, transferred in (
        ("read", "Read requests of", "Bytes read from"),
        ("write", "Write requests of", "Bytes written to"),
    ):
        moved = [(labels, way) for labels, block in blocks if (way := getattr(block, direction))]
        for field, text in (("requests", requests), ("bytes", transferred)):
            yield family(
                f"xen_domain_block_{direction}_{field}_total",
                f"{text} this virtual block device.",
                [(labels, getattr(way, field)) for labels, way in moved],
            )
    yield family(
        "xen_domain_block_out_of_requests_total",
        "Times the back end's request ring was full for this virtual block device.",
        [(labels, block.out_of_requests) for labels, block in blocks],
    )


def _of_toolstack(guests: Labelled[Guest]) -> Iterator[Metric]:
    """Yield the families of the toolstack's values, without empty ones."""
    if guests:
        yield from _shares(guests)
    if placements := parts(guests, "vcpu", lambda guest: _numbered(guest.placements.items())):
        yield from _placements(placements)
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


def _shares(guests: Labelled[Guest]) -> Iterator[Metric]:
    yield family(
        "xen_domain_scheduler_weight",
        "Scheduler weight of the domain, relative to others of its CPU pool (credit, credit2).",
        [(labels, guest.share.weight) for labels, guest in guests],
    )
    yield family(
        "xen_domain_cpu_limit_cpus",
        "CPU limit (cap) of the domain, in CPUs (credit, credit2); absent if unlimited.",
        [(labels, guest.share.cap / 100) for labels, guest in guests if guest.share.cap],
    )
    yield family(
        "xen_domain_scheduler_period_seconds",
        "Period of the domain's real-time budget, in seconds (rtds).",
        [(labels, guest.share.period) for labels, guest in guests],
    )
    yield family(
        "xen_domain_scheduler_budget_seconds",
        "CPU time allowed to each vCPU of the domain per period, in seconds (rtds).",
        [(labels, guest.share.budget) for labels, guest in guests],
    )
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


def _placements(placements: Labelled[Placement]) -> Iterator[Metric]:
    yield family(
        "xen_vcpu_cpu",
        "Number of the physical CPU that the vCPU last ran on; absent while it is offline.",
        [(labels, placement.cpu) for labels, placement in placements],
    )
    yield info(
        "xen_vcpu_affinity_info",
        "Physical CPUs that the vCPU may run on (hard) and prefers (soft).",
        [{**labels, "hard": placement.hard, "soft": placement.soft} for labels, placement in placements],
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
        family(
            "xen_domain_runstate_missed_changes_total",
            "Changes of the domain's run state that the hypervisor missed; the time until the next change counts for "
            "the old state.",
            [(labels, account.missed_changes) for labels, account in domains],
        ),
        family(
            "xen_domain_runnable_seconds_total",
            "Time that the domain's vCPUs were runnable without a CPU (CPU ready), in seconds summed over vCPUs; "
            "absent on hypervisors that only have run states of domains.",
            [(labels, account.runnable_seconds) for labels, account in domains],
        ),
        scalar(
            "xen_host_guests_runnable_seconds_total",
            f"Time that vCPUs of guests were runnable without a CPU {_SINCE}, in seconds; {_ENDED}; absent on "
            "hypervisors that only have run states of domains.",
            total,
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
        scalar("xen_trace_windows_total", "Traces of one second.", estimates.windows),
        scalar(
            "xen_trace_lost_records_total",
            "Records lost because Xen's trace buffer was full; estimates lack their time.",
            estimates.lost_records,
        ),
    ]


def toolstack_families(toolstack: Toolstack) -> list[Metric]:
    """Return the families of the toolstack itself."""
    pools = [({"cpupool": pool.name}, pool) for pool in toolstack.pools]
    return [
        info(
            "xen_cpupool_info",
            "Scheduler of the CPU pool.",
            [{**labels, "scheduler": pool.scheduler} for labels, pool in pools],
        ),
        family("xen_cpupool_cpus", "Physical CPUs of the CPU pool.", [(labels, pool.cpus) for labels, pool in pools]),
        family(
            "xen_cpupool_timeslice_seconds",
            "Time slice of the scheduler, in seconds (credit).",
            [(labels, pool.timing.timeslice) for labels, pool in pools],
        ),
        family(
            "xen_cpupool_ratelimit_seconds",
            "Minimum time that a vCPU runs before another preempts it, in seconds (credit, credit2); absent if 0.",
            [(labels, pool.timing.ratelimit) for labels, pool in pools],
        ),
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
        scalar("xentop_iteration_age_seconds", "Maximum age of xentop's values, in seconds.", child.iteration_age),
        scalar(
            "xentop_iteration_unknown_lines", "Lines of this iteration that could not be parsed.", child.unknown_lines
        ),
        scalar("xentop_child_starts_total", "Starts of xentop.", child.starts),
    ]


def _numbered(things: Iterable[tuple[int, T]]) -> list[tuple[str, T]]:
    return [(str(number), thing) for number, thing in things]


def _facts(domain: Domain, guest: Guest | None) -> Labels:
    return {
        # By id, not by name: a guest may be called Domain-0.
        "role": "dom0" if domain.domid == DOM0 else "guest",
        **{fact: getattr(guest, fact, "") for fact in ("uuid", "type", "os", "cpupool")},
        "ssid": str(domain.ssid),
    }


def _domid(domain: Domain) -> str:
    """Return the id; if unknown "", or for one of several domains of the same name a unique number: "duplicate-2"."""
    if domain.domid is not None:
        return str(domain.domid)
    return f"duplicate-{domain.duplicate}" if domain.duplicate else ""
