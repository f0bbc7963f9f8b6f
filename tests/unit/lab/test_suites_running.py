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
from lab.environments import ProgramError
from lab.measurements import Measurements
from lab.progress import Course
from lab.state import State
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
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[running._Running]:
    """A run's steps; Prometheus has what is exposed at once."""
    monkeypatch.setattr(running, "await_scraped", lambda *_: None)
    metrics = Measurements()
    state = State.begin(WHAT, datetime(2026, 11, 23, tzinfo=UTC), tmp_path)
    yield running._Running(WHAT, state, metrics, 9090, {("web", "lmbench"): Place("/programs")})
    metrics.stop()


def measure(steps: running._Running, guest: Guest) -> str:
    return steps.measure(Step("web", "lmbench", 2), guest, Course(10, Console(quiet=True)))


class TestStep:
    """What a suite prints is kept, and its values are exposed before the step counts as finished."""

    def test_values_are_exposed_with_their_environment(self, steps: running._Running) -> None:
        results = (FIXTURES / "lmbench-results.txt").read_text()
        guest = Guest(results)
        assert measure(steps, guest) == "web-lmbench-2: 40 values"
        assert guest.commands[0][-5:] == ["/programs", "", "64", "100000", "/var/tmp/virtscope-suites"]
        assert (steps.state.folder / "web-lmbench-2.txt").read_text() == results
        assert steps.state.finished == ["web-lmbench-2"]
        exposed = generate_latest(steps.metrics.registry).decode()
        [fork] = [line for line in exposed.splitlines() if "/fork proc" in line]
        for label in ("environment=web", "virtualization=xen", "emulated=yes", "repetition=2", "better=lower"):
            assert label.replace("=", '="') + '"' in fork
        assert 'test="lmbench/processor_processes/fork proc",unit="microseconds"' in fork

    @pytest.mark.parametrize(("used", "settled"), [(0.1, True), (0.3, False)])
    def test_that_the_machine_did_not_settle_is_said_and_exposed(
        self, steps: running._Running, monkeypatch: pytest.MonkeyPatch, used: float, settled: bool
    ) -> None:
        monkeypatch.setattr(running._Running, "_settle", lambda *_: used)
        said = measure(steps, Guest((FIXTURES / "lmbench-results.txt").read_text()))
        assert ("the machine did not settle: others used 0.30 CPUs before" in said) == (not settled)
        exposed = generate_latest(steps.metrics.registry).decode()
        series = f'lab_step_unsettled_cpus{{run="{steps.state.run}",step="web-lmbench-2"}} 0.3'
        assert (series in exposed) == (not settled)

    def test_a_step_without_values_is_not_finished_and_its_output_is_kept_and_named(
        self, steps: running._Running
    ) -> None:
        output = steps.state.folder / "web-lmbench-2.txt"
        lines = "".join(f"[lat_pipe: line {number}]\n" for number in range(1, 10))
        end = "".join(f"\n  [lat_pipe: line {number}]" for number in range(5, 10))
        for prints, how, message in (
            ("Bus error\n", "", "line 1: 'Bus error': is not in lmbench's results"),
            ("[lat_pipe: status 1: no pipes]\n", "", "lmbench measured nothing in web; what it printed is in "),
            (
                lines,
                "ended with status 1",
                f"-2 ended with status 1; all that it printed is in {output}{end}",
            ),
            (lines, "wasn't done after 9 s", "web-lmbench-2 wasn't done after 9 s; all that it printed is in "),
        ):
            said = assert_refused(LabError, re.escape(message), measure, steps, Guest(prints, how))
            assert str(output) in said
            assert output.read_text() == prints
            assert steps.state.finished == []


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
