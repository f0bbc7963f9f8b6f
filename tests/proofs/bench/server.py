"""Servers to measure, each in its own process, on this port of 127.0.0.1.

`python -m tests.proofs.bench.server PORT ours|stock SERIES` or `... PORT counters CPUS CGROUPS`
"""

import itertools
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, Metric, start_http_server

from tests.proofs.bench.guests import Guests
from virtscope.perf import groups
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Counters
from virtscope.perf.kernel import Attr, Kernel
from virtscope.perf.machine import Machine
from virtscope.perf.metrics import families
from virtscope.toolkit.cli import serve_until_stopped
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.server import Server


def ours(port: int, series: int) -> None:
    """Serve with the toolkit that all our exporters share."""
    _serve(port, Exporter("bench", [Source("guests", Guests(series).collect, str)]))


def stock(port: int, series: int) -> None:
    """Serve with prometheus_client as in its documentation."""
    registry = CollectorRegistry()
    registry.register(Guests(series))
    start_http_server(port, "127.0.0.1", registry)
    threading.Event().wait()


def counters(port: int, cpus: int, cgroups: int) -> None:
    """Serve perf-exporter's metrics of a simulated kernel."""
    with TemporaryDirectory() as folder:
        sysfs = Path(folder)
        (sysfs / "devices/system/cpu").mkdir(parents=True)
        (sysfs / "devices/system/cpu/online").write_text(f"0-{cpus - 1}\n")
        plan = groups.load(groups.DEFAULT, sysfs)
        watched = [Cgroup(f"/machine.slice/web{number:02}.scope", number) for number in range(cgroups)]
        counters = Counters(
            StandingKernel(),
            plan.groups,
            Machine(sysfs, sysfs),
            open_folder=lambda _: os.open(sysfs, os.O_RDONLY),
            most_files=1_000_000,
        )
        counters.read(watched)

        def read() -> list[Metric]:
            return families(counters.read(watched), plan.absent)

        _serve(port, Exporter("perf", [Source("perf_event", read, str)]))


class StandingKernel(Kernel):
    """Counts any event. It multiplexes: every group runs half of the time, and everything changes between scrapes.

    A read costs about as much as the real system call.
    """

    def __init__(self) -> None:
        self._descriptors = itertools.count(3)
        self._reads = 0

    def open(self, attr: Attr, target: int, cpu: int, leader: int, flags: int) -> int:
        del attr, target, cpu, leader, flags
        return next(self._descriptors)

    def start(self, leader: int) -> None:
        pass

    def read(self, leader: int, size: int) -> bytes:
        self._reads = now = self._reads + 1_000_003
        events = size // 8 - 3
        return struct.pack(f"={3 + events}Q", events, now * 2, now, *range(now + leader, now + leader + events))

    def close(self, descriptor: int) -> None:
        pass


def _serve(port: int, exporter: Exporter) -> None:
    serve_until_stopped(Server(("127.0.0.1", port), "/metrics", None, exporter))


if __name__ == "__main__":
    servers: dict[str, Callable[..., None]] = {"ours": ours, "stock": stock, "counters": counters}
    servers[sys.argv[2]](int(sys.argv[1]), *map(int, sys.argv[3:]))
