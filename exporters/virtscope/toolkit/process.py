"""What every Prometheus client says of its own process: process_cpu_seconds_total and its neighbours.

The client library's ProcessCollector would do, but that it lists all file descriptors: 9 ms a scrape with the 16,384 of
a perf-exporter that counts in many cgroups.

https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

# Descriptors that are listed where the kernel doesn't count them, for half a millisecond at most.
MOST_LISTED = 1024

# Below /proc whatever --path.procfs is: in another host's files this process's id is that of another one.
_SELF = Path("/proc/self")
_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """This process, as Linux sees it."""

    def __init__(self) -> None:
        stat = Path("/proc/stat").read_text()
        self._boot_time = float(stat.partition("\nbtime ")[2].split(maxsplit=1)[0])

    def families(self) -> Iterator[Metric]:
        """Return the process's metrics; raises OSError.

        process_open_fds is missing where there may be many and only a list of them would tell.
        """
        fields = (_SELF / "stat").read_bytes().rpartition(b")")[2].split()  # proc(5), from its third field on
        user, system, started, virtual, resident = (int(fields[index]) for index in (11, 12, 19, 20, 21))
        yield GaugeMetricFamily("process_virtual_memory_bytes", "Virtual memory size in bytes.", virtual)
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory size in bytes.", resident * resource.getpagesize()
        )
        yield GaugeMetricFamily(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            self._boot_time + started / _TICKS,
        )
        yield CounterMetricFamily(
            "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", (user + system) / _TICKS
        )
        count = open_descriptors()
        if count is not None:
            yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", count)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit != resource.RLIM_INFINITY:
            yield GaugeMetricFamily("process_max_fds", "Maximum number of open file descriptors.", limit)


def open_descriptors() -> int | None:
    """Return how many file descriptors this process has open, None where that would take too long."""
    counted = (_SELF / "fd").stat().st_size  # since Linux 6.2, before that 0
    if counted:
        return counted
    # How many there is room for: a power of two, that never gets smaller.
    room = int((_SELF / "status").read_text().partition("\nFDSize:")[2].split(maxsplit=1)[0])
    if room > MOST_LISTED:
        return None
    return len(os.listdir(_SELF / "fd")) - 1  # noqa: PTH208  half of iterdir's cost; without the one that it is read by
