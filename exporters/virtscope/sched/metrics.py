"""The metrics: run-queue wait by victim and by what ran meanwhile, and its share of all waiting.

By hand, without attribution: `perf sched timehist`, or the second number of /proc/PID/schedstat.
"""

from collections.abc import Mapping

from prometheus_client import Metric

from virtscope.sched.pairs import Row
from virtscope.sched.program import Totals
from virtscope.toolkit.families import family, scalar


def families(rows: Mapping[str, Row], totals: Totals) -> list[Metric]:
    """Return the families."""
    return [
        family(
            "sched_wait_seconds_total",
            "Time that runnable tasks of the cgroup waited for a CPU, in seconds summed over tasks, by what ran "
            "on that CPU: a cgroup, the same one (its other tasks), a systemd unit, (host), (idle) (the CPU was "
            "waking up), (cap) (throttled), (stolen) (the hypervisor below), (rest) (no series, or unknown).",
            [
                ({"cgroup": name, "running": running}, ns / 1e9)
                for name, row in rows.items()
                for running, ns in row.ns.items()
            ],
        ),
        family(
            "sched_waits_total",
            "Times that a runnable task of the cgroup waited for a CPU.",
            [({"cgroup": name}, row.waits) for name, row in rows.items()],
        ),
        scalar("sched_switches_total", "Context switches.", totals.switches),
        scalar(
            "sched_wait_charged_seconds_total",
            "Attributed time that runnable tasks waited for a CPU, in seconds, cgroups without series included.",
            totals.waited / 1e9,
        ),
        scalar(
            "sched_wait_lost_seconds_total",
            "Wait time not attributed because the BPF map of pairs was full, in seconds; it is in (rest) of the "
            "cgroup that waited.",
            totals.lost / 1e9,
        ),
        scalar(
            "sched_wait_kernel_seconds_total",
            "Time that runnable tasks waited for a CPU as the kernel counts it (run_delay), in seconds; "
            "absent without CONFIG_SCHEDSTATS.",
            totals.run_delay / 1e9 if totals.run_delay else None,
        ),
    ]
