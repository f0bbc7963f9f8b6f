"""A short run of benchmark suites, here and in a cgroup: killed in the middle, resumed, interrupted."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lab.suites.programs import HELLO, WORK
from tests.lab.conftest import require_cgroups
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.stack.conftest import Checkout, eventually
from tools import programs

SCENARIO = """\
study: suites
about: As short as may be.
suites: [lmbench, stress-ng, nbench]
environments: [base, {name: capped, cap: 0.5}]
repetitions: 2
settle: 0s
megabytes: 4
interval: 0.001s
stress_time: 1s
"""
STEPS = [
    *("base-lmbench-1", "base-stress-ng-1", "capped-lmbench-1", "capped-stress-ng-1"),
    *("capped-lmbench-2", "capped-stress-ng-2", "base-lmbench-2", "base-stress-ng-2"),
]
RUN_SECONDS = 600
CGROUP = "environment"
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips without lmbench and stress-ng."""
    require_cgroups()
    try:
        for packages in (programs.LMBENCH, programs.STRESS_NG):
            programs.root(packages)
    except programs.ProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no lmbench and stress-ng: {error}")
    return SCENARIO


@pytest.mark.long
def test_suites_run_in_each_environment_and_nothing_is_left_however_it_ends(checkout: Checkout) -> None:
    stack, there_before = set(checkout.processes()), HELLO.exists()

    def remains() -> list[str]:
        files = [str(WORK)] if WORK.exists() else []
        return [*left(checkout, stack, CGROUP), *files, *([str(HELLO)] if HELLO.exists() != there_before else [])]

    # Killed in the midst of lmbench in the cgroup, it can't clean up; its guards do.
    with start(checkout) as run:
        said = read_until(run, "base-stress-ng-1: 7 values")
        assert said.count("nbench is skipped: no distribution packages it; give the folder of a copy") == 1
        assert eventually(WORK.exists)
        time.sleep(3)
        assert any(f"/{CGROUP}" in thing for thing in remains())
        run.send_signal(signal.SIGKILL)
    assert eventually(lambda: remains() == [])
    assert finished_steps(checkout) == [STEPS[:2]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert "base-lmbench-1" not in said
    assert "capped-lmbench-1: 40 values" in said
    assert remains() == []
    assert finished_steps(checkout) == [STEPS]

    # Prometheus has every test in both environments, twice.
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    values = f'last_over_time(lab_measurement{{run="{name}"}}[1h])'
    counted = checkout.query(f"count by (environment, repetition) ({values})")
    assert {(one["metric"]["environment"], one["metric"]["repetition"]): one["value"][1] for one in counted} == {
        (environment, repetition): "47" for environment in ("base", "capped") for repetition in ("1", "2")
    }

    report = (lab(checkout, "reports") / name / "report.md").read_text()
    assert "capped: lmbench's 39 tests reach " in report  # 2p/0K, which is in two tables, counts once
    assert "nbench in base, capped: no distribution packages it" in report
    assert "| fork proc | µs | lower | capped | " in report
    assert "not complete" not in report
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        read_until(run, "Run ")
        assert eventually(WORK.exists)
        time.sleep(1)
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "Interrupted; everything was stopped." in said
    assert remains() == []
