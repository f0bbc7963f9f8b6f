"""What benchmark suites print: which values are read of it, in which unit and direction, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.report.suites import published
from lab.suites import lmbench, lmbench_summary, nbench, outputs, stress_ng, unixbench
from lab.suites.rows import OutputError, Row

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"
RESULTS, SUMMARY, UNIXBENCH, NBENCH, STRESS_NG = (
    (FIXTURES / name).read_text()
    for name in ("lmbench-results.txt", "lmbench-summary.txt", "unixbench.txt", "nbench.txt", "stress-ng.yaml")
)


def values(rows: tuple[Row, ...]) -> dict[tuple[str, str], float]:
    return {(row.test.group, row.test.name): row.value for row in rows}


class TestLmbench:
    """The rows are those of lmbench's own summary."""

    def test_the_results_file_has_the_tests_of_the_study_in_its_units_and_directions(self) -> None:
        ours = {row.test for row in lmbench.parse(RESULTS)}
        assert ours == {row.test for row in published.fisher() if row.test.suite == "lmbench"}

    def test_it_has_what_lmbenchs_summary_of_the_same_file_has(self) -> None:
        [printed] = lmbench_summary.parse(SUMMARY)
        computed = values(lmbench.parse(RESULTS))
        assert values(printed).keys() == computed.keys()
        for row in printed:  # three or four digits, cut off
            assert row.value == pytest.approx(computed[row.test.group, row.test.name], rel=0.04)

    @pytest.mark.parametrize(
        ("group", "name", "value"),
        [
            (lmbench.PROCESSES, "null I/O", (0.1450 + 0.1601) / 2),
            (lmbench.PROCESSES, "slct TCP", 6.2434),
            (lmbench.FILES, "100fd selct", 0.9623),
            (lmbench.FILES, "0K File Create", 1e6 / 15474),
            (lmbench.FILES, "10K File Delete", 1e6 / 79579),
            (lmbench.FILES, "Mmap Latency", 108),  # of the largest size
            (lmbench.FILES, "Page Fault", 0.2232),
            (lmbench.BANDWIDTHS, "TCP", 1437.40),
            (lmbench.BANDWIDTHS, "Mem read", 28188.07),  # not "partial read"
            (lmbench.SWITCHING, "2p/0K ctxsw", 1.88),
            (lmbench.LATENCIES, "2p/0K ctxsw", 1.88),  # in two tables of the summary
        ],
    )
    def test_values_are_computed_as_in_the_summary(self, group: str, name: str, value: float) -> None:
        assert values(lmbench.parse(RESULTS))[group, name] == pytest.approx(value)

    def test_single_programs(self) -> None:
        assert values(lmbench.parse("Pipe bandwidth: 4758.02 MB/sec\n")) == {(lmbench.BANDWIDTHS, "Pipe"): 4758.02}
        assert values(lmbench.parse('\n"size=16k ovr=0.75\n2 1.78\n8 3.80\n24 4.1\n')) == {
            (lmbench.SWITCHING, "2p/16K ctxsw"): 1.78,
            (lmbench.SWITCHING, "8p/16K ctxsw"): 3.80,
        }

    def test_what_could_not_be_measured_has_no_value(self) -> None:
        text = (
            'Simple read: -1\nSimple write: 0.2 microseconds\nPipe latency: 0.0000 microseconds\n"File system latency\n'
        )
        found = values(lmbench.parse(text + "0k\t-1\t-1\t-1\n"))
        assert found == {(lmbench.PROCESSES, "null I/O"): 0.2}  # without /dev/zero that of write alone

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("bw_tcp: connect refused", "is not in lmbench's results; remove it if another program printed it"),
            ("Pipe latency: 4.3 milliseconds", "Pipe is in microseconds"),
            ("Pipe latency: 4.3.1 microseconds", "4.3.1 is not a number"),
        ],
    )
    def test_what_is_not_understood_is_named(self, line: str, message: str) -> None:
        with pytest.raises(OutputError) as error:
            lmbench.parse(f"Simple syscall: 0.1 microseconds\n{line}\n")
        assert str(error.value).startswith(f"line 2: {line!r}: {message}")

    @pytest.mark.parametrize(
        "line",
        [
            "lmbench: 105: netstat: not found",
            "lmbench: line 9: ifconfig: command not found",
            "unable to register (XACT_PROG, XACT_VERS, udp).",  # these without rpcbind
            "localhost: RPC: Remote system error - Connection refused",
            "Segmentation fault (core dumped)",
        ],
    )
    def test_what_its_script_lacks_changes_nothing(self, line: str) -> None:
        assert lmbench.parse(f"{line}\n{RESULTS}") == lmbench.parse(RESULTS)

    def test_times_of_an_exec_that_failed_are_left_out(self) -> None:
        lines = RESULTS.replace(
            "Process fork+/bin/sh", "sh: 1: /var/tmp/lmbench/hello: not found\nProcess fork+/bin/sh"
        )
        left_out = values(lmbench.parse(RESULTS)).keys() - values(lmbench.parse(lines)).keys()
        assert left_out == {(lmbench.PROCESSES, "exec proc"), (lmbench.PROCESSES, "sh proc")}

    def test_two_runs_in_one_file_are_refused(self) -> None:
        with pytest.raises(OutputError, match="null call is there twice: give one run at a time"):
            lmbench.parse(RESULTS + RESULTS)

    def test_a_summary_has_a_run_for_each_line_of_its_tables(self) -> None:
        lines = [line for line in SUMMARY.splitlines() for _ in range(1 + line.startswith("host1 "))]
        first, second = lmbench_summary.parse("\n".join(lines))
        assert first == second == lmbench_summary.parse(SUMMARY)[0]

    def test_what_make_and_getsummary_say_beside_it(self) -> None:
        tables = SUMMARY[: SUMMARY.index("Memory latencies")].rstrip()  # the last one of tests of the system alone
        said = (
            "cd results && make summary percent 2>/dev/null | more\nmake[1]: Entering directory '/opt/results'\n"
            "x86_64-linux-gnu: no data for Memory load parallelism\nx86_64-linux-gnu: lat_mem_rand = 164.481\n"
            f"{tables}\nmake[1]: Leaving directory '/opt/results'\n"
        )
        argument = 'Argument "" isn\'t numeric in numeric gt (>) at ../scripts/getsummary line 944, <FD> line 1914.'
        said = said.replace("\nProcessor, Processes", f"\n{argument}\n\nProcessor, Processes")
        assert lmbench_summary.parse(said) == lmbench_summary.parse(SUMMARY)

    def test_a_summary_with_more_room_for_the_system(self) -> None:
        wider = SUMMARY.replace("--------- -------------", f"--------- {25 * '-'}")
        wider = wider.replace("host1     Linux 6.1.0-4", f"host1     {'Linux 6.1.0-40-amd64':>25}")
        assert lmbench_summary.parse(wider) == lmbench_summary.parse(SUMMARY)

    def test_two_summaries_in_one_file_are_refused(self) -> None:
        with pytest.raises(OutputError, match="is there twice: give one summary at a time"):
            lmbench_summary.parse(SUMMARY + SUMMARY)

    def test_thousands_and_empty_columns(self) -> None:
        title = "File & VM system latencies in microseconds - smaller is better"
        line = f"{'host1':9} {'Linux 6.1.0-4':13}   74.3 5.1719        9.1834   15.2K 0.464 0.19600"
        [run] = lmbench_summary.parse(f"{title}\n---\nHost\n--------- -------------\n{line}\n")
        assert values(run) == {
            (lmbench.FILES, "0K File Create"): 74.3,
            (lmbench.FILES, "0K File Delete"): 5.1719,
            (lmbench.FILES, "10K File Delete"): 9.1834,
            (lmbench.FILES, "Mmap Latency"): 15200,
            (lmbench.FILES, "Prot Fault"): 0.464,
            (lmbench.FILES, "Page Fault"): 0.196,
        }

    def test_shifted_columns_are_refused(self) -> None:
        with pytest.raises(OutputError, match="are the columns intact"):
            lmbench_summary.parse(SUMMARY.replace("host1     Linux 6.1.0-4", "host1  Linux 6.1.0-4"))


