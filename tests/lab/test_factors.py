"""A short run of influence factors on real cgroups: killed in the middle, resumed, interrupted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import LabError
from lab.cgroups import Hierarchies
from lab.factors import servers
from lab.factors.cases import Case
from lab.factors.workloads import BENCHMARKS
from tests.lab.conftest import require_cgroups
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.stack.conftest import Checkout, eventually
from tools import programs

SCENARIO = """\
study: factors
about: A few cases, as short as may be.
workloads: [cpu, network]
factors: [virtualisation, overcommit, caps]
cpus: 1
servers: 1
overcommit: 2
caps: 0.2
duration: 2s
warm_up: 1s
repetitions: 2
"""
OF_CPU = ("base", "1on1-pinned", "1on1-free", "2on1-free", "1on1-pinned-cap-0.2")
STEPS = {
    f"{step}-{number}"
    for step in (*(f"cpu-{of}" for of in OF_CPU), "network-base", "network-1on1-pinned")
    for number in (1, 2)
}
RUN_SECONDS = 300
CGROUP = "factors-*"
pytestmark = pytest.mark.timeout(900)


def require_benchmarks() -> None:
    """Skip where cgroups can't be made, or the distribution has no packages."""
    require_cgroups()
    try:
        programs.root(programs.BENCHMARKS)
    except programs.ProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no sysbench, fio and iperf3: {error}")


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips without benchmarks."""
    require_benchmarks()
    return SCENARIO


@pytest.mark.long
def test_cases_are_measured_and_nothing_is_left_however_it_ends(checkout: Checkout) -> None:
    stack = set(checkout.processes())

    # Killed while virtual servers run, it can't clean up; their guard does.
    with start(checkout) as run:
        read_until(run, "cpu-base-1: ")
        assert eventually(lambda: any("/factors-1" in thing for thing in left(checkout, stack, CGROUP)))
        time.sleep(1)
        run.send_signal(signal.SIGKILL)
    assert eventually(lambda: left(checkout, stack, CGROUP) == [])
    assert finished_steps(checkout) == [["cpu-base-1"]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert f"going on after 1 of {len(STEPS)} steps" in said
    assert "cpu-base-1:" not in said
    assert left(checkout, stack, CGROUP) == []
    [finished] = finished_steps(checkout)
    assert set(finished) == STEPS

    # Prometheus has a value of each case, and they obey the law and the cap as far as a busy machine lets them.
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    query = f'avg by (environment) (last_over_time(lab_measurement{{run="{name}", test="cpu"}}[15m]))'
    value = {series["metric"]["environment"]: float(series["value"][1]) for series in checkout.query(query)}
    alone = value["1 server on 1 CPU, pinned"]
    assert 0 < value["2 servers on 1 CPU, free"] < 0.75 * alone
    assert 0 < value["1 server on 1 CPU, pinned, cap 0.2"] < 0.35 * alone
    sent = checkout.query(f'last_over_time(lab_measurement{{run="{name}", test=~"network (sent|received)"}}[15m])')
    assert len(sent) == 2 * 2 * 2
    assert all(float(series["value"][1]) > 0 for series in sent)

    report = (lab(checkout, "reports") / name / "report.md").read_text()
    assert "**With 2 busy virtual servers per CPU" in report
    assert "not complete" not in report
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        read_until(run, "cpu-base-1: ")
        assert eventually(lambda: any("/factors-1" in thing for thing in left(checkout, stack, CGROUP)))
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "Interrupted; everything was stopped." in said
    # At the moment in which its guard starts, that may be interrupted too; then the guard does the rest, and ends.
    assert eventually(lambda: left(checkout, stack, CGROUP) == [])


class TestServers:
    @staticmethod
    def pass_time(seconds: float, check: Callable[[], None]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            check()
            time.sleep(0.05)

    @staticmethod
    def gone(hierarchies: Hierarchies) -> bool:
        return not [folder for root in hierarchies.roots for folder in (root / "virtscope").glob(CGROUP)]

    def test_they_run_side_by_side_within_their_caps(self, hierarchies: Hierarchies, tmp_path: Path) -> None:
        require_benchmarks()
        cpu = [max(os.sched_getaffinity(0))]
        [benchmark] = BENCHMARKS["cpu"]
        command = benchmark.command(1, 1)
        with servers.side_by_side(Case(2, cap=0.05), cpu, tmp_path / "two") as two:
            said = two.run([command] * 2, 3, self.pass_time)
        assert all(benchmark.read(text) > 0 for text in said)
        assert not (tmp_path / "two").exists()
        assert self.gone(hierarchies)

    def test_ctrl_c_ends_those_that_run(self, hierarchies: Hierarchies, tmp_path: Path) -> None:
        require_benchmarks()
        cpu = [max(os.sched_getaffinity(0))]

        def interrupted(seconds: float, check: Callable[[], None]) -> None:
            self.pass_time(seconds, check)
            raise KeyboardInterrupt

        with (
            pytest.raises(KeyboardInterrupt),
            servers.side_by_side(Case(2, cap=0.05), cpu, tmp_path / "two") as two,
        ):
            two.run([["sysbench", "cpu", "--time=0", "--events=0", "run"]] * 2, 1, interrupted)
        assert self.gone(hierarchies)

    def test_one_that_fails_is_named_with_what_it_says(self, hierarchies: Hierarchies, tmp_path: Path) -> None:
        require_benchmarks()
        cpu = [max(os.sched_getaffinity(0))]
        with (
            pytest.raises(LabError, match=r"sysbench in virtual server 1 ended with status 1: .*Cannot find benchmark"),
            servers.side_by_side(Case(cap=0.05), cpu, tmp_path / "one") as one,
        ):
            one.run([["sysbench", "nosuch", "run"]], 30, self.pass_time)
        assert self.gone(hierarchies)

    def test_what_a_benchmark_sends_reaches_its_peer(self, hierarchies: Hierarchies, tmp_path: Path) -> None:
        require_benchmarks()
        cpu = max(os.sched_getaffinity(0))
        sent, _ = BENCHMARKS["network"]
        with (
            servers.peers(2, str(cpu), tmp_path / "peers") as ports,
            servers.side_by_side(Case(2, cap=0.05), [cpu], tmp_path / "two") as two,
        ):
            said = two.run([[*sent.command(1, 1), str(port)] for port in ports], 3, self.pass_time)
        assert all(sent.read(text) > 0 for text in said)
        assert self.gone(hierarchies)
