"""demo-kvm's page of sched-exporter: its guests' waiting for a CPU by who ran meanwhile.

Chosen, as nothing of it was recorded: the guest that computes all the time is in the way of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Metric

from demo.recordings import KVM_HOST
from demo.sensors import Page
from virtscope.toolkit.families import family

LABELS = {"host": KVM_HOST, "platform": "kvm"}

# Cgroups of the recorded guests, as libvirt called them.
_WEB, _DB, _CAPPED, _BATCH = (
    rf"/machine.slice/machine-qemu\x2d{name}.scope"
    for name in (r"1\x2dinstance\x2d0000002a", r"2\x2ddb1.prod", r"3\x2dcapped", r"5\x2dbatch")
)

# Seconds per second that each waits, by whose tasks run meanwhile.
_WAITS: Mapping[str, Mapping[str, float]] = {
    _WEB: {_BATCH: 0.29, _CAPPED: 0.04, _DB: 0.01, "(host)": 0.02, "(idle)": 0.004, "(rest)": 0.001},
    _DB: {_BATCH: 0.12, _CAPPED: 0.03, _WEB: 0.02, "(host)": 0.02, "(cap)": 0.2},
    _CAPPED: {_BATCH: 0.15, _CAPPED: 0.06, _WEB: 0.03, _DB: 0.01, "(host)": 0.02, "(cap)": 0.9},
    _BATCH: {_CAPPED: 0.12, _WEB: 0.05, _DB: 0.02, "(host)": 0.04, "/system.slice/backup.service": 0.02},
}
_A_WAIT = 0.004  # seconds, on average
_SWITCHES = 3000  # per second
_CHARGED = 0.995


def page(up: float) -> Page:
    """What sched-exporter shows after so many seconds."""
    waited = [
        ({"cgroup": cgroup, "running": running}, up * share)
        for cgroup, by in _WAITS.items()
        for running, share in by.items()
    ]
    waits = [({"cgroup": cgroup}, float(int(up * sum(by.values()) / _A_WAIT))) for cgroup, by in _WAITS.items()]
    total = sum(seconds for _, seconds in waited)
    families: list[Metric] = [
        family("sched_wait_seconds_total", "Time ready to run and waiting, by whose tasks ran meanwhile.", waited),
        family("sched_waits_total", "Waits.", waits),
        family("sched_switches_total", "Context switches.", [({}, float(int(up * _SWITCHES)))]),
        family("sched_wait_charged_seconds_total", "Waiting that was charged.", [({}, total)]),
        family("sched_wait_kernel_seconds_total", "Waiting by the kernel's own count.", [({}, total / _CHARGED)]),
        family("sched_wait_lost_seconds_total", "Waiting that there was no room for.", [({}, 0.0)]),
    ]
    return Page("sched", LABELS, families)
