"""A simulated fleet of hosts with 50 virtual servers each: the exporter metrics that rules read.

A quarter of the hosts each are Xen, KVM, OpenVZ and containers. Two virtual servers of each host form an application
with three objectives (alerts/objectives/auction.yml); one host in ten counts its requests. All hosts are healthy: waits
are short, and no alert fires. Two dense hosts (tests/proofs/bench/dense.py) can be added.
"""

import contextlib
import http.server
import re
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from tests.proofs.bench import dense
from tests.support.endpoints import BackgroundServer, QuietHandler

GUESTS = 50
CPUS = 16
VCPUS = 2  # per KVM guest

PLATFORMS = {"xen": "xentop", "kvm": "kvm", "openvz": "vestat", "cgroup": "cadvisor"}  # exporter job by platform
REQUESTS_COUNTED_EVERY = 10  # on one of this many hosts per platform
CGROUPS_COUNTED_EVERY = 10  # on one of this many container hosts, events are counted per container
WAITS_COUNTED_EVERY = 2  # on one of this many container hosts, waits are attributed
NEIGHBOURS = 4  # neighbours that each container waits for

EVENTS = {
    "cache": {"instructions": 1e9, "cycles": 1.2e9, "cache-misses": 5e6},
    "tlb": {"instructions": 1e9, "dTLB-load-misses": 2e6, "iTLB-load-misses": 5e5},
}  # per CPU and second
CPU_MODES = {"user": 0.2, "system": 0.05, "softirq": 0.01, "idle": 0.74, "iowait": 0, "nice": 0, "irq": 0, "steal": 0}
EDGES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
"""Bucket edges of response times in seconds, as in telegraf/access_log.pl."""
REQUESTS = {"GET": 16.0, "POST": 4.0, "other": 0.0}

BEANCOUNTERS = ("numproc", "physpages", *(f"resource{number}" for number in range(22)))

Lines = Iterator[str]
"""The lines of an exposition, in which `~RATE` is a counter that grows by RATE per second."""


def guest(number: int) -> str:
    """The name of virtual server `number`: the first two are an application's tiers."""
    tiers = ("virtscope/auction-1-web", "virtscope/auction-1-db")
    return tiers[number] if number < len(tiers) else f"web{number}"


def xentop() -> Lines:
    """xentop-exporter's metrics in a Dom0."""
    yield "xentop_up 1"
    yield f"xen_host_cpus {CPUS}"
    yield f"xen_host_vcpus {2 * GUESTS}"
    yield f"xen_host_cpu_seconds_total ~{0.2 * (GUESTS + 1)}"
    yield f"xen_host_guests_cpu_seconds_total ~{0.2 * GUESTS}"
    yield f"xen_host_guests_runnable_seconds_total ~{0.02 * GUESTS}"
    for direction in ("receive", "transmit"):
        yield f"xen_host_guests_network_{direction}_bytes_total ~{1e5 * GUESTS}"
    for direction in ("read", "write"):
        yield f"xen_host_guests_block_{direction}_bytes_total ~{1e4 * GUESTS}"
    for domid in range(GUESTS + 1):
        yield from domain(domid, guest(domid - 1) if domid else "Domain-0")


def domain(domid: int, name: str) -> Lines:
    """xentop-exporter's metrics of one domain."""
    labels = f'domid="{domid}",domain="{name}"'
    yield f"xen_domain_cpu_seconds_total{{{labels}}} ~0.2"
    for state in ("running", "blocked", "paused", "shutdown", "crashed", "dying"):
        yield f'xen_domain_state{{{labels},state="{state}"}} 0'
    yield f"xen_domain_memory_bytes{{{labels}}} 1e9"
    yield f"xen_domain_memory_limit_bytes{{{labels}}} 2e9"
    yield f"xen_domain_cpu_limit_cpus{{{labels}}} 1"
    yield f"xen_domain_scheduler_weight{{{labels}}} 256"
    yield f"xen_domain_runnable_seconds_total{{{labels}}} ~0.02"
    for direction in ("receive", "transmit"):
        yield f'xen_domain_network_{direction}_bytes_total{{{labels},vif="0"}} ~1e5'
    for direction in ("read", "write"):
        yield f'xen_domain_block_{direction}_bytes_total{{{labels},vbd="xvda"}} ~1e4'


