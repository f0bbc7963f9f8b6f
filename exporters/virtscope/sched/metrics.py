"""The metrics: run-queue wait by victim and by what ran meanwhile, and its share of all waiting.

By hand, without attribution: `perf sched timehist`, or the second number of /proc/PID/schedstat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.sched.pairs import Row
from virtscope.sched.program import Totals
from virtscope.toolkit.families import Definition, Table, page, scalars, table


class _Counted(NamedTuple):
    rows: Mapping[str, Row]
    totals: Totals


_TABLES: tuple[Table[_Counted], ...] = (
    table(
        lambda counted: [
            ({"cgroup": name, "running": running}, ns)
            for name, row in counted.rows.items()
            for running, ns in row.ns.items()
        ],
        Definition(
            "sched_wait_seconds_total",
            "Time that runnable tasks of the cgroup waited for a CPU, in seconds summed over tasks, by what ran "
            "on that CPU: a cgroup, the same one (its other tasks), a systemd unit, (host), (idle) (the CPU was "
            "waking up), (cap) (throttled), (stolen) (the hypervisor below), (rest) (no series, or unknown).",
            lambda ns: ns / 1e9,
        ),
    ),
    table(
        lambda counted: [({"cgroup": name}, row.waits) for name, row in counted.rows.items()],
        Definition("sched_waits_total", "Times that a runnable task of the cgroup waited for a CPU."),
    ),
    scalars(
        Definition("sched_switches_total", "Context switches.", lambda counted: counted.totals.switches),
        Definition(
            "sched_wait_charged_seconds_total",
            "Attributed time that runnable tasks waited for a CPU, in seconds, cgroups without series included.",
            lambda counted: counted.totals.waited / 1e9,
        ),
        Definition(
            "sched_wait_lost_seconds_total",
            "Wait time not attributed because the BPF map of pairs was full, in seconds; it is in (rest) of the "
            "cgroup that waited.",
            lambda counted: counted.totals.lost / 1e9,
        ),
        Definition(
            "sched_wait_kernel_seconds_total",
            "Time that runnable tasks waited for a CPU as the kernel counts it (run_delay), in seconds; "
            "absent without CONFIG_SCHEDSTATS.",
            lambda counted: counted.totals.run_delay / 1e9 if counted.totals.run_delay else None,
        ),
    ),
)


def families(rows: Mapping[str, Row], totals: Totals) -> list[Metric]:
    """Return the families."""
    return page(_TABLES, _Counted(rows, totals))
