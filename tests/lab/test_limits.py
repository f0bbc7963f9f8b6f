"""Weights, caps and CPUs of real cgroups, and their effect on loads."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from lab.cgroups import Cgroup, CgroupError, Hierarchies, TierLimits
from tests.lab.conftest import name

CPU = str(max(os.sched_getaffinity(0)))
SECONDS = 2.0  # of load: dozens of time slices and of the cap's periods
MARGIN = 0.15

Make = Callable[[str, TierLimits], Cgroup]


@pytest.fixture
def make(hierarchies: Hierarchies) -> Iterator[Make]:
    """Creates a cgroup with a load that uses as much CPU as it gets."""
    made: list[Cgroup] = []
    loads: list[subprocess.Popen[bytes]] = []

    def with_load(suffix: str, limits: TierLimits) -> Cgroup:
        cgroup = Cgroup(name(suffix), hierarchies)
        cgroup.make(limits)
        made.append(cgroup)
        loads.append(subprocess.Popen(cgroup.joining(["sh", "-c", "while :; do :; done"])))
        while cgroup.cpu_seconds() < 0.05:  # before that it may not have joined yet
            time.sleep(0.01)
        return cgroup

    yield with_load
    for cgroup in made:
        cgroup.remove()
    for load in loads:
        load.wait()


def used(*cgroups: Cgroup) -> list[float]:
    """The average number of CPUs that each uses."""
    start, before = time.monotonic(), [cgroup.cpu_seconds() for cgroup in cgroups]
    time.sleep(SECONDS)
    elapsed = time.monotonic() - start
    return [(cgroup.cpu_seconds() - first) / elapsed for cgroup, first in zip(cgroups, before, strict=True)]


def test_twice_the_weight_is_twice_the_cpu_and_changes_while_running(make: Make) -> None:
    heavy = make("heavy", TierLimits(cpu_weight=200, cpus=CPU))
    light = make("light", TierLimits(cpu_weight=100, cpus=CPU))
    more, less = used(heavy, light)
    assert more / less == pytest.approx(2, rel=MARGIN)
    heavy.limit(TierLimits(cpu_weight=25, cpus=CPU))
    more, less = used(heavy, light)
    assert more / less == pytest.approx(0.25, rel=MARGIN)


def test_a_cap_holds_and_can_be_removed(make: Make) -> None:
    capped = make("capped", TierLimits(cap=0.2, cpus=CPU))
    assert used(capped)[0] <= 0.2 * (1 + MARGIN)
    capped.limit(TierLimits(cpu_weight=10_000, cpus=CPU))  # with priority over everything else on the machine
    assert used(capped)[0] > 0.2 * (1 + MARGIN)


def test_a_load_runs_on_its_assigned_cpus(make: Make) -> None:
    pinned, free = make("pinned", TierLimits(cpus=CPU)), make("free", TierLimits())
    for cgroup, cpus in ((pinned, {int(CPU)}), (free, os.sched_getaffinity(0))):
        assert {frozenset(os.sched_getaffinity(pid)) for pid in cgroup.processes()} == {frozenset(cpus)}
    pinned.limit(TierLimits())
    assert os.sched_getaffinity(pinned.processes()[0]) == os.sched_getaffinity(0)


def test_a_cpu_that_does_not_exist_is_refused(make: Make) -> None:
    with pytest.raises(CgroupError, match=r"writing '4096' to /.*/cpuset\.cpus: .*; "):
        make("nowhere", TierLimits(cpus="4096"))
