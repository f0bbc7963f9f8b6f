"""The measurements of a step in its virtual servers or its guest, and the plan of a run."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from lab.environments import Guest
from lab.factors.experiment import Cases
from lab.factors.scenario import Case, Factors, Step
from lab.metrics import Measurement
from lab.progress import Course

FIXTURES = Path(__file__).parents[2] / "fixtures/benchmarks"
WITH_GUEST = """\
study: factors
about: A guest.
workloads: [cpu, disk, network]
factors: [virtualisation]
guests: [{name: a guest, ssh: root@web1, platform: xen, emulated: true}]
"""


def test_a_guests_measurement_says_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def run(_: Guest, command: Sequence[str], timeout: float) -> str:
        assert timeout > 12
        asked.append(command)
        return (FIXTURES / "sysbench-cpu.txt").read_text()

    monkeypatch.setattr(Guest, "run", run)
    with Course(1, Console(quiet=True)) as course:
        step = Step("cpu", Case(elsewhere="guest a guest"), repetition=3)
        found = Cases(Factors.parse(WITH_GUEST, "mine.yml"), [0, 1], course).measure(step).measurements
    assert [command[:2] for command in asked] == [["sysbench", "cpu"]]  # as the guest has it
    assert found == [Measurement("guest a guest", "xen", True, "cpu", "events/s", "higher", 3, value=5126.67)]


def test_of_weights_each_virtual_server_is_recorded_beside_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cases, "_values", lambda *_: [10.0, 30.0])
    what = Factors.parse(WITH_GUEST.replace("virtualisation", "weights"), "mine.yml")
    weighted = next(step for step in what.steps if step.case.weights)
    with Course(1, Console(quiet=True)) as course:
        found = Cases(what, [0, 1], course).measure(weighted).measurements
    name = "2 servers on 1 CPU, pinned, weights 100:300"
    assert {one.environment: one.value for one in found} == {name: 20, f"{name}, server 1": 10, f"{name}, server 2": 30}
    assert {(one.virtualization, one.test) for one in found} == {("cgroup", "cpu")}
