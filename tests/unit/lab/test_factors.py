"""Outputs of benchmarks (sysbench 1.0.20, fio 3.33, iperf3 3.12, for a second or two), and a step's measurements."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from lab import LabError
from lab.environments import Guest
from lab.factors import experiment
from lab.factors.scenario import Case, Factors, Step
from lab.factors.workloads import fio, iperf3, sysbench_cpu, sysbench_memory
from lab.metrics import Measurement
from lab.progress import Course
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).parents[2] / "fixtures/benchmarks"
WITH_GUEST = """\
study: factors
about: A guest.
workloads: [cpu, disk, network]
factors: [virtualisation, weights]
guests: [{name: a guest, ssh: root@web1, platform: xen, emulated: true}]
"""


def printed(name: str) -> str:
    return (FIXTURES / name).read_text()


def measured(step: Step) -> Sequence[Measurement]:
    with Course(1, Console(quiet=True)) as course:
        return experiment.measure(step, Factors.parse(WITH_GUEST, "mine.yml"), [0, 1], course).measurements


def test_a_guests_measurement_says_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def run(_: Guest, command: Sequence[str], timeout: float) -> str:
        assert timeout > 12
        asked.append(command)
        return printed("sysbench-cpu.txt")

    monkeypatch.setattr(Guest, "run", run)
    found = measured(Step("cpu", Case(elsewhere="guest a guest"), repetition=3))
    assert [command[:2] for command in asked] == [["true"], ["sysbench", "cpu"]]  # as the guest has it
    assert found == [Measurement("guest a guest", "xen", True, "cpu", "events/s", "higher", 3, value=5126.67)]


def test_of_weights_each_virtual_server_is_recorded_beside_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [printed("sysbench-cpu.txt").replace("5126.67", value) for value in ("10.00", "30.00")]
    monkeypatch.setattr(experiment, "_said", lambda *_: outputs)
    found = measured(Step("cpu", Case(2, weights=(100, 300)), repetition=1))
    name = "2 servers on 1 CPU, pinned, weights 100:300"
    assert {one.environment: one.value for one in found} == {name: 20, f"{name}, server 1": 10, f"{name}, server 2": 30}
    assert {(one.virtualization, one.test) for one in found} == {("cgroup", "cpu")}


def test_results_are_those_after_the_warm_up() -> None:
    assert sysbench_cpu(printed("sysbench-cpu.txt")) == 5126.67  # the second report, between the checkpoints
    assert sysbench_memory(printed("sysbench-memory.txt")) == 14993.17 * 2**20
    for note in ("", "note: both iodepth >= 1 and synchronous I/O engine are selected\n"):
        assert fio(note + printed("fio.json")) == 23502.497502
    assert iperf3(printed("iperf3.json")) == 15112939452.597685 / 8


WHOLE = printed("sysbench-cpu.txt")
REFUSED: list[tuple[Callable[[str], float], str, str]] = [
    (
        sysbench_cpu,
        "\nFATAL: No such test\n",
        "sysbench gives events per second 0 times, not 3: it ends with 'FATAL: N",
    ),
    (sysbench_cpu, WHOLE[: WHOLE.rindex("CPU speed:")], "events per second 2 times, not 3"),
    (sysbench_memory, "", "sysbench gives MiB/sec 0 times, not 3: it has said nothing"),
    (iperf3, printed("iperf3-refused.json"), "unable to connect to server: Connection refused"),
    (iperf3, "iperf3: not found", "iperf3 gives no result: it ends with 'iperf3: not found'"),
    (iperf3, '{"end": {"sum_received": {}}}', "iperf3 gives no result"),
    (iperf3, '{"end": {"sum_received": {"bits_per_second": 1' + "0" * 400 + "}}}", "iperf3 gives no result"),
    (fio, '{"jobs": [{"error": 28, "read": {"iops": 0}}]}', "fio gives no result"),
    (fio, '{"jobs": []}', "fio gives no result"),
    (fio, '{"jobs": [{"error": 0, "read": {"iops": NaN}}]}', "fio gives no result"),
    (fio, '{"jobs": [{"error": 0, "read": {"iops": true}}]}', "fio gives no result"),
    (fio, "[" * 100_000, "fio gives no result"),
]


def test_what_is_no_result_is_refused_with_what_was_said() -> None:
    for parse, text, message in REFUSED:
        assert_refused(LabError, re.escape(message), parse, text)
