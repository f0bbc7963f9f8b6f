"""The report of benchmark suites: the study's own arithmetic from its own rows, and runs whose truth is known."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab import LabError
from lab.measurements import METRIC, Measurement
from lab.report import command
from lab.report.page import STUDIES
from lab.report.recorded import Recording, Run
from lab.report.rendering import html, markdown
from lab.report.statistics import estimate
from lab.report.suites import (
    Results,
    fisher,
    mean_performance,
    of_files,
    studied,
    studied_ratio,
    verdict,
    write_up,
)
from lab.suites import nbench, rows, table
from lab.suites.table import Published, TableError
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"


def row(suite: str, name: str, environment: str, group: str = "") -> Published:
    [found] = [
        each
        for each in fisher()
        if (each.test.suite, each.test.name, each.environment) == (suite, name, environment)
        and group in {"", each.test.group}
    ]
    return found


class TestStudy:
    """What the study prints follows from its rows, or it is said why not."""

    def test_it_has_63_tests_in_three_environments(self) -> None:
        assert len(fisher()) == 189
        assert {each.environment for each in fisher()} == {"host", "openvz", "xen"}

    def test_printed_means_are_those_of_the_runs_but_for_known_misprints(self) -> None:
        off = set()
        for cells in csv.DictReader((STUDIES / "fisher2012.csv").read_text().splitlines()):
            found = estimate([float(cells[f"run{n}"]) for n in range(1, 6) if cells[f"run{n}"]])
            assert found is not None
            last_digit = 10.0 ** -len(cells["mean"].partition(".")[2])
            if abs(found.value - float(cells["mean"])) > 0.51 * last_digit:
                off.add((cells["test"], cells["environment"], cells["mean"], round(found.value, 3)))
        assert off == {
            ("TCP", "host", "214.0", 213.4),
            ("Bitfield", "host", "82.19", 81.924),
            ("0K File Create", "openvz", "16.60", 16.66),
            ("10K File Delete", "openvz", "31.70", 31.72),
            ("2p/0K ctxsw", "xen", "4.16", 4.166),
            ("Floating-Point Index", "xen", "22.78", 22.774),
        }

    def test_indexes_follow_from_its_tests_or_do_not(self) -> None:
        for environment, printed, of_ten in (("host", 679, 681.5), ("openvz", 555, 549.5), ("xen", 277, 302.2)):
            indexes = studied().indexes()[environment]
            computed = nbench.composites(indexes)
            assert computed == pytest.approx({name: indexes[name] for name in nbench.COMPOSITES}, rel=0.0005)
            of = [each.mean for each in fisher() if (each.test.suite, each.environment) == ("unixbench", environment)]
            found = math.exp(math.fsum(math.log(mean) for mean in of if mean) / len(of))
            assert len(of) == 10
            assert found == pytest.approx(of_ten, abs=0.05)
            assert abs(found - printed) > 2

    def test_values_relative_to_the_host(self) -> None:
        for suite, name, group, xen, openvz in (
            ("lmbench", "fork proc", "", 4.146, 1.431),
            ("lmbench", "Page Fault", "", 2.472, 1.854),
            ("lmbench", "2p/0K ctxsw", "context_switching", 3.65, None),
            ("lmbench", "Pipe", "local_communication_bandwidths", 0.590, 0.929),
            ("unixbench", "System Call Overhead", "", 0.593, 0.644),
        ):
            test = row(suite, name, "host", group).test
            assert studied_ratio(test, "xen") == pytest.approx(xen, abs=0.005)
            assert openvz is None or studied_ratio(test, "openvz") == pytest.approx(openvz, abs=0.0006)
        other = rows.Test("stress-ng", "processes", "fork", "bogo_operations_per_second", "higher")
        assert studied_ratio(other, "xen") is None

    def test_geometric_means_of_groups(self) -> None:
        for suite, group, openvz, xen in (
            ("lmbench", "processor_processes", 0.823, 0.718),
            ("lmbench", "context_switching", 0.940, 0.439),
            ("nbench", "index", 0.990, 0.998),
            ("unixbench", "filesystem_benchmarks", 0.888, 0.468),
        ):
            for environment, performance in (("openvz", openvz), ("xen", xen)):
                found = mean_performance(studied().inside(environment, suite, group))
                assert found is not None
                assert found.value == pytest.approx(performance, abs=0.0006)


HEAD = "suite,group,test,unit,better,environment,run1,run2,mean,stddev\n"
LINE = "mine,all,fork,microseconds,lower,base,100,110,,\n"


class TestTables:
    """Results that were made elsewhere, in the study's columns."""

    def test_an_empty_run_has_no_value_and_means_may_be_missing(self) -> None:
        [found] = table.parse(HEAD + LINE.replace("110", ""), "mine.csv")
        assert (found.runs, found.mean) == ((100, None), None)
        [one] = table.measurements((found,))
        assert one == Measurement("base", "", False, "mine/all/fork", "microseconds", "lower", 1, 100)

    def test_mistakes_are_named_with_their_line(self) -> None:
        for text, message in (
            ("", "0: the columns lack suite, group, test, unit, better, environment, run1"),
            (HEAD.replace("unit,", ""), "1: the columns lack unit"),
            (HEAD + LINE.replace("lower", "less"), "2: better: 'less' is neither lower nor higher"),
            (HEAD + LINE.replace("110", "-1"), "2: run2: '-1' is not a number above 0"),
            (HEAD + LINE.replace("110", "0"), "2: run2: '0' is not a number above 0"),
            (HEAD + LINE + LINE, "3: fork in base is there twice"),
            (HEAD + "a,b\n", "2: 2 cells in place of 10"),
            (HEAD + LINE.replace("fork", '"fork'), "2: is no line of comma-separated values: unexpected end of data"),
        ):
            assert_refused(TableError, f"^mine.csv:{message}$", table.parse, text, "mine.csv")


