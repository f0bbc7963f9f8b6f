"""What the rules cost a Prometheus that watches a fleet: 1,000 hosts with 50 virtual servers each, `make bench-rules`.

A real Prometheus with the rules and alerts that ship scrapes the fleet from here over HTTP: the series that rules read,
as the exporters would show them, and no others. A third of the hosts are Xen, OpenVZ and containers each. How long a
group of rules takes is Prometheus's own figure, with the scrapes going on beside it; the bar is a quarter of the
group's interval.

FLEET_HOSTS is another number of hosts, FLEET_INTERVAL another time between two scrapes and evaluations.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.live import Prometheus
from tests.live.endpoints import BackgroundServer, QuietHandler, http_server

GUESTS = 50
CPUS = 16
BAR = 0.25  # of a group's interval
SETTLE_SECONDS = 100  # until a rate's minute is full, and the groups of each minute have had their turn
MEASURE_SECONDS = 60
GROUPS_SHOWN = 8

PLATFORMS = {"xen": "xentop", "openvz": "vestat", "cgroup": "cadvisor"}  # and the job that watches each
EVENTS = {
    "cache": ("instructions", "cycles", "cache-misses"),
    "tlb": ("instructions", "dTLB-load-misses", "iTLB-load-misses"),
}

Lines = Iterator[str]


def xen() -> Lines:
    """What xentop-exporter shows in a Dom0."""
    yield f"xen_host_cpus {CPUS}"
    yield f"xen_host_vcpus {2 * GUESTS}"
    for domid in range(GUESTS + 1):
        domain = f'domid="{domid}",domain="{f"web{domid}" if domid else "Domain-0"}"'
        yield f"xen_domain_cpu_seconds_total{{{domain}}} NOW"
        for state in ("running", "blocked", "paused", "shutdown", "crashed", "dying"):
            yield f'xen_domain_state{{{domain},state="{state}"}} 0'
        yield f"xen_domain_memory_bytes{{{domain}}} 1e9"
        yield f"xen_domain_memory_limit_bytes{{{domain}}} 2e9"
        yield f"xen_domain_cpu_limit_cpus{{{domain}}} 1"
        yield f"xen_domain_runnable_seconds_total{{{domain}}} NOW"
        for direction in ("receive", "transmit"):
            yield f'xen_domain_network_{direction}_bytes_total{{{domain},vif="0"}} NOW'
        for direction in ("read", "write"):
            yield f'xen_domain_block_{direction}_bytes_total{{{domain},vbd="xvda"}} NOW'


def openvz() -> Lines:
    """What vestat-exporter shows."""
    yield f"openvz_host_containers {GUESTS}"
    for number in range(GUESTS):
        ctid = f'ctid="{100 + number}"'
        yield f"openvz_container_cpu_used_seconds_total{{{ctid}}} NOW"
        yield f"openvz_container_scheduling_latency_seconds_total{{{ctid}}} NOW"
        yield f"openvz_container_uptime_seconds{{{ctid}}} NOW"
        yield f'openvz_beancounter_held_bytes{{{ctid},resource="physpages"}} 1e9'
        yield f'openvz_beancounter_limit_bytes{{{ctid},resource="physpages"}} 2e9'
        for resource in range(24):
            yield f'openvz_beancounter_failures_total{{{ctid},resource="resource{resource}"}} 0'
        for direction in ("read", "write"):
            yield f"openvz_container_io_{direction}_bytes_total{{{ctid}}} NOW"


def cgroup() -> Lines:
    """What cAdvisor shows: containers with a cgroup inside each, and some of the host's own services."""
    yield f"machine_cpu_cores {CPUS}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    yield 'container_network_receive_bytes_total{id="/",interface="eth0"} 7'
    yield 'container_network_transmit_bytes_total{id="/",interface="eth0"} 7'
    for number in range(GUESTS):
        path, named = f"/docker/{number:064x}", f',name="web{number}",image="web"'
        for labels in (f'id="{path}"{named}', f'id="{path}/init.scope"', f'id="/system.slice/service{number}.service"'):
            yield f"container_start_time_seconds{{{labels}}} 1e9"
            yield f'container_cpu_usage_seconds_total{{{labels},cpu="total"}} NOW'
            yield f"container_cpu_user_seconds_total{{{labels}}} NOW"
            yield f"container_pressure_cpu_waiting_seconds_total{{{labels}}} NOW"
            yield f"container_memory_working_set_bytes{{{labels}}} 1e9"
            yield f"container_spec_memory_limit_bytes{{{labels}}} 2e9"
            yield f"container_spec_cpu_period{{{labels}}} 1e5"
            for direction in ("read", "write"):
                yield f'container_fs_{direction}s_bytes_total{{{labels},device="/dev/sda"}} NOW'
        labels = f'id="{path}"{named}'
        yield f"container_cpu_cfs_throttled_seconds_total{{{labels}}} NOW"
        yield f"container_spec_cpu_quota{{{labels}}} 1e5"
        for direction in ("receive", "transmit"):
            yield f'container_network_{direction}_bytes_total{{{labels},interface="eth0"}} NOW'


