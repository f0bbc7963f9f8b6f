"""Runs with the command of `make lab`: killed, resumed, interrupted."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

import pytest

from deploy import programs
from lab.suites.programs import HELLO, WORK
from tests.lab.conftest import require_cgroups, require_packages, require_servers
from tests.lab.runs import finished_steps, lab, left, read_until, report, running_stack, start
from tests.support.waiting import wait_for
from tests.telegraf.agent import telegraf

RUN_SECONDS = 600
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # Telegraf is built first if it isn't in the cache


class Kind(NamedTuple):
    """A minimal scenario, its steps, and the beginning of its output once the first steps are finished.

    works: files that exist while it runs. cgroups: name pattern of the cgroups that it creates.
    """

    scenario: str
    steps: list[str]
    first: int
    shown: str
    works: str
    cgroups: str


SITE = Kind(
    """\
about: Two steps, as short as may be.
instances: 1
clients: [2, 3]
duration: 15s
warm_up: 1s
calibration: 0s
think_time: 0.2s
""",
    ["1x2-1", "1x3-1"],
    1,
    "1x2-1: 1 instance with 2 clients each",
    "/auction-1-web",
    "auction-1-*",
)
SUITES = Kind(
    """\
study: suites
about: As short as may be.
suites: [lmbench, stress-ng, nbench]
environments: [base, {name: capped, cap: 0.5}]
repetitions: 2
settle: 0s
megabytes: 4
interval: 0.001s
stress_time: 1s
""",
    [
        *("base-lmbench-1", "base-stress-ng-1", "capped-lmbench-1", "capped-stress-ng-1"),
        *("capped-lmbench-2", "capped-stress-ng-2", "base-lmbench-2", "base-stress-ng-2"),
    ],
    2,
    "base-stress-ng-1: ",
    str(WORK),
    "environment",
)


@pytest.mark.parametrize("kind", [SITE, pytest.param(SUITES, marks=pytest.mark.long)], ids=["site", "suites"])
def test_a_run_survives_being_killed_and_leaves_nothing_when_interrupted(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if kind is SITE:
        require_servers()
        telegraf()
    else:
        require_cgroups()
        require_packages(programs.LMBENCH, programs.STRESS_NG)
    hello = HELLO.exists()
    with running_stack(tmp_path_factory.mktemp("s"), kind.scenario) as checkout:
        stack = set(checkout.processes())

        def remains() -> list[str]:
            files = [str(file) for file in (WORK, *(() if hello else (HELLO,))) if file.exists()]
            return [*left(checkout, stack, kind.cgroups), *files]

        # A mistake in the scenario starts nothing.
        (checkout.folder / "wrong.yml").write_text(kind.scenario.replace("about", "colour"))
        with start(checkout, "wrong.yml") as run:
            said, _ = run.communicate(timeout=60)
        assert (run.returncode, "colour: no such key; there are about, " in said) == (1, True)
        assert remains() == []

        # Killed in the middle of a step it can't clean up, but its guards do.
        with start(checkout) as run:
            said = read_until(run, kind.shown)
            wait_for(lambda: any(kind.works in thing for thing in remains()))
            run.send_signal(signal.SIGKILL)
        assert "going on" not in said
        # The next run removes the folder of its sensors.
        wait_for(lambda: [thing for thing in remains() if "/sensors/" not in thing], until=lambda found: not found)
        assert finished_steps(checkout) == [kind.steps[: kind.first]]

        # The same command only runs the remaining steps.
        with start(checkout) as run:
            said, _ = run.communicate(timeout=RUN_SECONDS)
        assert run.returncode == 0, said
        assert f"going on after {kind.first} of {len(kind.steps)} steps" in said
        assert f"{kind.steps[0]}:" not in said
        wait_for(remains, until=lambda found: not found)
        assert finished_steps(checkout) == [kind.steps]
        [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
        assert (lab(checkout, "reports") / name / "report.html").is_file()
        assert "not complete" not in report(checkout, name)
        metric = "lab_measurement" if kind is SUITES else "lab_step_info"
        seen = checkout.query(f'count by (step) (count_over_time({metric}{{run="{name}"}}[1h]))')
        assert {series["metric"]["step"] for series in seen} == set(kind.steps)
        if kind is SUITES:
            counted = f'count by (environment, repetition) (last_over_time(lab_measurement{{run="{name}"}}[1h]))'
            assert {series["value"][1] for series in checkout.query(counted)} == {"47"}
            text = report(checkout, name)
            assert "capped: lmbench's 39 tests reach " in text  # 2p/0K is in two tables and counts once
            assert "nbench in base, capped: no distribution packages it" in text
            assert "| fork proc | µs | lower | capped | " in text

        # A completed run isn't resumed: a new one starts. When interrupted, it leaves nothing behind.
        with start(checkout) as run:
            said = read_until(run, "Run ")
            wait_for(lambda: any(kind.works in thing for thing in remains()))
            os.kill(run.pid, signal.SIGINT)
            os.kill(run.pid, signal.SIGINT)  # users press Ctrl-C twice
            rest, _ = run.communicate(timeout=RUN_SECONDS)
        assert run.returncode == 130, said + rest
        assert "going on" not in said + rest
        assert "Interrupted; everything was stopped." in rest
        # A guard may be interrupted while it starts; then it does the remaining work, and ends.
        wait_for(remains, until=lambda found: not found)
