"""What exporters expose of machines and virtual servers whose true values are known and constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

Feed = Iterator[str]


@dataclass(frozen=True)
class Server:
    """The true values of a machine or a virtual server: CPUs, bytes, bytes or events per second. 0 isn't exposed."""

    cpu: float = 0
    wait: float = 0
    memory: float = 0
    receive: float = 0
    transmit: float = 0
    read: float = 0
    write: float = 0
    instructions: float = 0
    cycles: float = 0
    llc_misses: float = 0
    dtlb_misses: float = 0
    itlb_misses: float = 0
    overhead: float = 0  # CPUs of the host's own work, by whom it is done for
    exits: float = 0
    cap: float = 0
    weight: float = 0
    memory_limit: float = 0
    changes: float = 0  # of cap or weight
    throttled: float = 0

    @property
    def traffic(self) -> float:
        return self.receive + self.transmit


def total(servers: Sequence[Server]) -> Server:
    """A machine on which these run."""
    return Server(*map(sum, zip(*map(astuple, servers), strict=True)))


def counters(labels: str, rates: Mapping[str, float]) -> Feed:
    for metric, rate in rates.items():
        if rate:
            yield f"{metric}{{{labels}}} ~{rate}"


def gauges(labels: str, values: Mapping[str, float]) -> Feed:
    for metric, value in values.items():
        if value:
            yield f"{metric}{{{labels}}} {value}"


def xentop(domains: Mapping[str, Server], cpus: int, vcpus: int) -> Feed:
    """A Xen host; Dom0 is the first."""
    yield f"xen_host_cpus {cpus}"
    yield f"xen_host_vcpus {vcpus}"
    for domid, (name, true) in enumerate(domains.items()):
        of = f'domid="{domid}",domain="{name}"'
        yield from counters(of, {"xen_domain_cpu_seconds_total": true.cpu})
        yield from counters(of, {"xen_domain_runnable_seconds_total": true.wait})
        yield from gauges(
            of,
            {
                "xen_domain_memory_bytes": true.memory,
                "xen_domain_memory_limit_bytes": true.memory_limit,
                "xen_domain_cpu_limit_cpus": true.cap,
                "xen_domain_scheduler_weight": true.weight,
            },
        )
        if true.weight:
            yield f'xen_domain_scheduler_changes_total{{{of},what="cap"}} 3~{true.changes}'
        yield from _moved(
            true,
            f'xen_domain_network_WAY_bytes_total{{{of},vif="0"}}',
            f'xen_domain_block_WAY_bytes_total{{{of},vbd="a"}}',
        )


def kvm(guests: Mapping[str, Server], machine: Server, cpus: int, cgroups: Mapping[str, str]) -> Feed:
    """A KVM host, whose guests have as many vCPUs as it has CPUs; cgroups of guests by name."""
    yield f"kvm_host_cpus {cpus}"
    yield f"kvm_host_cpu_seconds_total ~{machine.cpu}"
    yield f"kvm_host_guest_seconds_total ~{sum(true.cpu for true in guests.values())}"
    for pid, (name, true) in enumerate(guests.items(), start=100):
        of = f'guest="{name}",pid="{pid}"'
        manager = 'manager="libvirt",id="1"' if "libvirt" in cgroups[name] else 'manager="proxmox",id="100"'
        yield f'kvm_guest_info{{{of},{manager},title="",accelerator="kvm",uuid="{pid}"}} 1'
        yield f'kvm_guest_cgroup_info{{{of},cgroup="{cgroups[name]}"}} 1'
        yield from gauges(
            of,
            {
                "kvm_guest_vcpus": cpus,
                "kvm_guest_cpu_limit_cpus": true.cap,
                "kvm_guest_cpu_weight": true.weight,
                "kvm_guest_memory_resident_bytes": true.memory,
                "kvm_guest_memory_limit_bytes": true.memory_limit,
            },
        )
        yield f"kvm_guest_cpu_seconds_total{{{of}}} ~{true.cpu + true.overhead}"
        yield f"kvm_guest_guest_seconds_total{{{of}}} ~{true.cpu}"
        yield f'kvm_guest_throttled_seconds_total{{{of},part="all"}} ~{true.throttled}'
        for vcpu in range(cpus):
            for metric, rate in {"run_seconds": true.cpu, "wait_seconds": true.wait, "exits": true.exits}.items():
                yield f'kvm_vcpu_{metric}_total{{{of},vcpu="{vcpu}"}} ~{rate / cpus}'
        network, disk = (f'kvm_guest_{kind}_WAY_bytes_total{{{of},device="0"}}' for kind in ("network", "block"))
        yield from _moved(true, network, disk)


