"""Benchmark outputs: runs of a second or two each, of sysbench 1.0.20, fio 3.33 and iperf3 3.12."""

import re
from collections.abc import Callable
from pathlib import Path

from lab import LabError
from lab.factors.workloads import fio, iperf3, sysbench_cpu, sysbench_memory
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).parents[2] / "fixtures/benchmarks"


def printed(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_sysbench_gives_the_second_report_which_is_between_the_checkpoints() -> None:
    assert sysbench_cpu(printed("sysbench-cpu.txt")) == 5126.67
    assert sysbench_memory(printed("sysbench-memory.txt")) == 14993.17 * 2**20


def test_fio_gives_reads_per_second() -> None:
    assert fio(printed("fio.json")) == 23502.497502
    assert (
        fio("note: both iodepth >= 1 and synchronous I/O engine are selected\n" + printed("fio.json")) == 23502.497502
    )


def test_iperf3_gives_the_bytes_received_without_those_of_the_warm_up() -> None:
    assert iperf3(printed("iperf3.json")) == 15112939452.597685 / 8


REFUSED: list[tuple[Callable[[str], float], str, str]] = [
    (
        sysbench_cpu,
        "\nFATAL: Cannot find benchmark 'nosuch': no such built-in test, file or module\n",
        (
            "sysbench gives events per second 0 times, not 3: it ends with "
            "\"FATAL: Cannot find benchmark 'nosuch': no such built-in test, file or module\""
        ),
    ),
    (sysbench_memory, "", "sysbench gives MiB/sec 0 times, not 3: it has said nothing"),
    (iperf3, printed("iperf3-refused.json"), "unable to connect to server: Connection refused"),
    (iperf3, "iperf3: not found", "iperf3 gives no result: it ends with 'iperf3: not found'"),
    (iperf3, '{"end": {"sum_received": {}}}', "iperf3 gives no result"),
    (fio, '{"jobs": [{"error": 28, "read": {"iops": 0}}]}', "fio gives no result"),
    (fio, '{"jobs": []}', "fio gives no result"),
    (fio, '{"jobs": [{"error": 0, "read": {"iops": NaN}}]}', "fio gives no result"),
    (fio, '{"jobs": [{"error": 0, "read": {"iops": true}}]}', "fio gives no result"),
    (iperf3, '{"end": {"sum_received": {"bits_per_second": 1' + "0" * 400 + "}}}", "iperf3 gives no result"),
    (fio, "[" * 100_000, "fio gives no result"),
]


def test_what_is_no_result_is_refused_with_what_was_said() -> None:
    whole = printed("sysbench-cpu.txt")
    early = (sysbench_cpu, whole[: whole.rindex("CPU speed:")], "events per second 2 times, not 3")
    for parse, text, message in (*REFUSED, early):
        assert_refused(LabError, re.escape(message), parse, text)
