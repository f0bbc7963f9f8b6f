"""One step of benchmark suites: where programs are found, what is kept of what they print, and what fails."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from rich.console import Console

from lab import LabError
from lab.measurements import Measurement
from lab.metrics import RunnerMetrics
from lab.processes import ProgramError
from lab.progress import Course
from lab.state import State
from lab.study import Outcome, Run
from lab.suites import running
from lab.suites.programs import PROGRAMS, Place, SkippedError
from lab.suites.scenario import Step, Suites, parse
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"
SCENARIO = """\
study: suites
about: Here, in a cgroup and in a guest.
environments:
  - base
  - {name: capped, cap: 0.5}
  - {name: web, ssh: root@web1, platform: xen}
cpus: 3
settle: 0s
unixbench: /opt/UnixBench
"""
WHAT = parse(SCENARIO, "mine.yml")


@dataclass
class Guest:
    """An environment in which each command prints the same."""

    prints: str
    how: str = ""  # it fails
    name: str = "web"
    virtualization: str = "xen"
    emulated: bool = True
    commands: list[list[str]] = field(default_factory=list)

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        yield

    def run(self, command: Sequence[str], timeout: float) -> str:
        assert timeout > 0
        self.commands.append(list(command))
        if self.how:
            raise ProgramError(f"{self.name}: {shlex.join(command)}", self.how, self.prints)
        return self.prints


class TestPlaces:
    """A suite is where the environment has it, or it is said what to do."""

    def test_what_a_guest_lacks_is_skipped_with_the_reason(self) -> None:
        for suite, reason in (
            ("lmbench", "install Debian's package lmbench (non-free) in the guest"),
            ("stress-ng", "install the package stress-ng in the guest"),
            ("unixbench", "there is no program Run in /opt/UnixBench"),
            ("nbench", "no distribution packages it; give the folder of a copy with `nbench: /path`"),
        ):
            assert assert_refused(SkippedError, "", PROGRAMS[suite].find, WHAT, Guest("")) == reason

    def test_stress_ng_is_skipped_where_root_cannot_run_it_as_nobody(self) -> None:
        class WithBusybox(Guest):
            """Whose setpriv knows no --reuid."""

            def run(self, command: Sequence[str], timeout: float) -> str:
                return "" if "setpriv" in command[2] else super().run(command, timeout)

        with pytest.raises(SkippedError, match="install the package util-linux in the guest: it needs its setpriv"):
            PROGRAMS["stress-ng"].find(WHAT, WithBusybox("/usr/bin/stress-ng\n"))
        assert PROGRAMS["stress-ng"].find(WHAT, Guest("/usr/bin/stress-ng\n")) == Place("/usr/bin/stress-ng")

    def test_a_guests_own_programs_need_no_libraries(self) -> None:
        found = PROGRAMS["lmbench"].find(WHAT, Guest("/usr/lib/lmbench/bin/x86_64-linux-gnu\n"))
        assert found == Place("/usr/lib/lmbench/bin/x86_64-linux-gnu", "")


@pytest.fixture
def of_run(tmp_path: Path) -> Iterator[Run]:
    metrics = RunnerMetrics()
    state = State.begin(WHAT, datetime(2026, 11, 23, tzinfo=UTC), tmp_path)
    yield Run(state, Course(10, Console(quiet=True)), metrics, 9090)
    metrics.stop()


def measure(of_run: Run, guest: Guest) -> Outcome:
    what = WHAT.model_copy(update={"environments": (guest,)})
    steps = running.Running(what, of_run, {("web", "lmbench"): Place("/programs")}, contextlib.ExitStack())
    return steps.measure(Step("web", "lmbench", 2))


def test_the_values_of_a_step_say_where_they_are_from_and_its_output_is_kept(of_run: Run) -> None:
    results = (FIXTURES / "lmbench-results.txt").read_text()
    guest = Guest(results)
    outcome = measure(of_run, guest)
    assert outcome.summary == "web-lmbench-2: 40 values"
    assert guest.commands[0][-5:] == ["/programs", "", "64", "100000", "/var/tmp/virtscope-suites"]
    assert (of_run.state.folder / "web-lmbench-2.txt").read_text() == results
    [fork] = [one for one in outcome.measurements if one.test.endswith("/fork proc")]
    test = "lmbench/processor_processes/fork proc"
    assert fork == Measurement("web", "xen", True, test, "microseconds", "lower", 2, 169.8212)


@pytest.mark.parametrize(("used", "settled"), [(0.1, True), (0.3, False)])
def test_that_the_machine_did_not_settle_is_said_and_exposed(
    of_run: Run, monkeypatch: pytest.MonkeyPatch, used: float, settled: bool
) -> None:
    monkeypatch.setattr(running.Running, "_settle", lambda *_: used)
    outcome = measure(of_run, Guest((FIXTURES / "lmbench-results.txt").read_text()))
    assert ("the machine did not settle: others used 0.30 CPUs before" in outcome.summary) == (not settled)
    exposed = generate_latest(of_run.metrics.registry).decode()
    series = f'lab_step_unsettled_cpus{{run="{of_run.state.run}",step="web-lmbench-2"}} 0.3'
    assert (series in exposed) == (not settled)


def test_a_step_without_values_fails_and_its_output_is_kept_and_named(of_run: Run) -> None:
    output = of_run.state.folder / "web-lmbench-2.txt"
    lines = "".join(f"[lat_pipe: line {number}]\n" for number in range(1, 10))
    end = "".join(f"\n  [lat_pipe: line {number}]" for number in range(5, 10))
    for prints, how, message in (
        ("Bus error\n", "", "line 1: 'Bus error': is not in lmbench's results"),
        ("[lat_pipe: status 1: no pipes]\n", "", "lmbench measured nothing in web; what it printed is in "),
        (lines, "ended with status 1", f"-2 ended with status 1, in {output} is all that it said and said:{end}"),
        (lines, "wasn't done after 9 s", "web-lmbench-2 wasn't done after 9 s, in "),
    ):
        said = assert_refused(LabError, re.escape(message), measure, of_run, Guest(prints, how))
        assert str(output) in said
        assert output.read_text() == prints


def test_a_plan_says_what_runs_where() -> None:
    what: Suites = WHAT
    scripts = "sh with lab/suites/lmbench.sh and stress_ng.sh, and copies of the others"
    assert running.plan(what)[2:] == [
        "base: lmbench, unixbench, stress-ng, on CPUs 3",
        "capped: lmbench, unixbench, stress-ng, in a cgroup with a cap of 0.5 CPUs and weight 100",
        f"web: lmbench, unixbench, stress-ng, by ssh root@web1: {scripts}",
        "nbench is skipped: no distribution packages it; give the folder of a copy with `nbench: /path`",
    ]
    assert running.planned_seconds(what, what.steps) == pytest.approx(15 * sum((192, 600, 77, 3 * 5)))