def kvm() -> Lines:
    """kvm-exporter's metrics."""
    yield "kvm_up 1"
    yield f"kvm_host_cpus {CPUS}"
    yield f"kvm_host_cpu_seconds_total ~{GUESTS * 0.1 + 0.5}"
    yield f"kvm_host_guest_seconds_total ~{GUESTS * 0.09}"
    yield f"kvm_host_guests_cpu_seconds_total ~{GUESTS * 0.1}"
    yield f"kvm_host_guests_wait_seconds_total ~{GUESTS * 0.01}"
    for way, rate in (("network_receive", 1e5), ("network_transmit", 1e5), ("block_read", 1e4), ("block_write", 1e4)):
        yield f"kvm_host_guests_{way}_bytes_total ~{GUESTS * rate}"
    for number in range(GUESTS):
        yield from kvm_guest(1000 + number, guest(number))


def kvm_guest(pid: int, name: str) -> Lines:
    """kvm-exporter's metrics of one guest."""
    labels = f'guest="{name}",pid="{pid}"'
    of_libvirt = f'uuid="{pid}",id="{pid}",title="",tags="",pool="",manager="libvirt",accelerator="kvm"'
    yield f"kvm_guest_info{{{labels},{of_libvirt}}} 1"
    yield f"kvm_guest_cpu_seconds_total{{{labels}}} ~0.1"
    yield f"kvm_guest_guest_seconds_total{{{labels}}} ~0.09"
    yield f"kvm_guest_vcpus{{{labels}}} {VCPUS}"
    for vcpu in range(VCPUS):
        yield f'kvm_vcpu_run_seconds_total{{{labels},vcpu="{vcpu}"}} ~{0.09 / VCPUS}'
        yield f'kvm_vcpu_wait_seconds_total{{{labels},vcpu="{vcpu}"}} ~{0.01 / VCPUS}'
        yield f'kvm_vcpu_exits_total{{{labels},vcpu="{vcpu}"}} ~100'
    yield f"kvm_guest_memory_resident_bytes{{{labels}}} 1e9"
    yield f"kvm_guest_memory_limit_bytes{{{labels}}} 2e9"
    yield f"kvm_guest_cpu_limit_cpus{{{labels}}} 1"
    yield f"kvm_guest_cpu_weight{{{labels}}} 100"
    yield f'kvm_guest_throttled_seconds_total{{{labels},part="all"}} 0'
    for state in ("running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended"):
        yield f'kvm_guest_state{{{labels},state="{state}"}} 0'
    for direction in ("receive", "transmit"):
        yield f'kvm_guest_network_{direction}_bytes_total{{{labels},device="vnet{pid}"}} ~1e5'
    for direction in ("read", "write"):
        yield f'kvm_guest_block_{direction}_bytes_total{{{labels},device="vda"}} ~1e4'


def vestat() -> Lines:
    """vestat-exporter's metrics."""
    yield "vestat_up 1"
    yield f"openvz_host_containers {GUESTS}"
    yield f"openvz_host_containers_cpu_seconds_total ~{0.08 * GUESTS:g}"
    for number in range(GUESTS):
        yield from openvz_container(guest(number))