def node() -> Lines:
    """What node_exporter shows of the whole machine."""
    for cpu in range(CPUS):
        for mode in ("user", "system", "nice", "irq", "softirq", "steal", "idle", "iowait"):
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} NOW'
    yield "node_memory_MemTotal_bytes 64e9"
    yield "node_memory_MemAvailable_bytes 32e9"


def perf() -> Lines:
    """What perf-exporter shows of the machine's CPUs, and of no cgroup."""
    for cpu in range(CPUS):
        for group, events in EVENTS.items():
            labels = f'cpu="{cpu}",pmu="",group="{group}"'
            yield f"perf_group_enabled_seconds_total{{{labels}}} NOW"
            yield f"perf_group_running_seconds_total{{{labels}}} NOW"
            for event in events:
                yield f'perf_events_total{{{labels},event="{event}"}} NOW'


EXPORTERS: dict[str, Callable[[], Lines]] = {"xen": xen, "openvz": openvz, "cgroup": cgroup, "node": node, "perf": perf}


class Fleet:
    """Serves every exporter's page under its name, to all hosts alike, with counters that grow by one per second."""

    def __enter__(self) -> Self:
        pages = {f"/{name}": "\n".join(lines()) + "\n" for name, lines in EXPORTERS.items()}

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                page = pages[self.path.partition("?")[0]]
                self.reply(200, page.replace("NOW", f"{time.time():.3f}").encode(), "text/plain; version=0.0.4")

        self._server: BackgroundServer = http_server(Handler)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def targets(self, hosts: int) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of the targets files for so many hosts."""
        jobs: dict[str, list[dict[str, Any]]] = {}
        for number in range(hosts):
            platform, job = list(PLATFORMS.items())[number % len(PLATFORMS)]
            machine = "base" if platform == "cgroup" else platform  # as whom node_exporter and perf-exporter see it
            watched = {job: (platform, platform), "perf": ("perf", machine)}
            if platform != "xen":
                watched["node"] = ("node", machine)
            for of_job, (exporter, told) in watched.items():
                labels = {"host": f"host{number}", "platform": told, "instance": f"host{number}"}
                group = {"targets": [self._server.address], "labels": labels | {"__metrics_path__": f"/{exporter}"}}
                jobs.setdefault(of_job, []).append(group)
        return jobs


class Group(NamedTuple):
    """A group of rules: how long it took at its last evaluation, of how long, in seconds."""

    name: str
    took: float
    interval: float


def main() -> None:
    """Start the fleet and a Prometheus, let it settle, and print what the rules cost."""
    hosts = int(os.environ.get("FLEET_HOSTS", "1000"))
    interval = os.environ.get("FLEET_INTERVAL", "15s")
    print(f"{hosts:,} hosts of {GUESTS} virtual servers, scraped and evaluated every {interval}; {os.cpu_count()} CPUs")
    with (
        Fleet() as fleet,
        tempfile.TemporaryDirectory() as folder,
        Prometheus(Path(folder), fleet.targets(hosts), interval=interval) as prometheus,
    ):
        time.sleep(SETTLE_SECONDS)
        _report(prometheus.url)


def _report(url: str) -> None:
    before = _own_metrics(url)
    slowest: dict[str, Group] = {}
    end = time.monotonic() + MEASURE_SECONDS
    while time.monotonic() < end:  # the slowest of all evaluations counts
        for group in _groups(url):
            slowest[group.name] = max(slowest.get(group.name, group), group)
        time.sleep(5)
    after = _own_metrics(url)

    def per_second(name: str) -> float:
        return (after[name] - before[name]) / MEASURE_SECONDS

    print(f"  series in memory   {after['prometheus_tsdb_head_series']:12,.0f}")
    print(f"  samples per second {per_second('prometheus_tsdb_head_samples_appended_total'):12,.0f}")
    print(f"  resident           {after['process_resident_memory_bytes'] / 1e9:12.1f} GB")
    print(f"  CPU, scrapes too   {per_second('process_cpu_seconds_total'):12.2f} cores")
    print(f"  missed evaluations {_missed(after) - _missed(before):12,.0f}")
    print(f"  the slowest groups; bar: {BAR:.0%} of the interval")
    for group in sorted(slowest.values(), key=lambda group: -group.took / group.interval)[:GROUPS_SHOWN]:
        share = group.took / group.interval
        verdict = "met" if share <= BAR else "MISSED"
        print(f"    {group.name:28}{group.took:8.2f} s of {group.interval:3.0f} s {share:6.1%}: {verdict}")


def _own_metrics(url: str) -> dict[str, float]:
    """Return what Prometheus tells of itself, series of one name added up."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(requests.get(f"{url}/metrics", timeout=60).text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0) + sample.value
    return values


def _missed(metrics: Mapping[str, float]) -> float:
    return metrics["prometheus_rule_group_iterations_missed_total"]


def _groups(url: str) -> list[Group]:
    groups = requests.get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"]
    return [Group(f"{Path(of['file']).stem}: {of['name']}", of["evaluationTime"], of["interval"]) for of in groups]


if __name__ == "__main__":
    main()
