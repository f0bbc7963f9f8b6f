"""A Xen host's values as metric families: raw counters in Xen's own terms, no ratios, no judgement."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from virtscope.toolkit.families import Figure, Labels, family, info, series
from virtscope.xen.model import DOM0, STATES, Block, Domain, Host, Network, Vcpu, Waiting
from virtscope.xen.source.xentop import Iteration
from virtscope.xen.toolstack.metrics import domain_families

_UNTOLD = {"uuid": "", "type": "", "os": "", "cpupool": ""}

HOST: list[Figure[Host]] = [
    Figure("xen_host_cpus", "Physical CPUs of the host.", lambda host: host.cpus),
    Figure("xen_host_cpu_hertz", "Clock rate of the host's physical CPUs, in hertz.", lambda host: host.cpu_hertz),
    Figure("xen_host_memory_bytes", "Memory of the host, in bytes.", lambda host: host.memory_bytes),
    Figure("xen_host_memory_free_bytes", "Memory given to no domain, in bytes.", lambda host: host.memory_free_bytes),
    Figure(
        "xen_host_vcpus",
        "vCPUs of all domains that are online, Dom0's included.",
        lambda host: _online([vcpu.online for domain in host.domains for vcpu in domain.vcpus]),
    ),
    Figure("xen_host_domains", "Domains on the host, Dom0 included.", lambda host: len(host.domains)),
]

DOMAIN: list[Figure[Domain]] = [
    Figure(
        "xen_domain_cpu_seconds_total",
        "CPU time the domain has used on all its vCPUs, in seconds (whole ones from source xentop).",
        lambda domain: domain.cpu_seconds,
    ),
    Figure("xen_domain_vcpus", "vCPUs the domain has, online or not.", lambda domain: len(domain.vcpus)),
    Figure("xen_domain_memory_bytes", "Memory the domain has now, in bytes.", lambda domain: domain.memory_bytes),
    Figure(
        "xen_domain_memory_limit_bytes",
        "Memory the domain may have at most, in bytes; absent where it has no limit.",
        lambda domain: domain.memory_limit_bytes,
    ),
]

VCPU: list[Figure[Vcpu]] = [
    Figure(
        "xen_vcpu_cpu_seconds_total",
        "CPU time the vCPU has used, in seconds (whole ones from source xentop).",
        lambda vcpu: vcpu.cpu_seconds,
    ),
    Figure("xen_vcpu_online", "1 if the vCPU is online, else 0.", lambda vcpu: vcpu.online),
]

NETWORK: list[Figure[Network]] = [
    Figure(
        "xen_domain_network_receive_bytes_total",
        "Bytes the guest received on this virtual interface.",
        lambda network: network.receive.bytes,
    ),
    Figure(
        "xen_domain_network_receive_packets_total",
        "Packets the guest received on this virtual interface.",
        lambda network: network.receive.packets,
    ),
    Figure(
        "xen_domain_network_receive_errors_total",
        "Errors on the way to the guest on this virtual interface.",
        lambda network: network.receive.errors,
    ),
    Figure(
        "xen_domain_network_receive_drops_total",
        "Packets dropped on the way to the guest on this virtual interface.",
        lambda network: network.receive.drops,
    ),
    Figure(
        "xen_domain_network_transmit_bytes_total",
        "Bytes the guest sent on this virtual interface.",
        lambda network: network.transmit.bytes,
    ),
    Figure(
        "xen_domain_network_transmit_packets_total",
        "Packets the guest sent on this virtual interface.",
        lambda network: network.transmit.packets,
    ),
    Figure(
        "xen_domain_network_transmit_errors_total",
        "Errors on what the guest sent on this virtual interface.",
        lambda network: network.transmit.errors,
    ),
    Figure(
        "xen_domain_network_transmit_drops_total",
        "Packets dropped of what the guest sent on this virtual interface.",
        lambda network: network.transmit.drops,
    ),
]

BLOCK: list[Figure[Block]] = [
    Figure(
        "xen_domain_block_read_requests_total",
        "Read requests of this virtual block device.",
        lambda block: block.read and block.read.requests,
    ),
    Figure(
        "xen_domain_block_read_bytes_total",
        "Bytes read from this virtual block device.",
        lambda block: block.read and block.read.bytes,
    ),
    Figure(
        "xen_domain_block_write_requests_total",
        "Write requests of this virtual block device.",
        lambda block: block.write and block.write.requests,
    ),
    Figure(
        "xen_domain_block_write_bytes_total",
        "Bytes written to this virtual block device.",
        lambda block: block.write and block.write.bytes,
    ),
    Figure(
        "xen_domain_block_out_of_requests_total",
        "Times the back end had no request slot left for this virtual block device.",
        lambda block: block.out_of_requests,
    ),
]

WAITING: list[Figure[Waiting]] = [
    Figure(
        "xen_domain_runstate_missed_changes_total",
        "Changes of the domain's run state that the hypervisor did not record: the time up to the next one went to the "
        "state before.",
        lambda waiting: waiting.missed_changes,
    ),
    Figure(
        "xen_domain_runnable_seconds_total",
        "Time the domain's vCPUs were runnable and waited for a CPU, summed over its vCPUs, in seconds; absent where "
        "the hypervisor keeps run states of whole domains only.",
        lambda waiting: waiting.runnable_seconds,
    ),
]


def families(host: Host) -> list[Metric]:
    """Return everything that is known of the host and its domains.

    Every guest's series carry `domid` and `domain`: names repeat and change, ids don't while a domain lives. Where the
    source has no ids, `domid` is "" (Dom0: "0"; several domains of one name: "twin-1" and so on). See the same figures
    by hand with `xentop -b -f -n -x -v -i 1`.

        xen_host_info{version="4.17.7"} 1
        xen_host_cpus 4
        xen_domain_info{domid="3",domain="web01",role="guest",uuid="",type="",os="",cpupool="",ssid="0"} 1
        xen_domain_state{domid="3",domain="web01",state="blocked"} 1
        xen_domain_cpu_seconds_total{domid="3",domain="web01"} 1234.567890123
        xen_vcpu_cpu_seconds_total{domid="3",domain="web01",vcpu="0"} 1234.567890123
        xen_domain_network_receive_bytes_total{domid="3",domain="web01",vif="0"} 4096
        xen_domain_block_read_bytes_total{domid="3",domain="web01",vbd="xvda"} 512
        xentop_missing_devices{device="network"} 0
    """
    domains = [({"domid": _domid(domain), "domain": domain.name}, domain) for domain in host.domains]
    vcpus = [
        ({**labels, "vcpu": str(number)}, vcpu)
        for labels, domain in domains
        for number, vcpu in enumerate(domain.vcpus)
    ]
    networks = [({**labels, "vif": network.vif}, network) for labels, domain in domains for network in domain.networks]
    blocks = [({**labels, "vbd": block.vbd}, block) for labels, domain in domains for block in domain.blocks]
    return [
        info("xen_host", "The hypervisor's version.", [{"version": host.xen_version}] if host.xen_version else []),
        *series(HOST, [({}, host)]),
        info(
            "xen_domain",
            "Who this domain is: role (dom0 or guest), uuid, type (pv, hvm or pvh), os, CPU pool, ssid; what isn't "
            "known is empty.",
            [_facts(*each) for each in domains],
        ),
        _states(domains),
        *series(DOMAIN, domains),
        *series(VCPU, vcpus),
        *series(NETWORK, networks),
        info(
            "xen_domain_block",
            "The back end of this virtual block device and its number as major:minor in hex.",
            [{**labels, "type": block.type, "device": block.device} for labels, block in blocks],
        ),
        *series(BLOCK, blocks),
        *domain_families([(labels, domain.told) for labels, domain in domains if domain.told]),
        family(
            "xentop_missing_devices",
            "vCPUs, network interfaces and block devices that are in no series although the source counts them, as "
            "what it tells of them is missing, malformed or ambiguous (several under one number).",
            [({"device": kind}, count) for kind, count in zip(("vcpu", "network", "block"), host.missing)],
        ),
    ]


def waiting_families(domains: Sequence[Waiting]) -> list[Metric]:
    """Return how long domains waited for a CPU.

    xen_domain_runstate_seconds_total{domid="3",domain="web01",runstate="full_contention"} 12.5
    xen_domain_runstate_missed_changes_total{domid="3",domain="web01"} 7
    xen_domain_runnable_seconds_total{domid="3",domain="web01"} 31.25
    """
    labelled = [({"domid": str(domain.domid), "domain": domain.name}, domain) for domain in domains]
    return [
        family(
            "xen_domain_runstate_seconds_total",
            "Time that the domain's vCPUs, without those that it took offline, spent together in this run state, in "
            "seconds. full_run: all running; full_contention: all runnable, waiting for a CPU; concurrency_hazard: "
            "some running, some runnable; partial_run: some running, the others blocked; partial_contention: some "
            "runnable, the others blocked; blocked: all blocked. Only growth counts: full_run starts at the host's "
            "uptime.",
            (
                ({**labels, "runstate": state}, seconds)
                for labels, domain in labelled
                for state, seconds in domain.runstate_seconds.items()
            ),
        ),
        *series(WAITING, labelled),
    ]


def text_families(iteration: Iteration, unknown_lines: int) -> list[Metric]:
    """Return what is told of xentop itself, beside the host that it described.

    xentop_iteration_age_seconds 1.4
    xentop_iteration_unknown_lines 0
    xentop_child_starts_total 1
    """
    return [
        GaugeMetricFamily(
            "xentop_iteration_age_seconds",
            "Age of the figures, in seconds at most: since xentop printed the line before this iteration.",
            iteration.age,
        ),
        GaugeMetricFamily(
            "xentop_iteration_unknown_lines",
            "Lines of this iteration that could not be understood, and are in no series.",
            unknown_lines,
        ),
        CounterMetricFamily("xentop_child_starts", "Times that xentop was started.", iteration.starts),
    ]


def _online(vcpus: Sequence[bool | None]) -> int | None:
    return None if None in vcpus else vcpus.count(True)


def _domid(domain: Domain) -> str:
    """Return the id; without one "", or for one of several domains of a name what is never another's: "twin-2"."""
    if domain.domid is not None:
        return str(domain.domid)
    return f"twin-{domain.namesake}" if domain.namesake else ""


def _facts(labels: Labels, domain: Domain) -> Labels:
    # By number and not by name: a guest may be called Domain-0.
    role = "dom0" if domain.domid == DOM0 else "guest"
    told = domain.told
    facts = {"uuid": told.uuid, "type": told.type, "os": told.os, "cpupool": told.cpupool} if told else _UNTOLD
    return {**labels, "role": role, **facts, "ssid": str(domain.ssid)}


def _states(domains: Sequence[tuple[Labels, Domain]]) -> Metric:
    return family(
        "xen_domain_state",
        "1 if the domain is in this state, else 0. In none of them: runnable, and waiting for a CPU.",
        (({**labels, "state": state}, state in domain.states) for labels, domain in domains for state in STATES),
    )
