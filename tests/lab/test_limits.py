"""Weights, caps and CPU sets of real cgroups, and their effect on loads, containers and benchmarks."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from deploy import programs
from lab import LabError, slow_disk
from lab.allocation.containers import cgroups
from lab.allocation.scenario import LOADS
from lab.batch import Batch, Disk
from lab.cgroups import Cgroup, CgroupError, Hierarchies, TierLimits
from lab.factors import servers
from lab.factors.scenario import Case
from lab.progress import Course
from lab.scenario import RUNNING, STOPPED, THROTTLED
from tests.lab.conftest import name, require_packages
from tests.support.needs import missing
from tests.support.waiting import wait_for

CPU = max(os.sched_getaffinity(0))
SECONDS = 2.0  # of load: dozens of time slices and cap periods
MARGIN = 0.15
pytestmark = pytest.mark.system

Make = Callable[[str, TierLimits], Cgroup]


@pytest.fixture
def make(hierarchies: Hierarchies) -> Iterator[Make]:
    """Creates a cgroup with a load that uses all the CPU it gets."""
    made: list[Cgroup] = []
    loads: list[subprocess.Popen[bytes]] = []

    def with_load(suffix: str, limits: TierLimits) -> Cgroup:
        cgroup = Cgroup(name(suffix), hierarchies)
        cgroup.make(limits)
        made.append(cgroup)
        loads.append(subprocess.Popen(cgroup.joining(["timeout", "240", "sh", "-c", "while :; do :; done"])))
        wait_for(lambda: cgroup.cpu_seconds() > 0.05)  # until then it may not have joined
        return cgroup

    yield with_load
    for cgroup in made:
        cgroup.remove()
    for load in loads:
        load.wait()


def used(cgroup: Cgroup) -> float:
    """Its average CPU usage in CPUs."""
    start, before = time.monotonic(), cgroup.cpu_seconds()
    time.sleep(SECONDS)
    return (cgroup.cpu_seconds() - before) / (time.monotonic() - start)


def ratio(one: Cgroup, other: Cgroup) -> float:
    """The share of the first in both loads' CPU time, once they have a second: independent of other load."""
    before = one.cpu_seconds(), other.cpu_seconds()

    def gained() -> tuple[float, float]:
        return one.cpu_seconds() - before[0], other.cpu_seconds() - before[1]

    more, less = wait_for(gained, until=lambda both: sum(both) > 1)
    return more / less


def cgroups_named(pattern: str, hierarchies: Hierarchies) -> list[Path]:
    return [path for root in hierarchies.roots for path in (root / "virtscope").glob(pattern)]


def test_twice_the_weight_is_twice_the_cpu_and_changes_while_running(make: Make) -> None:
    heavy = make("heavy", TierLimits(cpu_weight=200, cpus=str(CPU)))
    light = make("light", TierLimits(cpu_weight=100, cpus=str(CPU)))
    assert ratio(heavy, light) == pytest.approx(2, rel=MARGIN)
    heavy.limit(TierLimits(cpu_weight=25, cpus=str(CPU)))
    assert ratio(heavy, light) == pytest.approx(0.25, rel=MARGIN)


def test_a_cap_holds_and_can_be_removed(make: Make) -> None:
    capped = make("capped", TierLimits(cap=0.2, cpus=str(CPU)))
    assert used(capped) <= 0.2 * (1 + MARGIN)
    capped.limit(TierLimits(cpu_weight=10_000, cpus=str(CPU)))  # precedence over everything else on the machine
    assert used(capped) > 0.2 * (1 + MARGIN)


def test_a_load_runs_on_its_assigned_cpus(make: Make) -> None:
    pinned, free = make("pinned", TierLimits(cpus=str(CPU))), make("free", TierLimits())
    for cgroup, cpus in ((pinned, {CPU}), (free, os.sched_getaffinity(0))):
        assert {frozenset(os.sched_getaffinity(pid)) for pid in cgroup.processes()} == {frozenset(cpus)}
    pinned.limit(TierLimits())
    assert os.sched_getaffinity(pinned.processes()[0]) == os.sched_getaffinity(0)
    with pytest.raises(CgroupError, match=r"writing '4096' to /.*/cpuset\.cpus: .*; "):
        make("nowhere", TierLimits(cpus="4096"))


