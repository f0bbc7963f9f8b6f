"""perf-exporter on a simulated kernel, in a process that prints its port.

`python -m tests.proofs.bench.fake_counters CPUS CGROUPS`

The kernel multiplexes: every group runs half of the time, and everything changes between scrapes. A read costs about as
much as the real system call.
"""

import itertools
import os
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import Metric

from virtscope.perf import groups
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Counters
from virtscope.perf.kernel import Attr, Kernel
from virtscope.perf.machine import Machine
from virtscope.perf.metrics import families
from virtscope.toolkit.cli import serve_until_stopped
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.server import Server


class StandingKernel(Kernel):
    """Counts any event."""

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


def main(cpus: int, cgroups: int) -> None:
    """Serve until stopped."""
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

        server = Server(("127.0.0.1", 0), "/metrics", None, Exporter("perf", [Source("perf_event", read, str)]))
        print(server.server_address[1], flush=True)
        serve_until_stopped(server)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
