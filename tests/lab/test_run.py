"""Runs with the command of `make lab`: killed, resumed, interrupted."""

import os
import signal

import pytest

from lab import slow_disk
from tests.lab.conftest import require_servers
from tests.lab.runs import finished_steps, lab, left, measured, read_until, report, running_stack, start
from tests.support.needs import missing
from tests.support.waiting import wait_for
from tests.telegraf.agent import telegraf

RUN_SECONDS = 600
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # Telegraf is built first if it isn't in the cache


SCENARIO = """\
about: Two steps, as short as may be.
instances: 1
clients: [2, 3]
duration: 15s
warm_up: 1s
calibration: 0s
think_time: 0.2s
disk: 0.001s
batch: throttled
"""
FIRST, SECOND = "batch-throttled-1x2-1", "batch-throttled-1x3-1"
WORKS = "/auction-1-web"  # a cgroup that exists while it runs


def test_a_run_survives_being_killed_and_leaves_nothing_when_interrupted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require_servers()
    if reason := slow_disk.why_not_here():
        missing(reason)
    telegraf()
    with running_stack(tmp_path_factory.mktemp("s"), SCENARIO) as checkout:
        stack = set(checkout.processes())

        def remains() -> list[str]:
            return left(checkout, stack, "auction-1-*", "backup")

        # A mistake in the scenario starts nothing.
        (checkout.folder / "wrong.yml").write_text(SCENARIO.replace("about", "colour"))
        with start(checkout, "wrong.yml") as run:
            said, _ = run.communicate(timeout=60)
        assert (run.returncode, "colour: no such key; there are about, " in said) == (1, True)
        assert remains() == []

        # Killed in the middle of a step it can't clean up, but its guards do.
        with start(checkout) as run:
            said = read_until(run, f"{FIRST}: 1 instance with 2 clients each")
            wait_for(lambda: any(WORKS in thing for thing in remains()))
            run.send_signal(signal.SIGKILL)
        assert "going on" not in said
        # The next run removes the folder of its sensors.
        wait_for(lambda: [thing for thing in remains() if "/sensors/" not in thing], until=lambda found: not found)
        assert finished_steps(checkout) == [[FIRST]]

        # The same command only runs the remaining steps.
        with start(checkout) as run:
            said, _ = run.communicate(timeout=RUN_SECONDS)
        assert run.returncode == 0, said
        assert "going on after 1 of 2 steps" in said
        assert f"{FIRST}:" not in said
        wait_for(remains, until=lambda found: not found)
        assert finished_steps(checkout) == [[FIRST, SECOND]]
        [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
        assert (lab(checkout, "reports") / name / "report.html").is_file()
        assert "not complete" not in report(checkout, name)
        answers = measured(checkout, name, "client_answers", "step")
        assert answers.keys() == {FIRST, SECOND}
        assert all(rate > 0 for rate in answers.values())

        # A completed run isn't resumed: a new one starts. When interrupted, it leaves nothing behind.
        with start(checkout) as run:
            said = read_until(run, "Run ")
            wait_for(lambda: any(WORKS in thing for thing in remains()))
            os.kill(run.pid, signal.SIGINT)
            os.kill(run.pid, signal.SIGINT)  # users press Ctrl-C twice
            rest, _ = run.communicate(timeout=RUN_SECONDS)
        assert run.returncode == 130, said + rest
        assert "going on" not in said + rest
        assert "Interrupted; everything was stopped." in rest
        # A guard may be interrupted while it starts; then it does the remaining work, and ends.
        wait_for(remains, until=lambda found: not found)
