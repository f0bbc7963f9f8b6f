"""The records of every platform agree about the same simulated host, as each platform's exporters show it.

A host with 4 CPUs, a web server, a database, and the host's own work; it answers 20 requests a second in 50 ms each,
with an objective of 100 ms. The machine without virtualisation does all the work itself.
What a platform can't report is absent: the tables below say so, record by record.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import pytest
import yaml

from tests.support import Exposition, Prometheus

TOLERANCE = 0.02
PATIENCE_SECONDS = 90  # a rate is over a minute, in which a busy machine may have scraped late
CPUS = 4
REQUESTS = 20.0  # per second
RESPONSE = 0.05  # seconds
PROMISED = 0.1


@dataclass(frozen=True)
class Server:
    """The true values of a virtual server: CPUs, bytes, bytes per second, events per second."""

    cpu: float
    wait: float
    memory: float
    receive: float
    transmit: float
    read: float
    write: float
    instructions: float
    cycles: float
    llc_misses: float
    dtlb_misses: float
    itlb_misses: float
    overhead: float  # CPUs of the host's own work, by whom it is done for
    exits: float


SERVERS = {
    "host": Server(0.4, 0.0, 5e8, 0, 0, 0, 0, 4e8, 8e8, 4e6, 2e6, 1e6, 0.2, 0),
    "web": Server(0.6, 0.3, 2e9, 1e5, 4e5, 5e4, 2e4, 9e8, 1e9, 3e6, 2e6, 1e6, 0.15, 2000),
    "db": Server(0.3, 0.1, 1e9, 3e4, 7e4, 1e5, 8e4, 5e8, 6e8, 4e6, 1e6, 5e5, 0.05, 500),
}
SERVERS["machine"] = Server(*map(sum, zip(*map(astuple, SERVERS.values()), strict=True)))
HOST, MACHINE = SERVERS["host"], SERVERS["machine"]
CAP, WEIGHT, MEMORY_LIMIT = 2.0, 512.0, 4e9  # of each guest
MEASURED = 0.5  # the share of the time in which events are counted

GUESTS = ("web", "db")
ALL = ("host", *GUESTS)

# Their names on each platform.
NAMES = {
    "xen": {"host": "Domain-0", "web": "web", "db": "db"},
    "kvm": {"host": "kvm", "web": "web_1", "db": "db"},
    "openvz": {"host": "openvz", "web": "101", "db": "102"},
    "cgroup": {"host": "cgroup", "web": "virtscope/web", "db": "virtscope/db"},
    "base": {"machine": "base"},
}

# Libvirt's and Proxmox's.
KVM_CGROUPS = {"web": r"/machine.slice/machine-qemu\\x2d1\\x2dweb1.scope", "db": "/qemu.slice/100.scope"}

# Of the time that each guest waits, the share in which each ran. Waiting for its own cap comes on top.
WAITED = {"neighbour": 0.6, "self": 0.2, "host": 0.15, "wakeup": 0.05}
HELD_BACK = 0.2  # seconds per second, by its cap

Feed = Iterator[str]
"""The lines of an exposition, in which `~RATE` is a counter that grows by RATE per second."""


def counting(lines: list[str]) -> Callable[[], str]:
    """The lines as an exporter would show them at the time of each scrape."""
    text = "\n".join(lines) + "\n"
    return lambda: re.sub(r"~(\S+)", lambda rate: f"{float(rate[1]) * time.monotonic():.9f}", text)


def xentop() -> Feed:
    yield f"xen_host_cpus {CPUS}"
    yield f"xen_host_vcpus {2 * CPUS}"
    for domid, server in enumerate(ALL):
        domain, true = f'domid="{domid}",domain="{NAMES["xen"][server]}"', SERVERS[server]
        yield f"xen_domain_cpu_seconds_total{{{domain}}} ~{true.cpu}"
        yield f"xen_domain_memory_bytes{{{domain}}} {true.memory}"
        if server in GUESTS:
            yield f"xen_domain_runnable_seconds_total{{{domain}}} ~{true.wait}"
            yield f"xen_domain_cpu_limit_cpus{{{domain}}} {CAP}"
            yield f"xen_domain_scheduler_weight{{{domain}}} {WEIGHT}"
            yield f'xen_domain_scheduler_changes_total{{{domain},what="weight"}} 3'
            yield f"xen_domain_memory_limit_bytes{{{domain}}} {MEMORY_LIMIT}"
            for direction in ("receive", "transmit"):
                yield f'xen_domain_network_{direction}_bytes_total{{{domain},vif="0"}} ~{getattr(true, direction)}'
            for direction in ("read", "write"):
                yield f'xen_domain_block_{direction}_bytes_total{{{domain},vbd="xvda"}} ~{getattr(true, direction)}'


def kvm() -> Feed:
    yield f"kvm_host_cpus {CPUS}"
    yield f"kvm_host_cpu_seconds_total ~{MACHINE.cpu}"
    yield f"kvm_host_guest_seconds_total ~{sum(SERVERS[server].cpu for server in GUESTS)}"
    managers = {"web": 'manager="libvirt",id="1"', "db": 'manager="proxmox",id="100"'}
    for pid, server in enumerate(GUESTS, start=100):
        guest, true = f'guest="{NAMES["kvm"][server]}",pid="{pid}"', SERVERS[server]
        yield f"kvm_guest_info{{{guest},{managers[server]}}} 1"
        yield f'kvm_guest_cgroup_info{{{guest},cgroup="{KVM_CGROUPS[server]}"}} 1'
        yield f"kvm_guest_cpu_seconds_total{{{guest}}} ~{true.cpu + true.overhead}"
        yield f"kvm_guest_guest_seconds_total{{{guest}}} ~{true.cpu}"
        yield f"kvm_guest_vcpus{{{guest}}} {CPUS}"
        for vcpu in range(CPUS):
            yield f'kvm_vcpu_run_seconds_total{{{guest},vcpu="{vcpu}"}} ~{true.cpu / CPUS}'
            yield f'kvm_vcpu_wait_seconds_total{{{guest},vcpu="{vcpu}"}} ~{true.wait / CPUS}'
            yield f'kvm_vcpu_exits_total{{{guest},vcpu="{vcpu}"}} ~{true.exits / CPUS}'
        yield f"kvm_guest_cpu_limit_cpus{{{guest}}} {CAP}"
        yield f"kvm_guest_cpu_weight{{{guest}}} {WEIGHT}"
        yield f'kvm_guest_throttled_seconds_total{{{guest},part="all"}} 0'
        yield f"kvm_guest_memory_resident_bytes{{{guest}}} {true.memory}"
        yield f"kvm_guest_memory_limit_bytes{{{guest}}} {MEMORY_LIMIT}"
        for direction in ("receive", "transmit"):
            series = f'kvm_guest_network_{direction}_bytes_total{{{guest},device="vnet{pid}"}}'
            yield f"{series} ~{getattr(true, direction)}"
        for direction in ("read", "write"):
            yield f'kvm_guest_block_{direction}_bytes_total{{{guest},device="vda"}} ~{getattr(true, direction)}'


def vestat() -> Feed:
    yield f"openvz_host_containers {len(GUESTS)}"
    for direction in ("read", "write"):
        yield f'openvz_container_io_{direction}_bytes_total{{ctid="0"}} ~{getattr(HOST, direction)}'
    for server in GUESTS:
        ctid, true = f'ctid="{NAMES["openvz"][server]}"', SERVERS[server]
        yield f"openvz_container_cpu_used_seconds_total{{{ctid}}} ~{true.cpu}"
        yield f"openvz_container_scheduling_latency_seconds_total{{{ctid}}} ~{true.wait}"
        yield f'openvz_beancounter_held_bytes{{{ctid},resource="physpages"}} {true.memory}'
        yield f'openvz_beancounter_limit_bytes{{{ctid},resource="physpages"}} {MEMORY_LIMIT}'
        for direction in ("read", "write"):
            yield f"openvz_container_io_{direction}_bytes_total{{{ctid}}} ~{getattr(true, direction)}"


def cadvisor() -> Feed:
    yield f"machine_cpu_cores {CPUS}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    for server in GUESTS:
        cgroup, true = f'id="/{NAMES["cgroup"][server]}"', SERVERS[server]
        yield f"container_start_time_seconds{{{cgroup}}} 1e9"
        yield f'container_cpu_usage_seconds_total{{{cgroup},cpu="total"}} ~{true.cpu}'
        yield f"container_pressure_cpu_waiting_seconds_total{{{cgroup}}} ~{true.wait}"
        yield f"container_cpu_cfs_throttled_seconds_total{{{cgroup}}} 0"
        yield f"container_spec_cpu_quota{{{cgroup}}} {CAP * 1e5}"
        yield f"container_spec_cpu_shares{{{cgroup}}} {WEIGHT}"
        yield f"container_spec_cpu_period{{{cgroup}}} 1e5"
        yield f"container_memory_working_set_bytes{{{cgroup}}} {true.memory}"
        yield f"container_spec_memory_limit_bytes{{{cgroup}}} {MEMORY_LIMIT}"
        for direction in ("receive", "transmit"):
            series = f'container_network_{direction}_bytes_total{{{cgroup},interface="eth0"}}'
            yield f"{series} ~{getattr(true, direction)}"
        for direction in ("read", "write"):
            yield f'container_fs_{direction}s_bytes_total{{{cgroup},device="/dev/sda"}} ~{getattr(true, direction)}'


def node(true: Server) -> Feed:
    for cpu in range(CPUS):
        yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="user"}} ~{true.cpu / CPUS}'
        yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="idle"}} ~{1 - true.cpu / CPUS}'
    yield "node_memory_MemTotal_bytes 16e9"
    yield f"node_memory_MemAvailable_bytes {16e9 - true.memory}"
    for direction in ("receive", "transmit"):
        yield f'node_network_{direction}_bytes_total{{device="eth0"}} ~{getattr(true, direction)}'
    yield f'node_disk_read_bytes_total{{device="sda"}} ~{true.read}'
    yield f'node_disk_written_bytes_total{{device="sda"}} ~{true.write}'


def perf(true: Server, cgroups: Mapping[str, Server] | None = None) -> Feed:
    """Events of a whole machine, or of a Dom0 or guest counting its own; and of cgroups in it."""
    yield from _events("perf_events_total", "perf_group", 'cpu="0",pmu=""', true)
    for cgroup, part in (cgroups or {}).items():
        yield from _events("perf_cgroup_events_total", "perf_cgroup_group", f'cgroup="{cgroup}",pmu=""', part)


def _events(counter: str, group_times: str, labels: str, true: Server) -> Feed:
    groups = {
        "cache": {"instructions": true.instructions, "cycles": true.cycles, "cache-misses": true.llc_misses},
        "tlb": {
            "instructions": true.instructions,
            "dTLB-load-misses": true.dtlb_misses,
            "iTLB-load-misses": true.itlb_misses,
        },
    }
    for group, events in groups.items():
        yield f'{group_times}_enabled_seconds_total{{{labels},group="{group}"}} ~1'
        yield f'{group_times}_running_seconds_total{{{labels},group="{group}"}} ~{MEASURED}'
        for event, rate in events.items():
            yield f'{counter}{{{labels},group="{group}",event="{event}"}} ~{rate}'


def sched(cgroups: Mapping[str, str]) -> Feed:
    """Who ran while a guest waited: the other one, itself, a service or the kernel, nobody."""
    yield "sched_switches_total ~30000"
    for server, cgroup in cgroups.items():
        (other,) = set(cgroups.values()) - {cgroup}
        yield f'sched_waits_total{{cgroup="{cgroup}"}} ~100'
        running = {
            other: WAITED["neighbour"],
            cgroup: WAITED["self"],
            "/system.slice/cron.service": WAITED["host"] / 3,
            "(host)": WAITED["host"] * 2 / 3,
            "(idle)": WAITED["wakeup"],
        }
        for runs, share in running.items():
            labels = f'cgroup="{cgroup}",running="{runs}"'
            yield f"sched_wait_seconds_total{{{labels}}} ~{share * SERVERS[server].wait}"
        yield f'sched_wait_seconds_total{{cgroup="{cgroup}",running="(cap)"}} ~{HELD_BACK}'


def sensor() -> Feed:
    """The sensor of an access log: all answers take at most 0.1 s."""
    labels = 'app="shop",tier="web",method="GET",status="2xx"'
    for edge in ("0.1", "0.3", "+Inf"):
        yield f'app_request_duration_seconds_bucket{{{labels},le="{edge}"}} ~{REQUESTS}'
    yield f"app_request_duration_seconds_sum{{{labels}}} ~{REQUESTS * RESPONSE}"
    yield f"app_request_duration_seconds_count{{{labels}}} ~{REQUESTS}"


def targets(stack: ExitStack) -> dict[str, list[dict[str, Any]]]:
    """Starts the exporters of five hosts, each named after its platform; returns their entries for targets files."""
    jobs: dict[str, list[dict[str, Any]]] = {}

    def watch(job: str, feed: Feed, host: str, platform: str | None = None, **labels: str) -> None:
        address = stack.enter_context(Exposition(counting(list(feed)))).address
        group = {"targets": [address], "labels": {"host": host, "platform": platform or host, **labels}}
        jobs.setdefault(job, []).append(group)

    watch("xentop", xentop(), "xen")
    watch("perf", perf(HOST), "xen")
    watch("kvm", kvm(), "kvm")
    watch("perf", perf(MACHINE, {KVM_CGROUPS[s]: SERVERS[s] for s in GUESTS}), "kvm")
    watch("sched", sched(KVM_CGROUPS), "kvm")
    watch("vestat", vestat(), "openvz")
    watch("node", node(MACHINE), "openvz")
    watch("perf", perf(MACHINE, {f"/machine.slice/{NAMES['openvz'][s]}": SERVERS[s] for s in GUESTS}), "openvz")
    watch("cadvisor", cadvisor(), "cgroup")
    watch("node", node(MACHINE), "cgroup", "base")
    watch("perf", perf(MACHINE, {f"/{NAMES['cgroup'][s]}": SERVERS[s] for s in GUESTS}), "cgroup", "base")
    watch("sched", sched({s: f"/{NAMES['cgroup'][s]}" for s in GUESTS}), "cgroup", "base")
    watch("node", node(MACHINE), "base")
    watch("perf", perf(MACHINE), "base")
    for server in GUESTS:
        watch("guest", perf(SERVERS[server]), "xen", vserver=NAMES["xen"][server])
        watch("guest", node(SERVERS[server]), "openvz", vserver=NAMES["openvz"][server])
    for platform in NAMES:
        watch("telegraf", sensor(), platform)
    return jobs


def objectives() -> str:
    """Rules as `make rules` would write them: which application the virtual servers belong to, and its objective."""
    by_server = {server: [names[server] for names in NAMES.values() if server in names] for server in SERVERS}
    tiers = {"web": "|".join(by_server["web"] + by_server["machine"]), "db": "|".join(by_server["db"])}
    mapped = [
        {
            "record": "vserver:app:info",
            "expr": f'group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{vserver=~"{names}"}})',
            "labels": {"app": "shop", "tier": tier},
        }
        for tier, names in tiers.items()
    ]
    promised = {
        "record": "app:slo_threshold:seconds",
        "expr": f"0 * sum by (host, platform, app) (requests:duration_seconds_count:rate1m) + {PROMISED}",
        "labels": {"objective": "mean"},
    }
    return yaml.safe_dump({"groups": [{"name": "objectives of shop", "rules": [*mapped, promised]}]})


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with ExitStack() as stack:
        prometheus = Prometheus(tmp_path_factory.mktemp("conformance"), targets(stack))
        (prometheus.folder / "alerts/generated/shop.yml").write_text(objectives())
        stack.enter_context(prometheus)
        all_of_them = f"count(app:cpu_per_request:seconds) == {len(NAMES)}"  # depends on nearly all others
        prometheus.wait_for(all_of_them, seconds=90)
        yield prometheus


def waiting_for(share: float, true: Server) -> float:
    return share * true.wait


# Records of virtual servers: the true value, and for which of them each platform has it; elsewhere it is absent.
_MACHINE = ("machine",)
EVERY = {platform: tuple(names) for platform, names in NAMES.items()}
OF_GUESTS = {platform: GUESTS for platform, names in NAMES.items() if names.keys() >= set(GUESTS)}
MEASURED_WAITS = {"kvm": GUESTS, "cgroup": GUESTS}
VIRTUAL_SERVERS: dict[str, tuple[Callable[[Server], float], Mapping[str, tuple[str, ...]]]] = {
    "vserver:cpu_usage:rate": (lambda true: true.cpu, EVERY),
    "vserver:cpu_wait:rate": (lambda true: true.wait, OF_GUESTS),
    # Its parts are all of it, and its cap's part is none of it.
    'sum without (reason, by) (vserver:cpu_wait_caused:rate{reason!="cap"})': (lambda true: true.wait, MEASURED_WAITS),
    **{
        f'sum without (reason, by) (vserver:cpu_wait_caused:rate{{reason="{reason}"}})': (
            partial(waiting_for, share),
            MEASURED_WAITS,
        )
        for reason, share in WAITED.items()
    },
    'sum without (reason, by) (vserver:cpu_wait_caused:rate{reason="cap"})': (lambda _: HELD_BACK, MEASURED_WAITS),
    "vserver:cpu_demand:rate": (lambda true: true.cpu + true.wait, OF_GUESTS),
    "vserver:cpu_granted:ratio": (lambda true: true.cpu / (true.cpu + true.wait), OF_GUESTS),
    "vserver:cpu_limit:cpus": (lambda _: CAP, {"xen": GUESTS, "kvm": GUESTS, "cgroup": GUESTS}),
    "vserver:cpu_weight:shares": (lambda _: WEIGHT, {"xen": GUESTS, "kvm": GUESTS, "cgroup": GUESTS}),
    "vserver:cpu_throttled:rate": (lambda _: 0.0, {"kvm": GUESTS, "cgroup": GUESTS}),
    "vserver:overhead_cpu:rate": (lambda true: true.overhead, {"kvm": ALL}),
    "vserver:exits:rate": (lambda true: true.exits, {"kvm": GUESTS}),
    "vserver:memory:bytes": (lambda true: true.memory, OF_GUESTS | {"xen": ALL, "base": _MACHINE}),
    "vserver:memory_limit:bytes": (lambda _: MEMORY_LIMIT, OF_GUESTS),
    'vserver:network_bytes:rate{direction="receive"}': (lambda true: true.receive, OF_GUESTS | {"base": _MACHINE}),
    'vserver:network_bytes:rate{direction="transmit"}': (lambda true: true.transmit, OF_GUESTS | {"base": _MACHINE}),
    'vserver:disk_bytes:rate{direction="read"}': (
        lambda true: true.read,
        OF_GUESTS | {"openvz": ALL, "base": _MACHINE},
    ),
    'vserver:disk_bytes:rate{direction="write"}': (
        lambda true: true.write,
        OF_GUESTS | {"openvz": ALL, "base": _MACHINE},
    ),
    "vserver:instructions:rate": (lambda true: true.instructions, EVERY),
    "vserver:cycles:rate": (lambda true: true.cycles, EVERY),
    "vserver:llc_misses:rate": (lambda true: true.llc_misses, EVERY),
    "vserver:dtlb_misses:rate": (lambda true: true.dtlb_misses, EVERY),
    "vserver:itlb_misses:rate": (lambda true: true.itlb_misses, EVERY),
    "vserver:ipc:ratio": (lambda true: true.instructions / true.cycles, EVERY),
    "vserver:llc_misses_per_instruction:ratio": (lambda true: true.llc_misses / true.instructions, EVERY),
    "vserver:dtlb_misses_per_instruction:ratio": (lambda true: true.dtlb_misses / true.instructions, EVERY),
    "vserver:itlb_misses_per_instruction:ratio": (lambda true: true.itlb_misses / true.instructions, EVERY),
    'vserver:events_measured:ratio{group="cache"}': (lambda _: MEASURED, EVERY),
    "vserver:traffic:rate": (lambda true: true.receive + true.transmit, OF_GUESTS | {"base": _MACHINE}),
    "vserver:instructions_per_byte:ratio": (
        lambda true: true.instructions / (true.receive + true.transmit),
        OF_GUESTS | {"base": _MACHINE},
    ),
    "vserver:cycles_per_byte:ratio": (
        lambda true: true.cycles / (true.receive + true.transmit),
        OF_GUESTS | {"base": _MACHINE},
    ),
    "vserver:cpu_per_byte:seconds": (
        lambda true: true.cpu / (true.receive + true.transmit),
        OF_GUESTS | {"base": _MACHINE},
    ),
    "vserver:requests:rate": (lambda _: REQUESTS, OF_GUESTS | {"base": _MACHINE}),
    "vserver:instructions_per_request:ratio": (
        lambda true: true.instructions / REQUESTS,
        OF_GUESTS | {"base": _MACHINE},
    ),
    "vserver:cpu_per_request:seconds": (lambda true: true.cpu / REQUESTS, OF_GUESTS | {"base": _MACHINE}),
}

_GUESTS_CPU = MACHINE.cpu - HOST.cpu
_FREE = CPUS - MACHINE.cpu
VIRTUALISED = tuple(OF_GUESTS)
EVERYWHERE = tuple(NAMES)
# Records of the host and of its application: the true value, and which platforms have it.
OF_ONE: dict[str, tuple[float, tuple[str, ...]]] = {
    "host:cpu_capacity:cpus": (CPUS, EVERYWHERE),
    "host:cpu_usage:rate": (MACHINE.cpu, EVERYWHERE),
    "host:guests_cpu_usage:rate": (_GUESTS_CPU, VIRTUALISED),
    "host:guests_network_bytes:rate": (MACHINE.receive + MACHINE.transmit, VIRTUALISED),
    "host:cpu_free:cpus": (_FREE, EVERYWHERE),
    "host:guests:count": (len(GUESTS), VIRTUALISED),
    "host:busy_guests:count": (len(GUESTS), VIRTUALISED),
    "host:vcpu_overcommit:ratio": (2, ("xen", "kvm")),
    "host:busy_overcommit:ratio": ((MACHINE.cpu + MACHINE.wait) / CPUS, VIRTUALISED),
    "host:cpu_granted_expected:ratio": (1, VIRTUALISED),
    "host:reallocations:rate": (0, ("xen", "kvm", "cgroup")),
    "host:overhead_cpu:rate": (HOST.cpu, VIRTUALISED),
    "host:overhead:ratio": (HOST.cpu / MACHINE.cpu, VIRTUALISED),
    "host:overhead_per_guest_cpu:ratio": (HOST.cpu / _GUESTS_CPU, VIRTUALISED),
    "host:overhead_per_guest_byte:seconds": (HOST.cpu / (MACHINE.receive + MACHINE.transmit), VIRTUALISED),
    "host:overhead_per_request:seconds": (HOST.cpu / REQUESTS, VIRTUALISED),
    "host:consolidation:apps": (1, EVERYWHERE),
    "host:cpu_per_app:cpus": (MACHINE.cpu, EVERYWHERE),
    "host:headroom_cpu:apps": (_FREE / MACHINE.cpu, EVERYWHERE),
    "host:headroom:apps": (_FREE / MACHINE.cpu * (1 - RESPONSE / PROMISED), EVERYWHERE),
    "host:instructions:rate": (MACHINE.instructions, EVERYWHERE),
    "host:llc_misses_per_instruction:ratio": (MACHINE.llc_misses / MACHINE.instructions, EVERYWHERE),
    "host:ipc:ratio": (MACHINE.instructions / MACHINE.cycles, EVERYWHERE),
    "host:events_covered:ratio": (1, EVERYWHERE),
    "host:traffic:rate": (MACHINE.receive + MACHINE.transmit, EVERYWHERE),
    "host:instructions_per_byte:ratio": (MACHINE.instructions / (MACHINE.receive + MACHINE.transmit), EVERYWHERE),
    "host:cycles_per_byte:ratio": (MACHINE.cycles / (MACHINE.receive + MACHINE.transmit), EVERYWHERE),
    "host:cpu_per_byte:seconds": (MACHINE.cpu / (MACHINE.receive + MACHINE.transmit), EVERYWHERE),
    "host:requests:rate": (REQUESTS, EVERYWHERE),
    "host:instructions_per_request:ratio": (MACHINE.instructions / REQUESTS, EVERYWHERE),
    "host:cpu_per_request:seconds": (MACHINE.cpu / REQUESTS, EVERYWHERE),
    "app:requests:rate": (REQUESTS, EVERYWHERE),
    "app:errors:ratio": (0, EVERYWHERE),
    "app:response_seconds:mean": (RESPONSE, EVERYWHERE),
    "app:response_seconds:p99": (0.099, EVERYWHERE),
    "app:slo_response:ratio": (RESPONSE / PROMISED, EVERYWHERE),
    "app:cpu_per_request:seconds": (MACHINE.cpu / REQUESTS, EVERYWHERE),
    # All waiting over all usage.
    "app:cpu_wait_per_cpu:ratio": (MACHINE.wait / _GUESTS_CPU, VIRTUALISED),
}


# Of its waiting, what its own virtual servers are to blame for, and nobody as a neighbour.
OF_WAITING = {"self": WAITED["neighbour"] + WAITED["self"], "host": WAITED["host"], "wakeup": WAITED["wakeup"]}


def becomes(recorded: Callable[[], dict[str, float]], true: dict[str, float]) -> None:
    """Waits until the recorded values are the true ones, within the tolerance; fails with the difference."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (values := recorded()) != pytest.approx(true, rel=TOLERANCE) and time.monotonic() < deadline:
        time.sleep(1)
    assert values == pytest.approx(true, rel=TOLERANCE)


