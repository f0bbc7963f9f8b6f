"""Exporter metrics of machines and virtual servers with known constant values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

Feed = Iterator[str]

MEMORY = 16e9  # of a machine, in bytes
DISK_SPEED = 1e6  # bytes per second that a disk's busy time stands for


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
    overhead: float = 0  # CPUs of the host's own work, by the guest it is done for
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
    """A machine that runs these servers."""
    return Server(*map(sum, zip(*map(astuple, servers), strict=True)))


_SECTIONS = {
    section.partition("\n")[0]: section.splitlines()[1:]
    for section in Path(__file__).with_name("feeds.prom").read_text().split("\n\n# ")
}


def filled(section: str, of: str, true: Server) -> Feed:
    """The lines of a section of feeds.prom."""
    for line in _SECTIONS[section]:
        series, _, value = line.rpartition(" ")
        start, rate, name = value.rpartition("~")
        if (found := getattr(true, name.removesuffix("!"))) or name.endswith("!"):
            yield f"{series.replace('OF', of)} {start}{rate}{found}"


def xentop(domains: Mapping[str, Server], cpus: int, vcpus: int) -> Feed:
    """A Xen host; Dom0 is the first."""
    yield f"xen_host_cpus {cpus}"
    yield f"xen_host_vcpus {vcpus}"
    yield f"xen_host_cpu_seconds_total ~{sum(true.cpu for true in domains.values())}"
    yield f"xen_host_memory_free_bytes {MEMORY - sum(true.memory for true in domains.values())}"
    _, *guests = domains.values()
    for way in ("receive", "transmit"):
        yield f"xen_host_guests_network_{way}_bytes_total ~{sum(getattr(true, way) for true in guests)}"
    for domid, (name, true) in enumerate(domains.items()):
        of = f'domid="{domid}",domain="{name}"'
        yield from filled("xentop", of, true)
        for vcpu in range(cpus if domid else 0):
            yield f'xen_vcpu_online{{{of},vcpu="{vcpu}"}} 1'


def kvm(guests: Mapping[str, Server], machine: Server, cpus: int, cgroups: Mapping[str, str]) -> Feed:
    """A KVM host, whose guests have as many vCPUs as it has CPUs; cgroups of guests by name."""
    yield f"kvm_host_cpus {cpus}"
    yield f"kvm_host_cpu_seconds_total ~{machine.cpu}"
    together = total([*guests.values()])
    yield f"kvm_host_guest_seconds_total ~{together.cpu}"
    yield f"kvm_host_guests_cpu_seconds_total ~{together.cpu + together.overhead}"
    yield f"kvm_host_guests_network_receive_bytes_total ~{together.receive}"
    yield f"kvm_host_guests_network_transmit_bytes_total ~{together.transmit}"
    for pid, (name, true) in enumerate(guests.items(), start=100):
        of = f'guest="{name}",pid="{pid}"'
        manager = 'manager="libvirt",id="1"' if "libvirt" in cgroups[name] else 'manager="proxmox",id="100"'
        yield f'kvm_guest_info{{{of},{manager},title="",tags="",pool="",accelerator="kvm",uuid="{pid}"}} 1'
        yield f'kvm_guest_cgroup_info{{{of},cgroup="{cgroups[name]}"}} 1'
        yield f"kvm_guest_vcpus{{{of}}} {cpus}"
        yield f"kvm_guest_cpu_seconds_total{{{of}}} ~{true.cpu + true.overhead}"
        yield from filled("kvm", of, true)
        part = Server(cpu=true.cpu / cpus, wait=true.wait / cpus, exits=true.exits / cpus)
        for vcpu in range(cpus):
            yield from filled("vcpu", f'{of},vcpu="{vcpu}"', part)


def vestat(containers: Mapping[str, Server], host: Server) -> Feed:
    """An OpenVZ host, by container IDs."""
    yield f"openvz_host_containers {len(containers)}"
    yield f"openvz_host_containers_cpu_seconds_total ~{total(list(containers.values())).cpu}"
    yield from filled("vestat of the host", 'ctid="0"', host)
    for ctid, true in containers.items():
        for section in ("vestat of the host", "vestat"):
            yield from filled(section, f'ctid="{ctid}"', true)


def cadvisor(cgroups: Mapping[str, Server], cpus: int) -> Feed:
    yield f"machine_cpu_cores {cpus}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    for cgroup, true in cgroups.items():
        of = f'id="{cgroup}"'
        yield f"container_start_time_seconds{{{of}}} 1e9"
        yield from filled("cadvisor", of, true)
        if true.cap:
            yield f"container_cpu_cfs_throttled_seconds_total{{{of}}} ~{true.throttled}"
            yield f"container_spec_cpu_quota{{{of}}} {true.cap * 1e5}"
            yield f"container_spec_cpu_period{{{of}}} 1e5"


def node(true: Server, cpus: int, steal: float = 0) -> Feed:
    """node_exporter on a machine, or in a guest."""
    for cpu in range(cpus):
        modes = {"user": true.cpu / cpus, "idle": 1 - (true.cpu + steal) / cpus, "steal": steal / cpus}
        for mode, share in modes.items():
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} ~{share}'
    if true.memory:
        yield f"node_memory_MemTotal_bytes {MEMORY}"
        yield f"node_memory_MemAvailable_bytes {MEMORY - true.memory}"
    if moved := true.read + true.write:
        yield f'node_disk_io_time_seconds_total{{device="sda"}} ~{moved / DISK_SPEED}'
    yield from filled("node", "", true)


def perf(true: Server, measured: Mapping[str, float], cgroups: Mapping[str, Server] | None = None) -> Feed:
    """Events of a machine, of a Dom0 or guest counting its own, and of cgroups, with the groups' shares of the time."""
    counted = {'cpu="0",pmu=""': true} | {f'cgroup="{cgroup}",pmu=""': part for cgroup, part in (cgroups or {}).items()}
    for labels, part in counted.items():
        kind = "perf_cgroup" if labels.startswith("cgroup") else "perf"
        for group, share in measured.items():
            of = f'{labels},group="{group}"'
            yield f"{kind}_group_enabled_seconds_total{{{of}}} ~1"
            yield f"{kind}_group_running_seconds_total{{{of}}} ~{share}"
            for line in filled(f"perf {group}", of, part):
                yield line.replace("perf", kind, 1)


def sched(waits: Mapping[str, Mapping[str, float]]) -> Feed:
    """The wait of each cgroup in seconds per second, by what ran meanwhile."""
    yield "sched_switches_total ~5000"
    for cgroup, running in waits.items():
        yield f'sched_waits_total{{cgroup="{cgroup}"}} ~100'
        for runs, rate in running.items():
            yield f'sched_wait_seconds_total{{cgroup="{cgroup}",running="{runs}"}} ~{rate}'


def sensor(app: str, requests: float, seconds: float, edges: Sequence[float], below: Sequence[float]) -> Feed:
    """Requests per second of an access log that isn't new, their mean duration, and cumulative counts by duration."""
    of = f'app="{app}",tier="web",method="GET",status="2xx"'
    for edge, rate in zip([*edges, "+Inf"], [*below, requests], strict=True):
        yield f'app_request_duration_seconds_bucket{{{of},le="{edge}"}} 1e6~{rate}'
    yield f"app_request_duration_seconds_sum{{{of}}} 1e6~{requests * seconds}"
    yield f"app_request_duration_seconds_count{{{of}}} 1e6~{requests}"