def openvz_container(name: str) -> Lines:
    """vestat-exporter's metrics of one container."""
    ctid = f'ctid="{name}"'
    yield f"openvz_container_cpu_used_seconds_total{{{ctid}}} ~0.08"
    yield f"openvz_container_scheduling_latency_seconds_total{{{ctid}}} ~0.005"
    yield f"openvz_container_uptime_seconds{{{ctid}}} ~1"
    yield f'openvz_beancounter_held_bytes{{{ctid},resource="physpages"}} 1e9'
    yield f'openvz_beancounter_limit_bytes{{{ctid},resource="physpages"}} 2e9'
    for resource in BEANCOUNTERS:
        yield f'openvz_beancounter_failures_total{{{ctid},resource="{resource}"}} 0'
    for direction in ("read", "write"):
        yield f"openvz_container_io_{direction}_bytes_total{{{ctid}}} ~1e4"


def cadvisor() -> Lines:
    """cAdvisor's metrics: containers with one nested cgroup each, and as many host services."""
    yield f"machine_cpu_cores {CPUS}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    for direction in ("receive", "transmit"):
        yield f'container_network_{direction}_bytes_total{{id="/",interface="eth0"}} ~7e6'
    for number in range(GUESTS):
        yield from cgroup_container(number, guest(number))


def cgroup_container(number: int, name: str) -> Lines:
    """cAdvisor's metrics of one container, its nested cgroup and a host service."""
    path, named = container(number), f',name="{name}",image="web"'
    for labels in (f'id="{path}"{named}', f'id="{path}/init.scope"', f'id="/system.slice/service{number}.service"'):
        yield f"container_start_time_seconds{{{labels}}} 1e9"
        yield f'container_cpu_usage_seconds_total{{{labels},cpu="total"}} ~0.08'
        yield f"container_cpu_user_seconds_total{{{labels}}} ~0.04"
        yield f"container_pressure_cpu_waiting_seconds_total{{{labels}}} ~0.005"
        yield f"container_memory_working_set_bytes{{{labels}}} 1e9"
        yield f"container_spec_memory_limit_bytes{{{labels}}} 2e9"
        yield f"container_spec_cpu_period{{{labels}}} 1e5"
        yield f"container_spec_cpu_shares{{{labels}}} 1024"
        for direction in ("read", "write"):
            yield f'container_fs_{direction}s_bytes_total{{{labels},device="/dev/sda"}} ~1e4'
    labels = f'id="{path}"{named}'
    yield f"container_cpu_cfs_throttled_seconds_total{{{labels}}} 0"
    yield f"container_spec_cpu_quota{{{labels}}} 1e5"
    for direction in ("receive", "transmit"):
        yield f'container_network_{direction}_bytes_total{{{labels},interface="eth0"}} ~1e5'


def container(number: int) -> str:
    """The path of a container's cgroup."""
    return f"/docker/{number:064x}"


def node() -> Lines:
    """node_exporter's metrics of the whole machine."""
    for cpu in range(CPUS):
        for mode, share in CPU_MODES.items():
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} ~{share}'
    yield "node_memory_MemTotal_bytes 64e9"
    yield "node_memory_MemAvailable_bytes 32e9"
    for device in ("eth0", "eth1", "lo", "bridge0"):
        yield f'node_network_receive_bytes_total{{device="{device}"}} ~1e6'
        yield f'node_network_transmit_bytes_total{{device="{device}"}} ~1e6'
    for device in ("sda", "sdb", "dm-0", "dm-1"):
        yield f'node_disk_read_bytes_total{{device="{device}"}} ~1e6'
        yield f'node_disk_written_bytes_total{{device="{device}"}} ~1e6'


def perf() -> Lines:
    """perf-exporter's metrics of the machine's CPUs."""
    yield "perf_up 1"
    for group, events in EVENTS.items():
        for event in events:
            yield f'perf_event_supported{{group="{group}",event="{event}",pmu="",reason=""}} 1'
        for cpu in range(CPUS):
            yield from _counted("perf", f'cpu="{cpu}",pmu=""', group, 1)


def perf_of_cgroups() -> Lines:
    """perf-exporter's metrics of the CPUs and of each container."""
    yield from perf()
    for number in range(GUESTS):
        yield from events_of_container(number)