class TestUnixbench:
    """Indexes of a single copy."""

    def test_each_index_is_the_result_over_its_baseline_times_ten(self) -> None:
        found = values(unixbench.parse(UNIXBENCH))
        assert found[unixbench.COMMUNICATION, "Pipe Throughput"] == pytest.approx(1135478.8 / 12440 * 10, abs=0.05)
        assert found[unixbench.SCORE, "System Benchmarks Index Score"] == 1123.2
        assert len(found) == 13
        assert {(row.test.unit, row.test.better) for row in unixbench.parse(UNIXBENCH)} == {("index", "higher")}

    def test_the_studys_tests_are_in_the_studys_groups(self) -> None:
        ours = {row.test.key.casefold() for row in unixbench.parse(UNIXBENCH)}
        theirs = {row.test.key.casefold() for row in published.fisher() if row.test.suite == "unixbench"}
        assert theirs - ours == {"unixbench/cpu_benchmarks/arithmetic test (type = double)"}  # of version 4

    def test_without_a_single_copy_nothing_is_taken_for_one(self) -> None:
        with pytest.raises(OutputError, match="0 runs of a single copy instead of one: use `Run -c 1`"):
            unixbench.parse(UNIXBENCH.replace("running 1 parallel copy", "running 4 parallel copies"))

    def test_part_of_the_index_without_baselines(self) -> None:
        found = unixbench.parse(
            "2 CPUs in system; running 1 parallel copy of tests\n\n"
            "System Benchmarks Partial Index              BASELINE       RESULT    INDEX\n"
            "Pipe Throughput                               12440.0     493023.3    396.3\n"
            "Shell Scripts (16 concurrent)                     ---         39.3      ---\n"
            "                                                                   ========\n"
            "System Benchmarks Index Score (Partial Only)                          396.3\n"
        )
        assert [row.value for row in found] == [396.3, 396.3]
        assert found[1].test.name == "System Benchmarks Index Score (Partial Only)"


