"""What perf-exporter exposes on a machine with given event counts: real families of made-up counts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from tests.dashboards import golden
from virtscope.perf import groups, profile
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import CgroupCount, Counts, HostCount
from virtscope.perf.metrics import Families
from virtscope.perf.profile import Hits, Place
from virtscope.perf.scaling import Total
from virtscope.perf.support import NOT_SUPPORTED, Refusal, Wanted
from virtscope.toolkit.exposition import Encoder

SYSFS = Path(__file__).resolve().parents[1] / "fixtures" / "sysfs" / "intel-two-sockets"

GIGA = 1e9
PER_SECOND = {
    "instructions": 1.2 * GIGA,
    "cycles": 1.5 * GIGA,
    "cache-misses": 0.006 * GIGA,
    "dTLB-load-misses": 0.002 * GIGA,
    "iTLB-load-misses": 0.0005 * GIGA,
}
MEASURED = {"cache": 0.75, "tlb": 0.4}  # of the time; the other groups don't run

# Shares of cache misses in Dom0's kernel as Padala's report of 2007 has them, in samples; the rest is made up.
SAMPLES = {
    ("vmlinux", "hypervisor_callback", "kernel"): 3035,
    ("vmlinux", "get_page_from_freelist", "kernel"): 1980,
    ("vmlinux", "net_tx_action", "kernel"): 955,
    ("xenstored", "do_read", "user"): 161,
    ("(other)", "(other)", ""): 3869,
}

# Families that the made-up processor doesn't count, and a profiler's about itself: as golden pages have them.
_OTHER_PAGES = ("perf-intel-two-sockets", "perf-intel-hybrid", "perf-amd-two-caches", "perf-profile", "perf-resctrl")
_OTHERS = r"resctrl_|perf_(cgroup_)?event_(seconds|bytes|joules)_|perf_profile_(info|seconds|lost)|process_(open|max)_"


def perf(seconds: float) -> str:
    """Its page after so many seconds."""
    return page(seconds, {event: seconds * rate for event, rate in PER_SECOND.items()}, {})


def page(seconds: float, host: Mapping[str, float], cgroups: Mapping[str, Mapping[str, float]]) -> str:
    """A page after so many seconds: how often each event was counted on the machine, and of it in cgroups, by path."""
    plan = _plan()
    running = [group for group in plan.groups if group.name in MEASURED]
    refused = Refusal(NOT_SUPPORTED, "")
    support = {
        Wanted(group.name, event): None if group.name in MEASURED and event.name in PER_SECOND else refused
        for group in plan.groups
        for event in group.events
    }
    samples = {
        Place("cache-misses", image, symbol, space): Hits(int(count * seconds / 10), count * seconds * 1e3)
        for (image, symbol, space), count in SAMPLES.items()
    }
    counts = Counts(
        [HostCount(0, group, _total(group, seconds, host)) for group in running],
        [
            CgroupCount(Cgroup(path, inode), group, _total(group, seconds, counted))
            for inode, (path, counted) in enumerate(cgroups.items())
            for group in running
        ],
        support,
        20,
        0,
        [],
    )
    families = Families(plan.absent).of(counts)
    text = Encoder().text([*families, *profile.families(samples)])
    others = golden.page("perf", _OTHER_PAGES, seconds, _OTHERS)
    return f"perf_up 1\nprocess_cpu_seconds_total {seconds * 0.003}\n{text.decode()}{others}"


@functools.cache
def _plan() -> groups.Plan:
    return groups.load(groups.DEFAULT, SYSFS)


def _total(group: groups.Group, seconds: float, counted: Mapping[str, float]) -> Total:
    return Total(seconds, seconds * MEASURED[group.name], tuple(counted.get(event.name) for event in group.events))