@pytest.mark.parametrize("platform", EVERYWHERE)
@pytest.mark.parametrize("record", VIRTUAL_SERVERS)
def test_platforms_agree_about_virtual_servers(prometheus: Prometheus, record: str, platform: str) -> None:
    of, platforms = VIRTUAL_SERVERS[record]
    names = NAMES[platform]
    query = f'{record} and on (host, platform) vserver:cpu_usage:rate{{host="{platform}",platform="{platform}"}}'
    becomes(
        lambda: {series["metric"]["vserver"]: float(series["value"][1]) for series in prometheus.query(query)},
        {names[server]: of(SERVERS[server]) for server in platforms.get(platform, ())},
    )


@pytest.mark.parametrize("platform", EVERYWHERE)
@pytest.mark.parametrize("record", OF_ONE)
def test_platforms_agree_about_hosts_and_applications(prometheus: Prometheus, record: str, platform: str) -> None:
    true, platforms = OF_ONE[record]
    query = f'{record}{{host="{platform}",platform="{platform}"}}'
    becomes(
        lambda: {series["metric"]["host"]: float(series["value"][1]) for series in prometheus.query(query)},
        {platform: true} if platform in platforms else {},
    )


@pytest.mark.parametrize("platform", MEASURED_WAITS)
def test_an_applications_own_virtual_servers_are_no_neighbours_of_it(prometheus: Prometheus, platform: str) -> None:
    query = f'sum by (reason) (app:cpu_wait_caused:rate{{host="{platform}",platform="{platform}",reason!="cap"}})'
    becomes(
        lambda: {series["metric"]["reason"]: float(series["value"][1]) for series in prometheus.query(query)},
        {reason: share * MACHINE.wait for reason, share in OF_WAITING.items()},
    )