def vestat(containers: Mapping[str, Server], host: Server) -> Feed:
    """An OpenVZ host, by container IDs."""
    yield f"openvz_host_containers {len(containers)}"
    for ctid, true in {"0": host, **containers}.items():
        of = f'ctid="{ctid}"'
        yield f"openvz_container_io_read_bytes_total{{{of}}} ~{true.read}"
        yield f"openvz_container_io_write_bytes_total{{{of}}} ~{true.write}"
        if ctid != "0":
            yield from counters(of, {"openvz_container_cpu_used_seconds_total": true.cpu})
            yield from counters(of, {"openvz_container_scheduling_latency_seconds_total": true.wait})
            pages = f'{of},resource="physpages"'
            yield from gauges(pages, {"openvz_beancounter_held_bytes": true.memory})
            yield from gauges(pages, {"openvz_beancounter_limit_bytes": true.memory_limit})


def cadvisor(cgroups: Mapping[str, Server], cpus: int) -> Feed:
    """Containers by their cgroups' paths."""
    yield f"machine_cpu_cores {cpus}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    for cgroup, true in cgroups.items():
        of = f'id="{cgroup}"'
        yield f"container_start_time_seconds{{{of}}} 1e9"
        yield f'container_cpu_usage_seconds_total{{{of},cpu="total"}} ~{true.cpu}'
        yield from counters(of, {"container_pressure_cpu_waiting_seconds_total": true.wait})
        if true.cap:
            yield f"container_cpu_cfs_throttled_seconds_total{{{of}}} ~{true.throttled}"
            yield f"container_spec_cpu_quota{{{of}}} {true.cap * 1e5}"
            yield f"container_spec_cpu_period{{{of}}} 1e5"
        yield from gauges(
            of,
            {
                "container_spec_cpu_shares": true.weight,
                "container_memory_working_set_bytes": true.memory,
                "container_spec_memory_limit_bytes": true.memory_limit,
            },
        )
        network = f'container_network_WAY_bytes_total{{{of},interface="eth0"}}'
        yield from _moved(true, network, f'container_fs_WAYs_bytes_total{{{of},device="/dev/sda"}}')


def node(true: Server, cpus: int, steal: float = 0) -> Feed:
    """node_exporter on a machine, or in a guest."""
    for cpu in range(cpus):
        modes = {"user": true.cpu / cpus, "idle": 1 - (true.cpu + steal) / cpus, "steal": steal / cpus}
        for mode, share in modes.items():
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} ~{share}'
    if true.memory:
        yield "node_memory_MemTotal_bytes 16e9"
        yield f"node_memory_MemAvailable_bytes {16e9 - true.memory}"
    for line in _moved(true, 'node_network_WAY_bytes_total{device="eth0"}', 'node_disk_WAY_bytes_total{device="sda"}'):
        yield line.replace("disk_write_", "disk_written_")


def _moved(true: Server, network: str, disk: str) -> Feed:
    """Bytes received, sent, read and written; WAY is which of them."""
    for series, ways in ((network, ("receive", "transmit")), (disk, ("read", "write"))):
        for way in ways:
            if rate := getattr(true, way):
                yield f"{series.replace('WAY', way)} ~{rate}"


def perf(true: Server, measured: Mapping[str, float], cgroups: Mapping[str, Server] | None = None) -> Feed:
    """Events of a machine, or of a Dom0 or guest counting its own, and of cgroups: the groups' shares of the time."""
    yield from _events("perf_events_total", "perf_group", 'cpu="0",pmu=""', true, measured)
    for cgroup, part in (cgroups or {}).items():
        of = f'cgroup="{cgroup}",pmu=""'
        yield from _events("perf_cgroup_events_total", "perf_cgroup_group", of, part, measured)


def _events(counter: str, group_times: str, labels: str, true: Server, measured: Mapping[str, float]) -> Feed:
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
        yield f'{group_times}_running_seconds_total{{{labels},group="{group}"}} ~{measured[group]}'
        for event, rate in events.items():
            yield f'{counter}{{{labels},group="{group}",event="{event}"}} ~{rate}'


def sched(waits: Mapping[str, Mapping[str, float]]) -> Feed:
    """What each cgroup waits for, in seconds per second, by what ran meanwhile."""
    yield "sched_switches_total ~5000"
    for cgroup, running in waits.items():
        yield f'sched_waits_total{{cgroup="{cgroup}"}} ~100'
        for runs, rate in running.items():
            yield f'sched_wait_seconds_total{{cgroup="{cgroup}",running="{runs}"}} ~{rate}'


def sensor(app: str, requests: float, seconds: float, edges: Sequence[float], below: Sequence[float]) -> Feed:
    """Requests per second in an access log that isn't new, their mean, and how many of them took at most how long."""
    of = f'app="{app}",tier="web",method="GET",status="2xx"'
    for edge, rate in zip([*edges, "+Inf"], [*below, requests], strict=True):
        yield f'app_request_duration_seconds_bucket{{{of},le="{edge}"}} 1e6~{rate}'
    yield f"app_request_duration_seconds_sum{{{of}}} 1e6~{requests * seconds}"
    yield f"app_request_duration_seconds_count{{{of}}} 1e6~{requests}"
