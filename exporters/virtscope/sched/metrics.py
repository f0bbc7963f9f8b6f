"""The table of the metrics: who waited for a CPU while who ran on it, and how much of all waiting that covers.

By hand, without who ran meanwhile: `perf sched timehist`, or the second number of /proc/PID/schedstat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.sched.pairs import Row
from virtscope.sched.program import Totals
from virtscope.toolkit.families import Block, Blocks, Series, family

_WAIT = "sched_wait_seconds_total"


class _Kept(NamedTuple):
    running: tuple[str, ...]
    wait: Block
    waits: Block


class Families:
    """Makes the families of each reading; what hasn't changed since the last one is the same block."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def of(self, rows: Mapping[str, Row], totals: Totals) -> list[Metric]:
        """Return what was counted.

        sched_wait_seconds_total{cgroup="/docker/4f2c",running="/docker/91ab"} 12.5
        sched_wait_seconds_total{cgroup="/docker/4f2c",running="/system.slice/backup.service"} 3.1
        sched_wait_seconds_total{cgroup="/docker/4f2c",running="(cap)"} 0.4
        sched_waits_total{cgroup="/docker/4f2c"} 18734
        """
        self._kept = {name: _changed(self._kept.get(name), name, row) for name, row in rows.items()}
        families: list[Metric] = [
            Blocks(
                _WAIT,
                "Time that runnable tasks of the cgroup waited for a CPU, in seconds summed over tasks, by what ran "
                "on that CPU: a cgroup, the same one (its other tasks), a systemd unit, (host), (idle) (the CPU was "
                "waking up), (cap) (throttled), (stolen) (the hypervisor below), (rest) (no series, or unknown).",
                [kept.wait for kept in self._kept.values()],
            ),
            Blocks(
                "sched_waits_total",
                "Times that a runnable task of the cgroup waited for a CPU.",
                [kept.waits for kept in self._kept.values()],
            ),
            family("sched_switches_total", "Context switches.", [({}, totals.switches)]),
            family(
                "sched_wait_charged_seconds_total",
                "Attributed time that runnable tasks waited for a CPU, in seconds, cgroups without series included.",
                [({}, totals.waited / 1e9)],
            ),
            family(
                "sched_wait_lost_seconds_total",
                "Wait time not attributed because the BPF map of pairs was full, in seconds; it is in (rest) of the "
                "cgroup that waited.",
                [({}, totals.lost / 1e9)],
            ),
        ]
        if totals.run_delay:
            families.append(
                family(
                    "sched_wait_kernel_seconds_total",
                    "Time that runnable tasks waited for a CPU as the kernel counts it (run_delay), in seconds; "
                    "absent without CONFIG_SCHEDSTATS.",
                    [({}, totals.run_delay / 1e9)],
                )
            )
        return families


def _changed(kept: _Kept | None, name: str, row: Row) -> _Kept:
    running = tuple(row.ns)
    seconds = [ns / 1e9 for ns in row.ns.values()]
    if kept is None or kept.running != running:
        wait = Series(_WAIT, [{"cgroup": name, "running": each} for each in running])
        waits = Series("sched_waits_total", [{"cgroup": name}]) if kept is None else kept.waits.series
        return _Kept(running, Block(wait, seconds), Block(waits, [row.waits]))
    if kept.wait.values == seconds and kept.waits.values == [row.waits]:
        return kept
    return _Kept(running, Block(kept.wait.series, seconds), Block(kept.waits.series, [row.waits]))
