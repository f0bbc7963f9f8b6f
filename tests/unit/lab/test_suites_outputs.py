"""Outputs of benchmark suites: parsed values with unit and direction, and refusals."""

from pathlib import Path

import pytest

from lab.report.suites import studied
from lab.suites import lmbench, outputs
from lab.suites.outputs import COMPOSITES, SCORE, nbench, stress_ng, unixbench
from lab.suites.rows import TESTS, OutputError, Row
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"
RESULTS, UNIXBENCH, NBENCH, STRESS_NG = (
    (FIXTURES / name).read_text() for name in ("lmbench-results.txt", "unixbench.txt", "nbench.txt", "stress-ng.yaml")
)


def values(rows: tuple[Row, ...]) -> dict[tuple[str, str], float]:
    return {(row.test.group, row.test.name): row.value for row in rows}


def test_a_suite_is_known_by_its_output() -> None:
    of = {RESULTS: "lmbench", UNIXBENCH: "unixbench", NBENCH: "nbench", STRESS_NG: "stress-ng"}
    for text, suite in of.items():
        assert {row.test.suite for row in outputs.parse(text)} == {suite}
    assert outputs.parse(NBENCH[NBENCH.index("TEST  ") :]) == nbench(NBENCH), "without its title"
    kept = STRESS_NG[STRESS_NG.index("metrics:") :]  # its script prints nothing before this
    assert outputs.parse(kept) == stress_ng(kept)


def test_tests_groups_units_and_directions_are_those_of_the_study() -> None:
    theirs = {(test.casefold(), *kind) for test, kind in studied().values.units.items()}
    tests = {row.test for row in (*lmbench.parse(RESULTS), *nbench(NBENCH), *unixbench(UNIXBENCH))}
    ours = {(test.key.casefold(), test.unit, test.better) for test in tests}
    of_4 = {("unixbench/cpu_benchmarks/arithmetic test (type = double)", "index", "higher")}
    assert theirs - ours == of_4
    assert {test for test, *_ in ours - theirs if not test.startswith("unixbench/")} == set()


def test_what_is_no_output_is_refused() -> None:
    four = UNIXBENCH.replace("running 1 parallel copy", "running 4 parallel copies")
    for parse, text, message in (
        (outputs.parse, "\nhello\n", r"'hello' begins no results of lmbench, UnixBench, nbench"),
        (lmbench.parse, "\nPipe latency: 4.3 milliseconds\n", "4.3 milliseconds': Pipe is in microseconds"),
        (lmbench.parse, "\nPipe latency: 4.3.1 microseconds\n", "'Pipe latency: 4.3.1' does not end with a number"),
        (lmbench.parse, RESULTS + RESULTS, "null call is there twice: give one run at a time"),
        (unixbench, four, "0 runs of a single copy instead of one: use `Run -c 1`"),
        (nbench, NBENCH.replace("NUMERIC SORT ", "QUICK SORT "), "'QUICK SORT' is not a test of nbench"),
        (stress_ng, "stress-ng: info: completed\n", "stress-ng's metrics are missing: use its --yaml"),
        (stress_ng, STRESS_NG.replace("2495.108271", "nan"), "'nan' does not end with a number"),
    ):
        assert_refused(OutputError, message, parse, text)


def test_lmbenchs_values_are_those_that_its_own_summary_has() -> None:
    computed = values(lmbench.parse(RESULTS))
    expected = {
        (lmbench.PROCESSES, "null I/O"): (0.1450 + 0.1601) / 2,
        (lmbench.PROCESSES, "slct TCP"): 6.2434,
        (lmbench.FILES, "100fd selct"): 0.9623,
        (lmbench.FILES, "0K File Create"): 1e6 / 15474,
        (lmbench.FILES, "10K File Delete"): 1e6 / 79579,
        (lmbench.FILES, "Mmap Latency"): 108,  # of the largest size
        (lmbench.FILES, "Page Fault"): 0.2232,
        (lmbench.BANDWIDTHS, "TCP"): 1437.40,
        (lmbench.BANDWIDTHS, "Mem read"): 28188.07,  # not "partial read"
        (lmbench.SWITCHING, "2p/0K ctxsw"): 1.88,
        (lmbench.LATENCIES, "2p/0K ctxsw"): 1.88,  # in two tables of the summary
    }
    assert {test: computed[test] for test in expected} == pytest.approx(expected)
    # If lat_proc found nothing to execute, it has timed an exec that fails.
    lines = RESULTS.replace("Process fork+/bin/sh", "sh: 1: /var/tmp/hello: not found\nProcess fork+/bin/sh")
    left_out = computed.keys() - values(lmbench.parse(lines)).keys()
    assert left_out == {(lmbench.PROCESSES, "exec proc"), (lmbench.PROCESSES, "sh proc")}
    sizes = {(lmbench.SWITCHING, "2p/16K ctxsw"): 1.78, (lmbench.SWITCHING, "8p/16K ctxsw"): 3.80}
    for text, found in (
        ("Pipe bandwidth: 4758.02 MB/sec\n", {(lmbench.BANDWIDTHS, "Pipe"): 4758.02}),
        ('\n"size=16k ovr=0.75\n2 1.78\n8 3.80\n24 4.1\n', sizes),
        ("Simple read: -1\nSimple write: 0.2 microseconds\n", {(lmbench.PROCESSES, "null I/O"): 0.2}),  # of write
        ('Pipe latency: 0.0000 microseconds\n"File system latency\n0k\t-1\t-1\t-1\nSimple read: -1\n', {}),
        ("Bus error\nlmbench: 105: netstat: not found\nlocalhost: RPC: Remote system error - refused\n", {}),
    ):
        assert values(lmbench.parse(text)) == found


def test_unixbenchs_indexes_of_a_single_copy() -> None:
    found = values(unixbench(UNIXBENCH))
    pipe = found["inter_process_communication_benchmarks", "Pipe Throughput"]
    assert pipe == pytest.approx(1135478.8 / 12440 * 10, abs=0.05)
    assert found[SCORE, "System Benchmarks Index Score"] == 1123.2
    assert len(found) == 13
    partial = unixbench(
        "2 CPUs in system; running 1 parallel copy of tests\n\n"
        "System Benchmarks Partial Index              BASELINE       RESULT    INDEX\n"
        "Pipe Throughput                               12440.0     493023.3    396.3\n"
        "Shell Scripts (16 concurrent)                     ---         39.3      ---\n"
        "                                                                   ========\n"
        "System Benchmarks Index Score (Partial Only)                          396.3\n"
    )
    assert [row.value for row in partial] == [396.3, 396.3]


def test_a_value_after_nbenchs_warning_belongs_to_the_test_before_it() -> None:
    assert "WARNING" in NBENCH.split("ASSIGNMENT")[1].split("IDEA")[0]
    found = {row.test.name: row.value for row in nbench(NBENCH)}
    assert len(found) == len(TESTS["nbench"]["tests"]) + len(COMPOSITES)
    assert (found["Assignment"], found["Memory Index"]) == (181.22, 41.640)


def test_stress_ngs_rates_are_in_real_time() -> None:
    found = stress_ng(STRESS_NG)
    assert {row.test.name: row.value for row in found}["fork"] == 2495.108271  # not the CPU time's
    assert [(row.test.unit, row.test.better) for row in found] == [("bogo_operations_per_second", "higher")] * 7
    remark = STRESS_NG.replace("    - stressor: exec", "# [clone: status 3: not here]\n    - stressor: exec")
    assert stress_ng(remark) == found