SPREAD = (-0.02, -0.01, 0.0, 0.01, 0.02)


def measured(name: str, times: float, *, emulated: bool = False, runs: Sequence[float] = SPREAD) -> list[Measurement]:
    """An environment in which fork and exec take so many times as long, bandwidth is as often less, stat as before."""
    kind = (name, "xen" if emulated else "none", emulated)
    truth = (
        ("lmbench/processor_processes/fork proc", "microseconds", "lower", 100 * times),
        ("lmbench/processor_processes/exec proc", "microseconds", "lower", 400 * times),
        ("lmbench/processor_processes/Stat", "microseconds", "lower", 1.4),
        ("lmbench/local_communication_bandwidths/Pipe", "megabytes_per_second", "higher", 1000 / times),
    )
    return [
        Measurement(*kind, test, unit, better, repetition, value * (1 + noise))
        for test, unit, better, value in truth
        for repetition, noise in enumerate(runs, 1)
    ]


def comparison(*more: Measurement) -> Results:
    return Results([*measured("base", 1), *measured("capped", 2), *more])


class TestComparison:
    """Better and worse are as the unit says, and only beyond the spread."""

    def test_ratios_are_in_the_tests_unit_and_performances_in_none(self) -> None:
        found = {one.test.name: one for one in comparison().inside("capped", "lmbench")}
        fork, pipe, stat = found["fork proc"], found["Pipe"], found["Stat"]
        assert fork.ratio is not None
        assert pipe.ratio is not None
        assert fork.ratio.value == pytest.approx(2)
        assert pipe.ratio.value == pytest.approx(0.5)
        means = [mean_performance([one]) for one in (fork, pipe)]
        assert [mean and mean.value for mean in means] == pytest.approx([0.5, 0.5])
        assert (fork.finding, pipe.finding, stat.finding) == ("worse", "worse", "no difference")
        fast = Results([*measured("base", 1), *measured("fast", 0.5)]).inside("fast", "lmbench")
        assert [one.finding for one in fast if one.test.name != "Stat"] == ["better"] * 3

    def test_the_geometric_mean_and_its_interval(self) -> None:
        tests = comparison().inside("capped", "lmbench", "processor_processes")
        found = mean_performance(tests)
        assert found is not None
        assert found.n == 3
        assert found.value == pytest.approx(0.25 ** (1 / 3))
        assert found.low is not None
        assert found.high is not None
        # Six means with a relative error of 0.0158 / sqrt(5) each, over three tests; t of 24 degrees of freedom.
        half = 2.064 * math.sqrt(6 * (math.sqrt(0.00025) ** 2 / 5)) / 3
        assert math.log(found.high / found.value) == pytest.approx(half, rel=1e-6)
        assert math.log(found.value / found.low) == pytest.approx(half, rel=1e-6)

    def test_tests_that_the_base_lacks_are_not_compared(self) -> None:
        lonely = Measurement(
            "capped", "cgroup", False, "lmbench/processor_processes/sh proc", "microseconds", "lower", 1, 2
        )
        of = comparison(lonely)
        [found] = [one for one in of.inside("capped", "lmbench") if one.test.name == "sh proc"]
        assert found.ratio is None
        mean = mean_performance(of.inside("capped", "lmbench"))
        assert mean is not None
        assert mean.n == 4