def events_of_container(number: int) -> Lines:
    """perf-exporter's metrics of one container."""
    for group in EVENTS:
        yield from _counted("perf_cgroup", f'cgroup="{container(number)}",pmu=""', group, CPUS / GUESTS / 2)


def sched() -> Lines:
    """sched-exporter's metrics of containers: each waits for itself, some others, the host and idle CPUs."""
    yield "sched_up 1"
    yield "sched_switches_total ~60000"
    for number in range(GUESTS):
        labels = f'cgroup="{container(number)}"'
        yield f"sched_waits_total{{{labels}}} ~100"
        others = [container((number + step) % GUESTS) for step in range(NEIGHBOURS + 1)]
        for running in (*others, "/system.slice/cron.service", "(host)", "(idle)", "(rest)"):
            yield f'sched_wait_seconds_total{{{labels},running="{running}"}} ~0.0005'


def _counted(prefix: str, labels: str, group: str, share: float) -> Lines:
    labels += f',group="{group}"'
    yield f"{prefix}_group_enabled_seconds_total{{{labels}}} ~{share}"
    yield f"{prefix}_group_running_seconds_total{{{labels}}} ~{0.6 * share}"
    for event, rate in EVENTS[group].items():
        yield f'{prefix}_events_total{{{labels},event="{event}"}} ~{rate * share}'


def pods() -> Lines:
    """The kubelet's cAdvisor on a node: a container of each pod, and the pod's sandbox."""
    for number in range(GUESTS):
        for kind in ("app", "POD"):
            labels = (
                f'namespace="shop",pod="{guest(number)}",container="{kind}",image="{kind}",'
                f'id="/kubepods/burstable/pod{number}/{kind}",name="{kind}-{number}"'
            )
            yield f'container_cpu_usage_seconds_total{{{labels},cpu="total"}} ~0.08'
            for kept in ("working_set_bytes", "rss", "cache", "swap"):
                yield f"container_memory_{kept}{{{labels}}} 1e9"


def kube_state_metrics() -> Lines:
    """kube-state-metrics, of the pods of one node."""
    for number in range(GUESTS):
        pod = f'namespace="shop",pod="{guest(number)}"'
        yield f'kube_pod_info{{{pod},node="node",uid="{number}",pod_ip="10.0.0.{number}"}} 1'
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            yield f'kube_pod_status_phase{{{pod},phase="{phase}"}} {int(phase == "Running")}'
        for kind, (resource, amount) in product(("requests", "limits"), (("cpu", 1), ("memory", 2e9))):
            of = f'container="app",resource="{resource}",node="node"'
            yield f"kube_pod_container_resource_{kind}{{{pod},{of}}} {amount:g}"
        yield f'kube_pod_owner{{{pod},owner_kind="ReplicaSet",owner_name="set-{number}"}} 1'
        yield (
            f'kube_replicaset_owner{{namespace="shop",replicaset="set-{number}",owner_kind="Deployment",'
            f'owner_name="deployment-{number}"}} 1'
        )


def telegraf(app: str = "auction-1") -> Lines:
    """Metrics of the sensor of an application's access log: 20 requests a second, each below 50 ms."""
    for method, status in product(REQUESTS, ("2xx", "3xx", "4xx", "5xx")):
        labels = f'app="{app}",tier="web",method="{method}",status="{status}"'
        requests = REQUESTS[method] if status == "2xx" else 0
        for edge in (*EDGES, "+Inf"):
            share = min(1, float(edge) / 0.05)
            yield f'app_request_duration_seconds_bucket{{{labels},le="{edge}"}} ~{requests * share}'
        yield f"app_request_duration_seconds_sum{{{labels}}} ~{requests * 0.025}"
        yield f"app_request_duration_seconds_count{{{labels}}} ~{requests}"


