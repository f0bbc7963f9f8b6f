"""The simulated hosts' exporters: pages of bench/fleet.py, with values, guests and a story per host.

A page is a function of time, and counters are straight lines between two changes, so that their rates don't depend on
when within an interval they are scraped. Delays remain on a busy machine, between the timestamp of a sample and the
time of its page. Prometheus gives a sample the time at which the scrape was due if it started soon after (running.py),
and the page does the same: each scraper has its own connection, on which scrapes are due at intervals.
"""

import contextlib
import math
import time
from collections.abc import Iterable
from typing import Any, Self

from tests.proofs.bench import fleet as bench
from tests.proofs.fleet.story import LONG_AGO, Host, Life
from tests.support.endpoints import BackgroundServer, QuietHandler, http_server

SOON_SECONDS = 0.05  # like Prometheus with 5 s between scrapes: a hundredth
_SOURCES = {"xen": "xentop", "kvm": "kvm", "openvz": "vestat"}  # by platform, the prefix of `_source_up`


class Exporters:
    """One server per host, with a page for each job that watches it. None answers before the story begins, so that all
    Prometheus have their first sample in the same interval, however long each took to start.

    interval: of scrapes, in seconds.
    """

    def __init__(self, hosts: Iterable[Host], interval: float) -> None:
        self._hosts, self._interval = list(hosts), interval
        self.zero = math.inf
        self._servers: dict[str, BackgroundServer] = {}

    def begin(self) -> float:
        """Begin the story; return the time, in seconds since 1970."""
        self.zero = time.time()
        return self.zero

    def __enter__(self) -> Self:
        for host in self._hosts:
            self._servers[host.name] = http_server(self._handler(host))
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()

    def targets(self) -> dict[str, list[dict[str, Any]]]:
        """The entries of the targets file of each job."""
        jobs: dict[str, list[dict[str, Any]]] = {}
        for host in self._hosts:
            for job in jobs_of(host):
                platform = "base" if host.platform == "cgroup" and job in ("node", "perf") else host.platform
                labels = {"host": host.name, "platform": platform, "instance": host.name, "__metrics_path__": f"/{job}"}
                jobs.setdefault(job, []).append({"targets": [self._servers[host.name].address], "labels": labels})
        return jobs

    def _handler(self, host: Host) -> type[QuietHandler]:
        exporters, interval = self, self._interval
        pages = {job: Page(host, job) for job in jobs_of(host)}

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"  # connections persist
            phase: float | None = None  # of this connection's scrapes, from the most punctual one

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # a Prometheus was killed
                    super().handle()

            def do_GET(self) -> None:
                now = time.time()
                if self.phase is None:
                    self.phase = now
                due = self.phase + round((now - self.phase) / interval) * interval
                self.phase += min(0.0, now - due)
                at = (due if abs(now - due) <= SOON_SECONDS else now) - exporters.zero
                if at < 0 or (host.down and host.down[0] <= at < host.down[1]):
                    self.reply(503, b"down\n", "text/plain")
                    return
                self.reply(
                    200, pages[self.path.partition("?")[0].strip("/")].at(at).encode(), "text/plain; version=0.0.4"
                )

        return Handler


def jobs_of(host: Host) -> list[str]:
    """The jobs that watch a host."""
    own = bench.PLATFORMS[host.platform]
    return [
        own,
        "perf",
        *(["node"] if host.platform in ("openvz", "cgroup") else []),
        *(["telegraf"] if host.app else []),
    ]


class Page:
    """The page of one job on one host at any time of its story."""

    def __init__(self, host: Host, job: str) -> None:
        self._host = host
        self._own = job == bench.PLATFORMS[host.platform]
        self._machine = _Lines(_machine_lines(host, job), host.factor, LONG_AGO)
        self._guests = [(life, _Lines(_guest_lines(life, job), life.factor, life.born)) for life in host.lives]

    def at(self, at: float) -> str:
        """The page's text at a time."""
        text = [self._machine.at(at)]
        for life, lines in self._guests:
            if life.begin <= at < life.end:
                page = lines.at(at)
                if life.crashed and life.crashed[0] <= at < life.crashed[1]:
                    page = page.replace('state="crashed"} 0', 'state="crashed"} 1')
                text.append(page)
        if self._own and (prefix := _SOURCES.get(self._host.platform)):
            failing = self._host.failing and self._host.failing[0] <= at < self._host.failing[1]
            text.append(f'{prefix}_source_up{{source="{prefix}"}} {0 if failing else 1}\n')
        return "".join(text)


class _Lines:
    """Lines of an exposition whose counters started at `born` and grow `factor` times as fast."""

    def __init__(self, lines: Iterable[str], factor: float, born: float) -> None:
        self._fixed: list[str] = []
        self._growing: list[tuple[str, float]] = []
        self._born = born
        for line in lines:
            series, value = line.rsplit(" ", 1)
            if value.startswith("~"):
                own_time = "uptime" in series  # uptimes grow equally for all
                self._growing.append((series, float(value[1:]) * (1 if own_time else factor)))
            elif "start_time" in series:
                self._fixed.append(f"{series} {1.7e9 + born!r}\n")
            else:
                used = "memory_bytes" in series or "held_bytes" in series
                self._fixed.append(f"{series} {float(value) * (factor if used else 1)!r}\n")

    def at(self, at: float) -> str:
        age = at - self._born
        return "".join([*self._fixed, *(f"{series} {rate * age!r}\n" for series, rate in self._growing)])


def _machine_lines(host: Host, job: str) -> bench.Lines:
    """A job's metrics of the host itself."""
    match job:
        case "node":
            yield from bench.node()
        case "perf":
            yield from bench.perf()
        case "telegraf":
            yield from bench.telegraf(host.app)
        case "xentop":
            yield "xentop_up 1"
            yield f"xen_host_cpus {bench.CPUS}"
            yield f"xen_host_vcpus {2 * len(host.lives)}"
            yield from bench.domain(0, "Domain-0")
        case "kvm":
            yield "kvm_up 1"
            yield f"kvm_host_cpus {bench.CPUS}"
            yield "kvm_host_cpu_seconds_total ~3"
            yield "kvm_host_guest_seconds_total ~2"
            yield "kvm_host_guests_cpu_seconds_total ~2.5"
            for direction in ("receive", "transmit"):
                yield f"kvm_host_guests_network_{direction}_bytes_total ~5e6"
        case "vestat":
            yield "vestat_up 1"
            yield f"openvz_host_containers {len(host.lives)}"
        case "cadvisor":
            yield f"machine_cpu_cores {bench.CPUS}"
            yield 'container_start_time_seconds{id="/"} 1e9'
            for direction in ("receive", "transmit"):
                yield f'container_network_{direction}_bytes_total{{id="/",interface="eth0"}} ~7e6'


def _guest_lines(life: Life, job: str) -> bench.Lines:
    """A job's metrics of one guest: only the exporter of the host's platform has guests."""
    match job:
        case "xentop":
            yield from bench.domain(life.number, life.name)
        case "kvm":
            yield from bench.kvm_guest(1000 + life.number, life.name)
        case "vestat":
            yield from bench.openvz_container(life.name)
        case "cadvisor":
            yield from bench.cgroup_container(life.number, life.name)
