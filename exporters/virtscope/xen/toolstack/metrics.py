"""What the toolstack told as metric families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import Metric

from virtscope.toolkit.families import Figure, Labels, family, info, series
from virtscope.xen.toolstack.model import Guest, Pool, Toolstack
from virtscope.xen.toolstack.vcpus import Placement

DOMAIN: list[Figure[Guest]] = [
    Figure(
        "xen_domain_scheduler_weight",
        "The domain's weight against the others of its CPU pool (credit, credit2).",
        lambda guest: guest.share.weight,
    ),
    Figure(
        "xen_domain_cpu_limit_cpus",
        "CPUs the domain may use at most, its cap (credit, credit2): 0.5 is half a CPU. Absent where it has none.",
        lambda guest: guest.share.cap / 100 if guest.share.cap else None,
    ),
    Figure(
        "xen_domain_scheduler_period_seconds",
        "Period of the domain's real-time budget, in seconds (rtds).",
        lambda guest: guest.share.period,
    ),
    Figure(
        "xen_domain_scheduler_budget_seconds",
        "CPU time that each vCPU of the domain may use in a period, in seconds (rtds).",
        lambda guest: guest.share.budget,
    ),
]

POOL: list[Figure[Pool]] = [
    Figure("xen_cpupool_cpus", "Physical CPUs of the CPU pool.", lambda pool: pool.cpus),
    Figure(
        "xen_cpupool_timeslice_seconds",
        "How long the scheduler lets a vCPU run while others wait, in seconds (credit).",
        lambda pool: pool.timing.timeslice,
    ),
    Figure(
        "xen_cpupool_ratelimit_seconds",
        "How long a vCPU runs at least before another may preempt it, in seconds (credit, credit2); absent where 0.",
        lambda pool: pool.timing.ratelimit,
    ),
]

VCPU: list[Figure[Placement]] = [
    Figure(
        "xen_vcpu_cpu",
        "Number of the physical CPU that the vCPU was last on; absent where it is offline.",
        lambda placement: placement.cpu,
    ),
]


def domain_families(domains: Sequence[tuple[Labels, Guest]]) -> list[Metric]:
    """Return what is known of domains that live; nothing where the toolstack tells nothing.

    xen_domain_scheduler_weight{domid="3",domain="web01"} 256
    xen_domain_scheduler_changes_total{domid="3",domain="web01",what="cap"} 0
    xen_domain_cpu_limit_cpus{domid="3",domain="web01"} 0.5
    xen_vcpu_cpu{domid="3",domain="web01",vcpu="0"} 7
    xen_vcpu_affinity_info{domid="3",domain="web01",vcpu="0",hard="4-7",soft="all"} 1
    xen_domain_cache_occupancy_bytes{domid="3",domain="web01",socket="0"} 2654208
    """
    if not domains:
        return []
    vcpus = [
        ({**labels, "vcpu": str(number)}, placement)
        for labels, guest in domains
        for number, placement in guest.placements.items()
    ]
    return [
        *series(DOMAIN, domains),
        family(
            "xen_domain_scheduler_changes_total",
            "Times the domain's weight or cap was found changed since it first ran, and the exporter saw it.",
            (
                ({**labels, "what": what}, count)
                for labels, guest in domains
                if guest.share.weight is not None
                for what, count in (("weight", guest.weight_changes), ("cap", guest.cap_changes))
            ),
        ),
        *series(VCPU, vcpus),
        info(
            "xen_vcpu_affinity",
            "Physical CPUs that the vCPU may run on (hard) and is best run on (soft).",
            ({**labels, "hard": placement.hard, "soft": placement.soft} for labels, placement in vcpus),
        ),
        *_cache_families(domains),
    ]


def _cache_families(domains: Sequence[tuple[Labels, Guest]]) -> list[Metric]:
    """Return what few machines can tell; without families on all others."""
    caches = [
        ({**labels, "socket": str(socket)}, figure)
        for labels, guest in domains
        for socket, figure in guest.cache_bytes.items()
    ]
    bandwidths = [
        ({**labels, "socket": str(socket), "memory": memory}, figure)
        for labels, guest in domains
        for memory, figures in guest.bandwidth._asdict().items()
        for socket, figure in figures.items()
    ]
    families = []
    if caches:
        families.append(
            family(
                "xen_domain_cache_occupancy_bytes", "What the domain holds of the last-level cache, in bytes.", caches
            )
        )
    if bandwidths:
        families.append(
            family(
                "xen_domain_memory_bandwidth_bytes_per_second",
                "Memory bandwidth the domain used in 10 ms of late, in bytes per second: to all memory (total) "
                "and to that of the socket itself (local).",
                bandwidths,
            )
        )
    return families


def host_families(toolstack: Toolstack, problems: Mapping[tuple[str, str], int]) -> list[Metric]:
    """Return what is known of the CPU pools, and how many answers had something wrong, by command and reason.

    xen_cpupool_info{cpupool="Pool-0",scheduler="credit2"} 1
    xen_cpupool_ratelimit_seconds{cpupool="Pool-0"} 0.001
    xentop_toolstack_problems_total{command="sched-credit",reason="complaint"} 1
    """
    pools = [({"cpupool": pool.name}, pool) for pool in toolstack.pools]
    return [
        info(
            "xen_cpupool",
            "The CPU pool's scheduler.",
            ({**labels, "scheduler": pool.scheduler} for labels, pool in pools),
        ),
        *series(POOL, pools),
        family(
            "xentop_toolstack_problems_total",
            "Answers of the toolstack with something wrong, by command and reason: error (it ended with a status other "
            "than 0), complaint (it said something on standard error), rubbish (lines that can't be understood).",
            (({"command": command, "reason": reason}, count) for (command, reason), count in problems.items()),
        ),
    ]
