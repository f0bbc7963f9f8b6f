"""Hardware counters, if this machine has any: a program with a known number of instructions."""

import platform
import subprocess
from pathlib import Path

import pytest

from tests.perf.conftest import Make, Start, page, require_perf
from tests.support.needs import need
from tests.support.pages import Page

pytestmark = pytest.mark.system

SOURCE = Path(__file__).with_name("loop.S")
PER_LOOP, AROUND = 2, 4  # instructions
LOOPS = 5_000_000_000
MARGIN = 0.001


def require_pmu() -> None:
    """Skip if `perf stat` counts no instructions, because then no program can."""
    require_perf()
    need(gcc="cc")
    if platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip(f"loop.S has no loop for {platform.machine()}")
    command = ["perf", "stat", "-x,", "-e", "instructions", "true"]
    counted = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr
    if not any(line.split(",")[0].isdigit() for line in counted.splitlines() if ",instructions" in line):
        pytest.skip(f"no PMU here: perf stat -e instructions says {counted.strip()[:200]}")


def test_a_program_s_instructions_are_counted_within_a_thousandth(
    exporter: Start, make_cgroup: Make, tmp_path: Path
) -> None:
    """A single group is never multiplexed, so nothing is extrapolated."""
    require_pmu()
    events, built = tmp_path / "events.yml", str(tmp_path / "loop")
    events.write_text("groups:\n  cache: [instructions, cycles]\n")
    subprocess.run(["cc", "-nostdlib", "-static", f"-DLOOPS={LOOPS}", "-o", built, str(SOURCE)], check=True, timeout=60)
    cgroup = make_cgroup("loop")
    running = exporter(f"--events={events}", f"--cgroup.include={cgroup.path}")

    def instructions(page: Page) -> float:
        return page.total("perf_cgroup_events_total", cgroup=cgroup.path, event="instructions")

    before = instructions(page(running))
    subprocess.run(["sh", "-c", f'echo $$ > "{cgroup.folder}/cgroup.procs"; exec "{built}"'], check=True, timeout=60)
    now = page(running)
    if instructions(now) == 0 and now.total("perf_cgroup_group_running_seconds_total", cgroup=cgroup.path) > 0.1:
        pytest.skip("a second counter of instructions reads 0 on this machine: perf-exporter can't count cgroups here")
    assert instructions(now) - before == pytest.approx(PER_LOOP * LOOPS + AROUND, rel=MARGIN)