def test_what_a_killed_run_has_left_is_ended_by_the_next(make: Make, hierarchies: Hierarchies) -> None:
    left = make("left", TierLimits())
    assert left.processes()
    with pytest.raises(CgroupError, match="is in use by another run on this machine: wait for it"):
        Cgroup(name("left"), hierarchies).make(TierLimits())
    assert left.lock is not None
    os.close(left.lock)
    left.lock = None
    again = Cgroup(name("left"), hierarchies)
    again.make(TierLimits())
    assert not again.processes()
    again.remove()


@pytest.mark.parametrize("load", LOADS)
def test_a_container_works_within_its_cap_until_it_is_removed(
    hierarchies: Hierarchies, tmp_path: Path, load: str
) -> None:
    folder = tmp_path / "containers"
    with cgroups(2, None, load, folder) as containers:
        containers.cap(0, 0.1)
        containers.cap(1, 0.9)
        before = containers.sample()
        time.sleep(SECONDS)
        now = containers.sample()
        little, much = (after - was for was, after in zip(before.container_cpu, now.container_cpu, strict=True))
        assert now.tasks > before.tasks
        assert now.machine_cpu - before.machine_cpu > 0
        assert 0 < little < 2 * 0.1 * (now.clock - before.clock)  # also if other load leaves them little
        assert much > 0
        containers.check()
    assert not folder.exists()
    assert not cgroups_named("allocation-*", hierarchies)


@pytest.fixture
def benchmarks(hierarchies: Hierarchies) -> Iterator[None]:
    """Nothing remains, however a test ends."""
    require_packages(programs.BENCHMARKS)
    yield
    assert not cgroups_named("factors-*", hierarchies)


@pytest.mark.usefixtures("benchmarks")
def test_virtual_servers_end_with_ctrl_c_and_one_that_fails_is_named_with_what_it_says(tmp_path: Path) -> None:
    course = Course(3, Console(quiet=True))

    def interrupted(seconds: float, check: Callable[[], None]) -> None:
        course.pass_time(seconds, check)
        raise KeyboardInterrupt

    def side_by_side(command: list[str], waiting: servers.Waiting) -> None:
        case = Case(2, cap=0.05)
        servers.side_by_side(case, [CPU], tmp_path / "servers", [command] * 2, seconds=3, pass_time=waiting)

    with pytest.raises(KeyboardInterrupt):
        side_by_side(["sysbench", "cpu", "--time=0", "--events=0", "run"], interrupted)
    words = r"(?s)sysbench in virtual server 1 ended with status 1 and said:.*Cannot find benchmark"
    with pytest.raises(LabError, match=words):
        side_by_side(["sysbench", "nosuch", "run"], course.pass_time)


def test_a_backup_s_reads_of_a_disk_are_throttled_and_no_longer(hierarchies: Hierarchies, tmp_path: Path) -> None:
    if reason := slow_disk.why_not_here():
        missing(reason)
    with slow_disk.slow_disk(tmp_path / "disk", 0.001) as device:
        backup = Batch(tmp_path / "backup", Disk(device, 0.001))

        def reads(state: str) -> float:
            """In a second, in this state."""
            backup.set_up(state, str(CPU))
            time.sleep(0.5)  # what was in flight has ended
            before, start = completed(device), time.monotonic()
            time.sleep(SECONDS)
            backup.check()
            return (completed(device) - before) / (time.monotonic() - start)

        try:
            assert [reads(state) > 100 * (1 + MARGIN) for state in (RUNNING, THROTTLED, RUNNING)] == [True, False, True]
            assert reads(STOPPED) == 0
        finally:
            backup.stop()
    assert not cgroups_named("backup", hierarchies)


def completed(device: Path) -> int:
    """Requests that read (Documentation/block/stat.rst)."""
    return int(Path("/sys/block", device.name, "stat").read_text().split()[0])
