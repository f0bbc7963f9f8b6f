"""A short scenario on real instances: killed in the middle, resumed, interrupted; with `make lab`'s command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.lab.conftest import require_servers
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.stack.conftest import Checkout, eventually
from tests.telegraf.agent import telegraf

SCENARIO = """\
about: Two steps, as short as may be.
instances: 1
clients: [2, 3]
duration: 15s
warm_up: 1s
calibration: 0s
think_time: 0.2s
"""
RUN_SECONDS = 120
pytestmark = pytest.mark.timeout(1800)  # Telegraf is built first if it isn't in the cache


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips without the application's servers."""
    require_servers()
    telegraf()
    return SCENARIO


@pytest.mark.long
def test_a_run_survives_being_killed_and_leaves_nothing_when_interrupted(checkout: Checkout) -> None:
    stack = set(checkout.processes())

    # Killed in the middle of its second step, it can't clean up; others do.
    with start(checkout) as run:
        said = read_until(run, "1x2-1: 1 instance with 2 clients each")
        time.sleep(1.5)
        run.send_signal(signal.SIGKILL)
    assert "going on" not in said
    # The folder of its sensors is removed by the next run.
    assert eventually(lambda: all("/sensors/" in name for name in left(checkout, stack)))
    assert finished_steps(checkout) == [["1x2-1"]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert "going on after 1 of 2 steps" in said
    assert "1x2-1: 1 instance" not in said
    assert "1x3-1: 1 instance with 3 clients each" in said
    assert left(checkout, stack) == []
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    assert (lab(checkout, "reports") / name / "report.html").is_file()
    steps = checkout.query(f'count by (step) (count_over_time(lab_step_info{{run="{name}"}}[10m]))')
    assert {step["metric"]["step"] for step in steps} == {"1x2-1", "1x3-1"}

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        said = read_until(run, f"Run {time.strftime('%Y', time.gmtime())}")
        assert eventually(lambda: any("/auction-1-web" in thing for thing in left(checkout, stack)))
        time.sleep(1)
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "going on" not in said
    assert "Interrupted; everything was stopped." in said
    assert left(checkout, stack) == []
    assert finished_steps(checkout)[0] == ["1x2-1", "1x3-1"]


def test_a_scenario_with_a_mistake_starts_nothing(checkout: Checkout) -> None:
    stack = set(checkout.processes())
    (checkout.folder / "wrong.yml").write_text(SCENARIO.replace("warm_up", "warmup"))
    run = subprocess.run(
        [sys.executable, "-m", "lab", "run", "wrong.yml"],
        cwd=checkout.folder,
        env=checkout.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == "error: wrong.yml:5: warmup: no such key; did you mean warm_up?\n"
    assert left(checkout, stack) == []
