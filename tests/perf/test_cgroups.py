"""Counters of single cgroups, on this kernel: a known load in each, and cgroups that come and go."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import EXPORTERS, RunningExporter
from tests.perf.conftest import Cgroup, Load, Make, Start, cgroups, in_hierarchy, page
from tests.support.pages import Page
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system

MARGIN = 0.01
CHURN = 120  # cgroups that come, each with one that isn't chosen: twice what one a second for a minute would be


def faults(page: Page, cgroup: Cgroup) -> float:
    return page.total("perf_cgroup_events_total", cgroup=cgroup.path, event="page-faults")


def stolen_seconds() -> float:
    """Steal of all CPUs so far, proc(5)."""
    steal = Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]
    return int(steal) / os.sysconf("SC_CLK_TCK")


def test_each_cgroup_has_what_was_done_in_it(exporter: Start, make_cgroup: Make) -> None:
    light, heavy, idle = make_cgroup("30 %"), make_cgroup("größe\\x2d60"), make_cgroup("idle")
    running = exporter(f"--cgroup.include={Path(light.path).parent}/*")
    with light.load() as in_light, heavy.load() as in_heavy:
        loads = {light: in_light, heavy: in_heavy}
        in_light("busy 0.1 1")  # a group that never ran has no sample
        in_heavy("busy 0.1 1")
        stolen_before = stolen_seconds()
        usage, pages = [cpu_seconds(loads)], [page(running)]
        usage.append(cpu_seconds(loads))
        in_light.begin("busy 4 0.3")
        in_heavy.begin("busy 4 0.6")
        in_light.wait()
        in_heavy.wait()
        in_light("fault 20000")
        in_heavy("fault 60000")
        usage.append(cpu_seconds(loads))
        pages.append(page(running))
        usage.append(cpu_seconds(loads))
        stolen = stolen_seconds() - stolen_before
    before, after = pages
    for cgroup, least in ((light, 20_000), (heavy, 60_000)):
        # The kernel's own accounting was read closely around each of our readings.
        within, around = usage[2][cgroup] - usage[1][cgroup], usage[3][cgroup] - usage[0][cgroup]
        counted = task_clock(after, cgroup) - task_clock(before, cgroup)
        # task-clock runs on while a hypervisor below has taken the CPU; the cgroup's usage doesn't.
        assert within * (1 - MARGIN) - 0.01 <= counted <= around * (1 + MARGIN) + 0.01 + stolen
        assert least <= faults(after, cgroup) - faults(before, cgroup) <= least * (1 + MARGIN)
    assert idle.path not in after.labels("perf_cgroup_events_total", "cgroup")
    assert after.value("perf_up") == 1


def test_without_a_hierarchy_the_host_is_counted_all_the_same(exporter: Start, tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n")
    now = page(exporter(f"--path.procfs={tmp_path}", "--cgroup.include=/machine.slice/*"))
    assert now.value("perf_source_up", source="cgroups") == now.value("perf_up") == 0
    assert now.value("perf_source_up", source="perf_event") == 1


def cpu_seconds(loads: dict[Cgroup, Load]) -> dict[Cgroup, float]:
    return {cgroup: cgroup.cpu_seconds() for cgroup in loads}


def task_clock(page: Page, cgroup: Cgroup) -> float:
    return page.total("perf_cgroup_event_seconds_total", cgroup=cgroup.path, event="task-clock")


def test_cgroups_that_come_and_go_leave_nothing_behind(exporter: Start, make_cgroup: Make) -> None:
    stays = make_cgroup("stays")
    folder = Path(stays.path).parent
    running = exporter(f"--cgroup.include={folder}/*", f"--cgroup.exclude={folder}/*-not")
    descriptors = Path("/proc", str(running.process.pid), "fd")
    with stays.load() as steady:
        page(running)
        steady("fault 100")
        last = page(running)
        base = len(list(descriptors.iterdir()))
        alive: list[Cgroup] = []
        for number in range(CHURN):
            name = f"{number % 5}"  # a name comes back while others are there: it is another cgroup then
            alive.append(make_cgroup(name))
            make_cgroup(f"{name}-not").remove()
            page(running)  # from here on it is counted
            with alive[-1].load() as load:
                load("fault 1000")
            steady("fault 100")
            now = page(running)
            assert now.labels("perf_cgroup_events_total", "cgroup") == {each.path for each in (stays, *alive)}
            assert 1000 <= faults(now, alive[-1]) < 10_000, "or what its predecessor had, too"
            series, kept = now.series(), {each.path for each in (stays, *alive[:-1])}
            for (name, labels), value in last.series().items():
                counts = name in {"perf_cgroup_events_total", "perf_cgroup_group_enabled_seconds_total"}
                if counts and dict(labels)["cgroup"] in kept:
                    assert series[name, labels] >= value
            last = now
            if len(alive) == 3:
                alive.pop(0).remove()
        for cgroup in alive:
            cgroup.remove()
        now = page(running)
        wait_for(lambda: len(list(descriptors.iterdir())) <= base, 60)  # which a connection may have been in
    assert now.labels("perf_cgroup_events_total", "cgroup") == {stays.path}
    assert now.value("perf_up") == 1
    assert now.total("perf_source_errors_total") == 0
    assert faults(now, stays) >= 100 * CHURN


@pytest.fixture
def version_1(tmp_path: Path) -> Iterator[tuple[list[str], Path]]:
    """A command that runs others where version 1 of the controller perf_event is mounted, and its root seen from here.

    There is only one perf_event: while it is there, nothing counts cgroups of version 2. So this is done where
    a machine is for tests alone. The mount is in a namespace that ends with this test, however that ends.
    """
    if os.environ.get("CI") != "true":
        pytest.skip("takes perf_event away from cgroups of version 2 for some seconds: set CI=true where that may be")
    mounted = tmp_path / "perf_event"
    mounted.mkdir()
    commands = 'mount -t cgroup -o perf_event none "$0" && echo mounted && cat'
    mount = ["unshare", "--mount", "sh", "-c", commands, str(mounted)]
    with in_hierarchy(fcntl.LOCK_EX):
        if number_of_hierarchy() != 0:
            pytest.skip("version 1 of perf_event is mounted already: the other tests count by it")
        keeper = subprocess.Popen(mount, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert keeper.stdin
        assert keeper.stdout
        try:
            if keeper.stdout.readline() != "mounted\n":
                pytest.skip("version 1 of perf_event can't be mounted here: run this as root of a machine that has it")
            within = ["nsenter", f"--target={keeper.pid}", "--mount"]
            yield within, Path(f"/proc/{keeper.pid}/root{mounted}")
        finally:
            keeper.communicate(timeout=30)  # closes cat's input
            # A hierarchy that is unmounted while the kernel is still removing cgroups stays, until it is so once more.
            for _ in range(50):
                if number_of_hierarchy() == 0:
                    break
                subprocess.run(mount, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
                time.sleep(0.1)
            assert number_of_hierarchy() == 0, "perf_event has not come back to version 2"


def number_of_hierarchy() -> int:
    """The hierarchy that perf_event belongs to; 0 is version 2's."""
    lines = Path("/proc/cgroups").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("perf_event\t")), 0)


def test_cgroups_of_version_1(version_1: tuple[list[str], Path], tmp_path: Path) -> None:
    within, root = version_1
    with cgroups(root) as make:
        cgroup = make("web")
        running = RunningExporter(
            tmp_path,
            f"--cgroup.include={cgroup.path}",
            package="virtscope.perf",
            python=(*within, sys.executable),
            environment={**os.environ, "PYTHONPATH": str(EXPORTERS)},  # nsenter leaves the working directory
        )
        with running, cgroup.load() as load:
            page(running)
            load("busy 0.1 1")
            before = page(running)
            load("fault 20000")
            after = page(running)
        assert 20_000 <= faults(after, cgroup) - faults(before, cgroup) <= 20_000 * (1 + MARGIN)
