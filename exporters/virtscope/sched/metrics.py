"""The metrics: waits for a CPU, disks and memory, by victim and by what had them meanwhile; time taken by interrupts.

By hand, without attribution: `perf sched timehist`, or the second number of /proc/PID/schedstat; `biolatency-bpfcc -D`,
or r_await and w_await of `iostat -x`; `softirqs-bpfcc`, `hardirqs-bpfcc`; memory.pressure and memory.stat of a cgroup,
`drsnoop-bpfcc`.
"""

from collections.abc import Mapping

from prometheus_client import Metric

from virtscope.sched.cpu import Totals
from virtscope.sched.disk import Device
from virtscope.sched.irq import Totals as InterruptTotals
from virtscope.sched.memory import RECLAIM, Rows
from virtscope.sched.memory import Totals as Evicted
from virtscope.sched.pairs import Row
from virtscope.toolkit.families import family, scalar


def of_cpu(rows: Mapping[str, Row], totals: Totals) -> list[Metric]:
    """Return the families of waiting for a CPU."""
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


def of_disks(rows: Mapping[str, Mapping[str, Row]], devices: Mapping[str, Device]) -> list[Metric]:
    """Return the families of delays of disk requests; `rows` by device and container."""
    each = [(device, name, row) for device, rows_of_device in rows.items() for name, row in rows_of_device.items()]
    return [
        family(
            "blk_delay_seconds_total",
            "Time from queueing a synchronous disk request of the cgroup to its completion, in seconds summed over "
            "requests, by whose request the device served meanwhile: a cgroup, (self) (others of the same cgroup), a "
            "systemd unit, (host), (device) (the request itself), (throttled) (delayed by the kernel while the "
            "device was free, or by io.max), (rest) (no series, or unknown). Devices above a disk that counts the same "
            "are left out.",
            [
                ({"cgroup": name, "device": device, "by": "(self)" if by == name else by}, ns / 1e9)
                for device, name, row in each
                for by, ns in row.ns.items()
            ],
        ),
        family(
            "blk_requests_total",
            "Synchronous disk requests of the cgroup: reads, and writes for which a task waits.",
            [({"cgroup": name, "device": device}, row.waits) for device, name, row in each],
        ),
        family(
            "blk_asynchronous_requests_total",
            "Disk requests for which no task waits, such as writeback; they delay others.",
            [({"device": name}, device.asynchronous) for name, device in devices.items()],
        ),
        family(
            "blk_delay_charged_seconds_total",
            "Attributed time of synchronous disk requests, in seconds, cgroups without series included.",
            [({"device": name}, device.waited / 1e9) for name, device in devices.items()],
        ),
        family(
            "blk_delay_lost_seconds_total",
            "Time of synchronous disk requests not attributed because a BPF map was full, in seconds.",
            [({"device": name}, device.lost / 1e9) for name, device in devices.items()],
        ),
    ]


def of_interrupts(rows: Mapping[str, Row], totals: InterruptTotals) -> list[Metric]:
    """Return the families of interrupts."""
    return [
        family(
            "irq_delay_seconds_total",
            "CPU time that interrupts and softirqs took from running tasks of the cgroup, in seconds, by whose packets "
            "or disk requests they handled: a cgroup, (self) (the same one), a systemd unit, (host) (anything else, "
            "such as timers), (rest) (no series, or unknown).",
            _by(rows, 1e9),
        ),
        family(
            "irq_seconds_total",
            "CPU time of hard interrupts' handlers and of softirqs, in seconds, idle CPUs and ksoftirqd included; "
            "without, on x86, the local timer and interprocessor interrupts.",
            [({"kind": kind}, ns / 1e9) for kind, ns in totals.kinds.items()],
        ),
        scalar(
            "irq_delay_charged_seconds_total",
            "Attributed CPU time that interrupts and softirqs took from running tasks, in seconds, cgroups without "
            "series included.",
            totals.charged / 1e9,
        ),
        scalar(
            "irq_delay_lost_seconds_total",
            "CPU time that interrupts and softirqs took from running tasks not attributed because the BPF map of pairs "
            "was full, in seconds.",
            totals.lost / 1e9,
        ),
    ]


def of_memory(rows: Rows, totals: Evicted) -> list[Metric]:
    """Return the families of stalls for memory."""
    return [
        family(
            "memory_delay_seconds_total",
            "Time that tasks of the cgroup stalled for memory, in seconds, by an estimate of the cause: the stall (PSI "
            "some; without PSI the tasks' direct reclaim) divided by who evicted the cgroup's pages in the last "
            "minute: a cgroup, systemd unit or (host) that evicted at least half, (self) (its own tasks), (cap) (its "
            "own limit), (rest) (others, or unknown).",
            _by(rows.stalls, 1e9),
        ),
        family(
            "memory_evicted_pages_total",
            "Pages of the cgroup that reclaim evicted from the page cache or wrote to swap, by whose task reclaimed: "
            "a cgroup, (self) (its own tasks), a systemd unit, (host), (kswapd) (for all), (rest) (no series, or "
            "unknown).",
            _by(rows.evicted, 1),
        ),
        family(
            "memory_reclaim_seconds_total",
            "Time that tasks of the cgroup reclaimed memory themselves (direct reclaim), in seconds summed over tasks, "
            "by what was full: limit (a cgroup's) or machine.",
            [
                ({"cgroup": name, "full": full}, row.ns[full] / 1e9)
                for name, row in rows.reclaimed.items()
                for full in RECLAIM.values()
            ],
        ),
        scalar(
            "memory_evicted_lost_pages_total",
            "Evicted pages not attributed because the BPF map of pairs was full.",
            totals.lost,
        ),
    ]


def _by(rows: Mapping[str, Row], unit: float) -> list[tuple[dict[str, str], float]]:
    """Return the samples of rows, in this unit."""
    return [
        ({"cgroup": name, "by": "(self)" if by == name else by}, value / unit)
        for name, row in rows.items()
        for by, value in row.ns.items()
    ]
