"""A short run of dynamic allocation on real cgroups: killed in the middle, resumed, interrupted."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lab.allocation.containers import Containers
from lab.allocation.scenario import LOADS
from lab.cgroups import Hierarchies
from tests.lab.conftest import require_cgroups
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.stack.conftest import Checkout, eventually

SCENARIO = """\
study: allocation
about: A few switches, as short as may be.
magnitudes: [[0.2, 0.8]]
intervals: 3s
duration: 9s
warm_up: 0s
repetitions: 2
load: transactional
"""
_STEPS = ("2xstatic-3s-1", "2xcontrol-3s-1", "2x0.2-0.8-3s-1", "2xcontrol-3s-2", "2x0.2-0.8-3s-2", "2xstatic-3s-2")
STEPS = [f"transactional-{step}" for step in _STEPS]
RUN_SECONDS = 240
CGROUP = "allocation-1"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips where cgroups can't be made."""
    require_cgroups()
    return SCENARIO


@pytest.mark.nightly
def test_caps_are_switched_and_nothing_is_left_however_it_ends(checkout: Checkout) -> None:
    stack = set(checkout.processes())

    # Killed in its second step, it can't clean up; its guard does.
    with start(checkout) as run:
        read_until(run, f"{STEPS[0]}: 2 containers, caps of 0.5, never written")
        assert any("/allocation-1" in thing for thing in left(checkout, stack, CGROUP))
        time.sleep(4)
        run.send_signal(signal.SIGKILL)
    assert eventually(lambda: all(name.endswith("-lab.yml") for name in left(checkout, stack, CGROUP)))
    assert finished_steps(checkout) == [STEPS[:1]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert "going on after 1 of 6 steps" in said
    assert "static-3s-1" not in said
    assert left(checkout, stack, CGROUP) == []
    assert finished_steps(checkout) == [STEPS]

    # Prometheus has every second of every step, and the containers used what their caps said.
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    of_run = f'{{run="{name}"}}[15m]'
    seconds = checkout.query(f"sum by (step, attempt) (last_over_time(lab_allocation_seconds_total{of_run}))")
    whole = [series["metric"]["step"] for series in seconds if float(series["value"][1]) >= 9]
    assert sorted(whole) == sorted(STEPS)
    used = checkout.query(f"sum by (cap) (last_over_time(lab_allocation_container_cpu_seconds_total{of_run}))")
    by_cap = {series["metric"]["cap"]: float(series["value"][1]) for series in used}
    # One of two has this cap at any time in two steps of 9 s; also where other load leaves them little.
    assert 0 < by_cap["0.2"] < 1.5 * 0.2 * 2 * 9
    assert 0 < by_cap["0.8"] < 1.5 * 0.8 * 2 * 9

    report = (lab(checkout, "reports") / name / "report.md").read_text()
    assert "2 containers, unpinned, transactional: " in report
    assert "not complete" not in report
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        read_until(run, "Run ")
        assert eventually(lambda: any("/allocation-1" in thing for thing in left(checkout, stack, CGROUP)))
        time.sleep(1)
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "Interrupted; everything was stopped." in said
    assert left(checkout, stack, CGROUP) == []


@pytest.mark.parametrize("load", LOADS)
def test_a_container_works_within_its_cap_until_it_is_removed(
    hierarchies: Hierarchies, tmp_path: Path, load: str
) -> None:
    folder = tmp_path / "containers"
    with Containers(2, None, load, folder, tmp_path / "log") as containers:
        containers.cap(0, 0.1)
        containers.cap(1, 0.9)
        before = containers.sample()
        time.sleep(2)
        now = containers.sample()
        little, much = (used - was for was, used in zip(before.container_cpu, now.container_cpu, strict=True))
        assert now.tasks > before.tasks
        assert now.machine_cpu - before.machine_cpu > 0
        assert 0 < little < 2 * 0.1 * (now.clock - before.clock)  # also where other load leaves them little
        assert much > 0
        containers.check()
    assert not folder.exists()
    assert not [path for root in hierarchies.roots for path in (root / "virtscope").glob("allocation-*")]