EXPORTERS: tuple[Callable[[], Lines], ...] = (
    xentop,
    kvm,
    vestat,
    cadvisor,
    node,
    perf,
    perf_of_cgroups,
    sched,
    pods,
    kube_state_metrics,
    telegraf,
)


DENSE = {"kvm": ("kvm", dense.kvm), "xen": ("xentop", dense.xentop)}  # job and page by platform


class Fleet(BackgroundServer):
    """Serves every exporter's page under its name, the same for all hosts.

    with_dense_hosts: adds a KVM and a Xen host with 1,000 guests and 300,000 series each.
    """

    def __init__(self, with_dense_hosts: bool = False) -> None:
        self._dense = DENSE if with_dense_hosts else {}
        pages = {f"/{exporter.__name__}": Page(exporter()) for exporter in EXPORTERS}
        pages |= {f"/dense_{platform}": Page(lines()) for platform, (_, lines) in self._dense.items()}

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                page = pages[self.path.partition("?")[0]].now()
                with contextlib.suppress(
                    ConnectionError
                ):  # a busy Prometheus closes connections; the report counts failed scrapes
                    self.reply(200, page, "text/plain; version=0.0.4")

        super().__init__(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def targets(self, hosts: int) -> dict[str, list[dict[str, Any]]]:
        """The targets file entries for this number of hosts."""
        jobs: dict[str, list[dict[str, Any]]] = {}
        for number in range(hosts):
            kind, nth = number % len(PLATFORMS), number // len(PLATFORMS)
            platform, job = list(PLATFORMS.items())[kind]
            machine = "base" if platform == "cgroup" else platform  # the platform for node_exporter and perf-exporter
            watched = {job: (job, platform), "perf": ("perf", machine)}
            if nth % REQUESTS_COUNTED_EVERY == 0:
                watched["telegraf"] = ("telegraf", platform)
            if platform not in ("xen", "kvm"):
                watched["node"] = ("node", machine)
            if platform == "cgroup" and nth % CGROUPS_COUNTED_EVERY == 0:
                watched["perf"] = ("perf_of_cgroups", machine)
            if platform == "cgroup" and nth % WAITS_COUNTED_EVERY == 0:
                watched["sched"] = ("sched", machine)
            for of_job, (exporter, shown_as) in watched.items():
                labels = {"host": f"host{number}", "platform": shown_as, "instance": f"host{number}"}
                group = {"targets": [self.address], "labels": labels | {"__metrics_path__": f"/{exporter}"}}
                jobs.setdefault(of_job, []).append(group)
        for platform, (job, _) in self._dense.items():
            labels = {"host": f"dense-{platform}", "platform": platform, "__metrics_path__": f"/dense_{platform}"}
            jobs.setdefault(job, []).append({"targets": [self.address], "labels": labels})
        return jobs

    def nodes(self, number: int) -> dict[str, list[dict[str, Any]]]:
        """The targets of this number of Kubernetes nodes, each in a cluster of its own, as all have the same pods."""
        return {
            job: [
                {
                    "targets": [self.address],
                    "labels": {"cluster": f"cluster{nth}", "instance": f"node{nth}", "__metrics_path__": f"/{page}"},
                }
                for nth in range(number)
            ]
            for job, page in (("kubelet", "pods"), ("kube-state-metrics", "kube_state_metrics"))
        }


class Page:
    """An exporter's page, updated once a second and shared by all hosts, so that serving it is cheap."""

    def __init__(self, lines: Lines) -> None:
        self._parts = re.split(r"~(\S+)", "\n".join(lines) + "\n")
        self._second, self._text = 0, b""

    def now(self) -> bytes:
        """The page for the current second."""
        second = int(time.time())
        if second != self._second:
            counters = zip(self._parts[:-1:2], self._parts[1::2], strict=True)
            grown = "".join(f"{text}{float(rate) * second:.3f}" for text, rate in counters)
            self._second, self._text = second, (grown + self._parts[-1]).encode()
        return self._text
