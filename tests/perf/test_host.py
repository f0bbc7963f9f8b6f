"""Counters of the whole machine against the kernel's accounting, which is independent of perf events."""

import os
from pathlib import Path

import pytest

from tests.perf.conftest import Load, Start, page
from tests.support.needs import need_root

pytestmark = pytest.mark.system

MARGIN = 0.01
MIN_COUNT = {"page-faults": 50_000, "context-switches": 10_000}  # per CPU's load


def counted_by_the_kernel() -> dict[str, int]:
    """All CPUs since boot, proc(5)."""
    lines = [line for name in ("stat", "vmstat") for line in Path("/proc", name).read_text().splitlines()]
    values = dict(line.split()[:2] for line in lines)
    return {"context-switches": int(values["ctxt"]), "page-faults": int(values["pgfault"])}


def test_events_of_all_cpus_as_the_kernel_counts_them(exporter: Start) -> None:
    """The kernel's counters are read around and within our readings: ours must lie between them."""
    need_root("may count whole CPUs")
    running = exporter()
    cpus = [str(number) for number in sorted(os.sched_getaffinity(0))]
    with Load() as load:
        page(running)
        truth, pages = [counted_by_the_kernel()], [page(running)]
        truth.append(counted_by_the_kernel())
        for cpu in cpus:
            load(f"cpu {cpu}")
            load("fault 50000")
            load("switch 5000")
            load("busy 0.5 1")
        truth.append(counted_by_the_kernel())
        pages.append(page(running))
        truth.append(counted_by_the_kernel())
    before, after = pages
    for event, least in MIN_COUNT.items():
        labels = {"group": "software", "event": event}
        grown = after.total("perf_events_total", **labels) - before.total("perf_events_total", **labels)
        within, around = truth[2][event] - truth[1][event], truth[3][event] - truth[0][event]
        assert within * (1 - MARGIN) <= grown <= around * (1 + MARGIN), event
        for cpu in cpus:
            seen = [each.value("perf_events_total", cpu=cpu, **labels) for each in pages]
            assert seen[1] - seen[0] >= least, "the load was not seen on its CPU"
    clocks = [each.total("perf_event_seconds_total", group="software", event="task-clock") for each in pages]
    assert clocks[1] - clocks[0] >= 0.5 * len(cpus) * (1 - MARGIN)