class TestVerdict:
    """The first sentence is the answer."""

    def test_what_an_environment_costs_and_where_most(self) -> None:
        [sentence] = verdict(comparison())
        assert sentence.startswith("capped: lmbench's 4 tests reach 0.595 of base's performance (geometric mean, 95 % ")
        assert "3 worse and 0 better than base beyond their spread, most of all " in sentence
        assert sentence.endswith("times as much.")

    def test_emulation_is_last_and_no_more_than_that(self) -> None:
        found = verdict(Results([*measured("guest", 40, emulated=True), *measured("base", 1), *measured("capped", 2)]))
        assert found[0].startswith("capped: ")
        assert found[1] == (
            "guest is emulated, which costs more than any platform: its values show that it works, and nothing else."
        )
        assert found[2].startswith("guest (emulated): ")

    def test_without_repetitions_nothing_is_claimed(self) -> None:
        [sentence] = verdict(Results([*measured("base", 1, runs=[0]), *measured("capped", 2, runs=[0])]))
        assert sentence.endswith("; without repetitions, nothing says how much of that is noise.")

    def test_where_there_is_nothing_to_compare(self) -> None:
        for found, sentence in (
            ([], "No suite has measured anything, so there is nothing to compare."),
            (measured("base", 1), "Only base was measured, so there is nothing to compare it with."),
            (measured("capped", 1), "There is no environment named base or host, so nothing can be compared with it."),
        ):
            assert verdict(Results(found)) == [sentence]


RUN = Run("20261123T090512-mine", "suites", "mine", "vm", 1_795_424_712.3, 1_795_432_912.6)


def recording(found: Sequence[Measurement]) -> Recording:
    info = {"cpus": "2", "lmbench": "3.0-a9", "skipped": "nbench in base: no distribution packages it"}
    asked = {"lab_run_info": "info", "lab_run_planned_steps": "planned", METRIC: "values"}
    return Recording(RUN, "http://p:9090", asked, info, 10, 10, tuple(found), RUN.end + 5)


class TestDocument:
    """The page has the study's numbers beside ours, names its queries, and says what was skipped."""

    def test_a_run(self) -> None:
        found = recording([*measured("base", 1), *measured("guest", 2, emulated=True)])
        text = markdown(write_up(found))
        assert "| lmbench, processor, processes | 0.630 (0.6" in text
        assert "| 0.823 | 0.718 |" in text
        assert "| processor, processes | fork proc | µs | lower | guest (emulated) | 200 | " in text
        assert "| worse | 1.431 | 4.146 |" in text
        assert "| Skipped | nbench in base: no distribution packages it |" in text
        assert "| Software | lmbench 3.0-a9 |" in text
        assert "```promql\nvalues\n```" in text
        assert "an eleventh, pipe-based context switching, is missing" in " ".join(text.split())
        assert "fork proc" in html(write_up(found))

    def test_a_run_that_is_not_complete_says_so(self) -> None:
        found = replace(recording(measured("base", 1)), finished_steps=3)
        assert "The run is not complete: 3 of its 10 steps are recorded." in markdown(write_up(found))

    def test_a_run_on_a_machine_that_did_not_settle_says_so(self) -> None:
        found = replace(recording(measured("base", 1)), unsettled={"base-lmbench-1": 0.25, "base-lmbench-2": 1.31})
        said = "The machine did not settle before 2 of 10 steps (others used up to 1.31 CPUs), so their load is in the"
        assert said in markdown(write_up(found))
        assert "settle before" not in markdown(write_up(replace(found, unsettled={})))

    def test_the_study_against_itself_gives_its_own_numbers(self) -> None:
        text = markdown(of_files(table.measurements(fisher()), ["fisher2012.csv"]))
        assert "| fork proc | µs | lower | xen | 421 | 6.95 | 412 to 429 | 5 | 4.146 | " in text
        # Without the three composites of nbench, and 2p/0K, which is in two of lmbench's tables, once.
        assert "nbench's 10 tests reach" in text
        assert "lmbench's 39 tests reach 0.692 of host's performance" in text


class TestCommand:
    """Files of suites' own output, and tables."""

    def test_files_of_an_environment_are_repetitions(self) -> None:
        files = [f"base={FIXTURES}/lmbench-results.txt", f"base={FIXTURES}/lmbench-summary.txt"]
        files.append(f"guest={FIXTURES}/nbench.txt")
        found = list(command.measurements(files))
        fork = [one for one in found if one.test.endswith("fork proc")]
        assert [(one.environment, one.repetition, one.value) for one in fork] == [
            ("base", 1, 169.8212),
            ("base", 2, 169),
        ]
        assert {one.test.partition("/")[0] for one in found if one.environment == "guest"} == {"nbench"}

    def test_a_file_that_is_not_understood_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("hello\n")
        with pytest.raises(LabError, match=rf"{tmp_path}/a: line 1: 'hello': begins no output"):
            list(command.measurements([f"base={tmp_path}/a"]))
