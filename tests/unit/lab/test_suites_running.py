"""One step of benchmark suites: program lookup, stored output, and failures."""

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from pydantic import ConfigDict
from rich.console import Console

from lab import LabError, environments
from lab.environments import Platform
from lab.metrics import Measurement, RunnerMetrics
from lab.processes import ProgramError
from lab.progress import Course
from lab.scrapes import Scrapes
from lab.state import State
from lab.study import Outcome, Run
from lab.suites import running
from lab.suites.running import PROGRAMS, SkippedError
from lab.suites.scenario import Step, Suites
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"
SCENARIO = """\
study: suites
about: Here and in a guest.
environments: [base, {name: web, ssh: root@web1, platform: xen}]
settle: 0s
unixbench: /opt/UnixBench
"""
WHAT = Suites.parse(SCENARIO, "mine.yml")


class Guest(environments.Guest):
    """An environment in which each command prints the same, or fails."""

    model_config = ConfigDict(str_strip_whitespace=False)
    name: str = "web"
    ssh: str = "root@web1"
    platform: Platform = "xen"
    emulated: bool = True
    prints: str
    how: str = ""

    def run(self, command: Sequence[str], timeout: float) -> str:
        assert timeout > 0
        if self.how and command != ["true"]:
            raise ProgramError(f"{self.name}: {shlex.join(command)}", self.how, self.prints)
        if "lmbench" in command:
            assert list(command)[-5:] == ["/programs", "", "64", "100000", "/var/tmp/virtscope-suites"]
        return self.prints


def test_a_suite_is_where_a_guest_has_it_or_is_skipped_with_the_reason() -> None:
    for suite, reason in (
        ("lmbench", "install Debian's package lmbench (non-free) in the guest"),
        ("stress-ng", "install the packages stress-ng and util-linux in the guest"),
        ("unixbench", "there is no program Run in /opt/UnixBench"),
        ("nbench", "no distribution packages it; give the folder of a copy with `nbench: /path`"),
    ):
        find, nothing = PROGRAMS[suite].find, Guest(prints="").run
        assert assert_refused(SkippedError, "", find, WHAT, suite, "xen", nothing) == reason
        if suite in {"lmbench", "stress-ng"}:  # they need no libraries there
            assert find(WHAT, suite, "xen", Guest(prints="/usr/bin/suite\n").run) == ("/usr/bin/suite", "")


@pytest.fixture
def of_run(tmp_path: Path) -> Iterator[Run]:
    metrics = RunnerMetrics()
    state = State.begin(WHAT, datetime(2026, 11, 23, tzinfo=UTC), tmp_path)
    yield Run(state, Course(10, Console(quiet=True)), metrics, Scrapes(9090))
    metrics.stop()


def measure(of_run: Run, guest: Guest) -> Outcome:
    what = WHAT.model_copy(update={"environments": (guest,)})
    return running.measure(Step("web", "lmbench", 2), what, of_run, {("web", "lmbench"): ("/programs", "")})


def test_a_steps_values_say_where_they_are_from_and_whether_the_machine_settled(
    of_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = (FIXTURES / "lmbench-results.txt").read_text()
    series = f'lab_step_unsettled_cpus{{run="{of_run.state.run}",step="web-lmbench-2"}} 0.3'
    for used, busy in ((0.1, ""), (0.3, "; the machine did not settle: others used 0.30 CPUs before")):
        monkeypatch.setattr(running, "_settle", lambda *_, used=used: used)
        outcome = measure(of_run, Guest(prints=results))
        assert outcome.summary == f"web-lmbench-2: 40 values{busy}"
        assert (of_run.state.folder / "web-lmbench-2.txt").read_text() == results
        [fork] = [one for one in outcome.measurements if one.test.endswith("/fork proc")]
        test = "lmbench/processor_processes/fork proc"
        assert fork == Measurement("web", "xen", True, test, "microseconds", "lower", 2, 169.8212)
        assert (series in generate_latest(of_run.metrics.registry).decode()) == bool(busy)


def test_a_step_without_values_fails_and_its_output_is_kept_and_named(of_run: Run) -> None:
    output = of_run.state.folder / "web-lmbench-2.txt"
    lines = "".join(f"[lat_pipe: line {number}]\n" for number in range(1, 10))
    end = "".join(f"\n  [lat_pipe: line {number}]" for number in range(5, 10))
    for prints, how, message in (
        ("[lat_pipe: status 1: no pipes]\n", "", "lmbench measured nothing in web; what it printed is in "),
        (lines, "ended with status 1", f"-2 ended with status 1, in {output} is all that it said and said:{end}"),
    ):
        said = assert_refused(LabError, re.escape(message), measure, of_run, Guest(prints=prints, how=how))
        assert str(output) in said
        assert output.read_text() == prints