class TestNbench:
    """Tests relative to the Pentium 90, composites relative to the AMD K6/233, as in the study."""

    def test_the_studys_tests(self) -> None:
        theirs = {row.test for row in published.fisher() if row.test.suite == "nbench"}
        assert {row.test for row in nbench.parse(NBENCH)} == theirs

    def test_composites_follow_from_the_tests_and_are_those_for_linux(self) -> None:
        found = {row.test.name: row.value for row in nbench.parse(NBENCH)}
        computed = nbench.composites(found)
        assert list(computed) == ["Memory Index", "Integer Index", "Floating-Point Index"]
        for name, value in computed.items():
            assert found[name] == pytest.approx(value, rel=0.0005)
        assert nbench.composites({"String Sort": 70}) == {}

    def test_the_value_behind_a_warning_is_that_of_the_test_before_it(self) -> None:
        assert "WARNING" in NBENCH.split("ASSIGNMENT")[1].split("IDEA")[0]
        assert "Assignment" in {row.test.name for row in nbench.parse(NBENCH)}

    def test_it_is_known_without_its_title(self) -> None:
        assert outputs.parse(NBENCH[NBENCH.index("TEST  ") :]) == (nbench.parse(NBENCH),)

    def test_a_test_that_it_does_not_have_is_refused(self) -> None:
        with pytest.raises(OutputError, match="'QUICK SORT' is not a test of nbench"):
            nbench.parse(NBENCH.replace("NUMERIC SORT ", "QUICK SORT "))


class TestStressNg:
    """Rates in real time."""

    def test_rates(self) -> None:
        found = stress_ng.parse(STRESS_NG)
        assert {row.test.name: row.value for row in found}["fork"] == 2495.108271  # not that of CPU time
        assert {(row.test.unit, row.test.better) for row in found} == {("bogo_operations_per_second", "higher")}
        assert len(found) == 7

    def test_a_remark_is_passed_over(self) -> None:
        text = STRESS_NG.replace("    - stressor: exec", "# [clone: status 3: not here]\n    - stressor: exec")
        assert stress_ng.parse(text) == stress_ng.parse(STRESS_NG)

    def test_output_without_metrics_is_refused(self) -> None:
        with pytest.raises(OutputError, match="stress-ng's metrics are missing: use its --yaml"):
            stress_ng.parse("stress-ng: info: [1] successful run completed in 1.00s\n")

    def test_a_rate_that_is_none_is_refused(self) -> None:
        with pytest.raises(OutputError, match=r"nan.*is not a stressor's rate"):
            stress_ng.parse(STRESS_NG.replace("2495.108271", "nan"))


@pytest.mark.parametrize(
    ("text", "suite"),
    [
        (RESULTS, "lmbench"),
        (SUMMARY, "lmbench"),
        (UNIXBENCH, "unixbench"),
        (NBENCH, "nbench"),
        (STRESS_NG, "stress-ng"),
    ],
    ids=["results", "summary", "unixbench", "nbench", "stress-ng"],
)
def test_a_suite_is_known_by_its_output(text: str, suite: str) -> None:
    [rows] = outputs.parse(text)
    assert {row.test.suite for row in rows} == {suite}


def test_other_text_is_refused() -> None:
    with pytest.raises(OutputError, match=r"line 1: 'hello': begins no output of lmbench, UnixBench, nbench"):
        outputs.parse("\nhello\n")


def test_what_the_lab_keeps_of_stress_ng_is_read_back() -> None:
    kept = (FIXTURES / "stress-ng.yaml").read_text()
    kept = kept[kept.index("metrics:") :]  # its script prints nothing above
    assert outputs.parse(kept) == (stress_ng.parse(kept),)
