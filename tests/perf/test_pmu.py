"""Hardware counters, where this machine has any: a program of known length, and `perf stat` over the same seconds."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

import pytest

from tests.perf.conftest import Cgroup, Load, Make, Start, page, require_perf
from tests.perf.test_host import PerfStat
from tests.support.needs import need
from tests.support.pages import Page

pytestmark = pytest.mark.system

SOURCE = Path(__file__).with_name("loop.S")
PER_LOOP, AROUND = 2, 4  # instructions
LOOPS = 5_000_000_000
OF_A_PROGRAM, OF_RATIOS = 0.001, 0.01
SECONDS = 5


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """One group alone, which has the hardware all the time: nothing is estimated."""
    file = tmp_path / "events.yml"
    file.write_text("groups:\n  cache: [instructions, cycles]\n")
    return file


def program(folder: Path, loops: int) -> Path:
    """loop.S, built for this processor."""
    need(gcc="cc")
    if platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip(f"loop.S has no loop for {platform.machine()}")
    built = folder / "loop"
    command = ["cc", "-nostdlib", "-static", f"-DLOOPS={loops}", "-o", str(built), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return built


def require_pmu() -> None:
    """Skip where `perf stat` counts no instructions: nothing else could."""
    require_perf()
    command = ["perf", "stat", "-x,", "-e", "instructions,cycles", "true"]
    counted = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr
    values = [line.split(",")[0] for line in counted.splitlines() if ",instructions" in line or ",cycles" in line]
    if not (len(values) == 2 and all(value.isdigit() and int(value) > 0 for value in values)):
        pytest.skip(f"no PMU here: perf stat -e instructions,cycles says {values or counted.strip()[:200]}")


def test_a_program_s_instructions_are_counted_within_a_thousandth(
    exporter: Start, make_cgroup: Make, events: Path, tmp_path: Path
) -> None:
    require_pmu()
    built = program(tmp_path, LOOPS)
    cgroup = make_cgroup("loop")
    running = exporter(f"--events={events}", f"--cgroup.include={cgroup.path}")
    before = instructions(page(running), cgroup)
    subprocess.run(["sh", "-c", f'echo $$ > "{cgroup.folder}/cgroup.procs"; exec "{built}"'], check=True, timeout=60)
    now = page(running)
    if reads_zero(now, cgroup):
        pytest.skip("a second counter of instructions reads 0 on this machine: perf-exporter can't count cgroups here")
    assert instructions(now, cgroup) - before == pytest.approx(PER_LOOP * LOOPS + AROUND, rel=OF_A_PROGRAM)


def test_ratios_are_those_of_perf_stat_over_the_same_seconds(exporter: Start, events: Path, tmp_path: Path) -> None:
    """On the one CPU that a load keeps busy."""
    require_pmu()
    running = exporter(f"--events={events}")
    cpu = str(min(os.sched_getaffinity(0)))
    perf = PerfStat(tmp_path, "{instructions,cycles}")
    with Load() as load:
        load.begin(f"busy {SECONDS + 3} 1")
        time.sleep(1)
        before = page(running)
        perf.enable()
        time.sleep(SECONDS)
        perf.disable()
        after = page(running)
        load.wait()
    counted = perf.end()
    ours = {
        event: after.value("perf_events_total", event=event, cpu=cpu)
        - before.value("perf_events_total", event=event, cpu=cpu)
        for event in ("instructions", "cycles")
    }
    if 0 in {*ours.values(), counted[cpu, "instructions"], counted[cpu, "cycles"]}:
        pytest.skip("two counters of one event can't count at once on this machine: one of them reads 0")
    expected = counted[cpu, "instructions"] / counted[cpu, "cycles"]
    assert ours["instructions"] / ours["cycles"] == pytest.approx(expected, rel=OF_RATIOS)


def instructions(page: Page, cgroup: Cgroup) -> float:
    return page.total("perf_cgroup_events_total", cgroup=cgroup.path, event="instructions")


def reads_zero(page: Page, cgroup: Cgroup) -> bool:
    """Whether the cgroup ran, by the group's own time, and nothing was counted."""
    ran = page.total("perf_cgroup_group_running_seconds_total", cgroup=cgroup.path)
    return ran > 0.1 and instructions(page, cgroup) == 0
