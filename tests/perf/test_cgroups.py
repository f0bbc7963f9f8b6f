"""Counters of single cgroups on this kernel: a known load in each, and cgroups that come and go."""

import os
from pathlib import Path

import pytest

from tests.perf.conftest import Cgroup, Make, Start, page
from tests.support.pages import Page

pytestmark = pytest.mark.system

MARGIN = 0.01


def task_clock(page: Page, cgroup: Cgroup) -> float:
    return page.total("perf_cgroup_event_seconds_total", cgroup=cgroup.path, event="task-clock")


def faults(page: Page, cgroup: Cgroup) -> float:
    return page.total("perf_cgroup_events_total", cgroup=cgroup.path, event="page-faults")


def stolen_seconds() -> float:
    """Steal time of all CPUs so far, proc(5)."""
    steal = Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]
    return int(steal) / os.sysconf("SC_CLK_TCK")


def test_each_cgroup_has_what_was_done_in_it(exporter: Start, make_cgroup: Make) -> None:
    light, heavy, idle = make_cgroup("30 %"), make_cgroup("größe\\x2d60"), make_cgroup("idle")
    running = exporter(f"--cgroup.include={Path(light.path).parent}/*")

    def cpu_seconds() -> dict[Cgroup, float]:
        return {cgroup: cgroup.cpu_seconds() for cgroup in (light, heavy)}

    with light.load() as in_light, heavy.load() as in_heavy:
        in_light("busy 0.1 1")  # a group that never ran has no sample
        in_heavy("busy 0.1 1")
        stolen_before = stolen_seconds()
        usage, pages = [cpu_seconds()], [page(running)]
        usage.append(cpu_seconds())
        in_light.begin("busy 4 0.3")
        in_heavy.begin("busy 4 0.6")
        in_light.wait()
        in_heavy.wait()
        in_light("fault 20000")
        in_heavy("fault 60000")
        usage.append(cpu_seconds())
        pages.append(page(running))
        usage.append(cpu_seconds())
        stolen = stolen_seconds() - stolen_before
    before, after = pages
    for cgroup, least in ((light, 20_000), (heavy, 60_000)):
        # The kernel's accounting was read just before and after each of our readings.
        within, around = usage[2][cgroup] - usage[1][cgroup], usage[3][cgroup] - usage[0][cgroup]
        counted = task_clock(after, cgroup) - task_clock(before, cgroup)
        # task-clock includes time stolen by a hypervisor; the cgroup's usage doesn't.
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
