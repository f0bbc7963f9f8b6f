"""The report of benchmark suites: the study's own results from its own rows, and runs with known true values."""

import csv
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab import LabError
from lab.metrics import Measurement
from lab.report.page import STUDIES
from lab.report.statistics import estimate
from lab.report.suites import (
    STUDIED,
    Results,
    finding,
    mean_performance,
    name,
    of_files,
    studied,
    studied_ratio,
    verdict,
    write_up,
)
from lab.suites import table
from tests.report.recordings import assert_whole, recorded
from tests.support.refusals import assert_refused

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "suites"


def means(environment: str, suite: str) -> list[float]:
    """The study's means of a suite in an environment."""
    return [of[0] for test, of in studied().values.tests[environment].items() if test.startswith(f"{suite}/")]


def test_the_studys_printed_results_follow_from_its_rows_but_for_known_misprints() -> None:
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
    # UnixBench's index doesn't follow from its tests.
    for environment, printed, of_ten in (("host", 679, 681.5), ("openvz", 555, 549.5), ("xen", 277, 302.2)):
        of = means(environment, "unixbench")
        assert len(of) == 10
        assert statistics.geometric_mean(of) == pytest.approx(of_ten, abs=0.05)
        assert abs(of_ten - printed) > 2


def test_the_studys_values_relative_to_its_host_and_their_geometric_means() -> None:
    assert (sum(map(len, studied().values.tests.values())), len(studied().values.units)) == (189, 63)
    for test, xen, openvz in (
        ("lmbench/processor_processes/fork proc", 4.146, 1.431),
        ("lmbench/file_and_vm_system_latencies/Page Fault", 2.472, 1.854),
        ("lmbench/context_switching/2p/0K ctxsw", 3.654, 0.754),
        ("lmbench/local_communication_bandwidths/Pipe", 0.590, 0.929),
        ("unixbench/inter_process_communication_benchmarks/System Call Overhead", 0.593, 0.644),
    ):
        ratios = [studied_ratio(test, environment) for environment in ("xen", "openvz")]
        assert ratios == pytest.approx([xen, openvz], abs=0.0006), test
    assert studied_ratio("stress-ng/processes/fork", "xen") is None
    for suite, group, openvz, xen in (
        ("lmbench", "processor_processes", 0.823, 0.718),
        ("lmbench", "context_switching", 0.940, 0.439),
        ("nbench", "index", 0.990, 0.998),
        ("unixbench", "filesystem_benchmarks", 0.888, 0.468),
    ):
        of = [mean_performance(studied().inside(environment, suite, group)) for environment in STUDIED]
        assert [mean and mean.value for mean in of] == pytest.approx([openvz, xen], abs=0.0006), group


HEAD = "suite,group,test,unit,better,environment,run1,run2,mean,stddev\n"
LINE = "mine,all,fork,microseconds,lower,base,100,110,,\n"


def test_a_table_from_elsewhere_may_lack_runs_and_means_and_mistakes_are_named_with_their_line() -> None:
    alone = Measurement("base", "", False, "mine/all/fork", "microseconds", "lower", 1, 100)
    assert table.parse(HEAD + LINE.replace("110", ""), "mine.csv") == [alone]
    for text, message in (
        ("", "0: the columns lack suite, group, test, unit, better, environment, run1"),
        (HEAD.replace("unit,", ""), "1: the columns lack unit"),
        (HEAD + LINE.replace("lower", "less"), "2: better: 'less' is neither lower nor higher"),
        (HEAD + LINE.replace("110", "-1"), "2: run2: '-1' is not a number above 0"),
        (HEAD + LINE.replace("110", "0"), "2: run2: '0' is not a number above 0"),
        (HEAD + LINE + LINE, "3: mine/all/fork in base is there twice"),
        (HEAD + "a,b\n", "2: has more or fewer cells than the first line"),
        (HEAD + LINE.replace("fork", '"fork'), "2: unexpected end of data"),
    ):
        assert_refused(LabError, f"^mine.csv:{message}$", table.parse, text, "mine.csv")


SPREAD = (-0.02, -0.01, 0.0, 0.01, 0.02)


def measured(where: str, times: float, *, emulated: bool = False, runs: Sequence[float] = SPREAD) -> list[Measurement]:
    """An environment in which fork and exec take this many times as long, bandwidth is divided by it, stat is
    unchanged."""
    kind = (where, "xen" if emulated else "none", emulated)
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


def test_better_and_worse_are_as_the_unit_says_and_only_beyond_the_spread() -> None:
    test = "lmbench/processor_processes/sh proc"
    lonely = Measurement("capped", "cgroup", False, test, "microseconds", "lower", 1, 2)
    capped = comparison(lonely).inside("capped", "lmbench")
    ratios = {name(one): one.ratio.value for one in capped}
    assert (ratios["fork proc"], ratios["Pipe"]) == pytest.approx((2, 0.5))
    assert "sh proc" not in ratios, "the base lacks it"
    worse = dict.fromkeys(("fork proc", "exec proc", "Pipe"), "worse")
    assert {name(one): finding(one) for one in capped} == {**worse, "Stat": "no difference"}
    reached = [mean_performance([one]) for one in capped if name(one) in {"fork proc", "Pipe"}]
    assert [one and one.value for one in reached] == pytest.approx([0.5, 0.5])
    fast = Results([*measured("base", 1), *measured("fast", 0.5)]).inside("fast", "lmbench")
    assert [finding(one) for one in fast if name(one) != "Stat"] == ["better"] * 3


def test_the_geometric_mean_and_its_interval() -> None:
    found = mean_performance(comparison().inside("capped", "lmbench", "processor_processes"))
    assert found is not None
    assert found.n == 3
    assert found.value == pytest.approx(0.25 ** (1 / 3))
    # Six means with a relative error of 0.0158 / sqrt(5) each, over three tests; t with 24 degrees of freedom.
    half = 2.064 * math.sqrt(6 * (math.sqrt(0.00025) ** 2 / 5)) / 3
    assert [math.log(end / found.value) for end in found.ends] == pytest.approx([-half, half], rel=1e-6)


def test_the_verdict_has_what_an_environment_costs_and_where_most() -> None:
    [sentence] = verdict(comparison())
    assert sentence.startswith("capped: lmbench's 4 tests reach 0.595 of base's performance (geometric mean, 95 % ")
    assert "3 worse and 0 better than base beyond their spread, most of all " in sentence
    assert sentence.endswith("times as much.")
    capped, guest = verdict(comparison(*measured("guest", 40, emulated=True)))
    assert capped.startswith("capped: ")
    assert guest.startswith("guest (emulated): ")
    [once] = verdict(Results([*measured("base", 1, runs=[0]), *measured("capped", 2, runs=[0])]))
    assert once.endswith("; without repetitions, nothing says how much of that is noise.")
    for found, sentence in (
        ([], "No suite has measured anything, so there is nothing to compare."),
        (measured("base", 1), "Only base was measured, so there is nothing to compare it with."),
        (measured("capped", 1), "There is no environment named base or host, so nothing can be compared with it."),
    ):
        assert verdict(Results(found)) == [sentence]


def test_a_page_has_the_studys_results_beside_ours_and_what_was_skipped() -> None:
    skipped = "nbench in base: no distribution packages it"
    found = [*measured("base", 1), *measured("guest", 2, emulated=True)]
    of = recorded("suites", found, 10, 3, lmbench="3.0-a9", skipped=skipped)
    unsettled = {"base-lmbench-1": 0.25, "base-lmbench-2": 1.31}
    text = assert_whole(write_up(replace(of, unsettled=unsettled)), of)
    for said in (
        "| lmbench, processor, processes | 0.630 (0.6",
        "| 0.823 | 0.718 |",
        "| processor, processes | fork proc | µs | lower | guest (emulated) | 200 | 100 | ",
        "| worse | 1.431 | 4.146 |",
        "**guest:** runs on emulated hardware: its values show that it works, and no more",
        f"| Skipped | {skipped} |",
        "lmbench 3.0-a9 |",
        "Relative to the host, fork took 4.15 times as long on Xen",
        "The run is not complete: 3 of its 10 steps are recorded.",
        "The machine did not settle before 2 of 3 steps (others used up to 1.31 CPUs), so their load is in the",
    ):
        assert said in " ".join(text.split()), said
    assert "settle before" not in write_up(of).markdown()
    text = write_up(of_files([str(STUDIES / "fisher2012.csv")])).markdown()
    assert "| fork proc | µs | lower | xen | 421 | 101 | 4.146 | " in text
    # Without nbench's three composites; 2p/0K, which is in two of lmbench's tables, counts once.
    assert "nbench's 10 tests reach" in text
    assert "lmbench's 39 tests reach 0.692 of host's performance" in text


def test_files_of_an_environment_are_repetitions_and_one_that_is_not_understood_is_named(tmp_path: Path) -> None:
    files = [f"base={FIXTURES}/lmbench-results.txt"] * 2 + [f"guest={FIXTURES}/nbench.txt"]
    found = list(table.read(files))
    fork = [(one.environment, one.repetition, one.value) for one in found if one.test.endswith("fork proc")]
    assert fork == [("base", 1, 169.8212), ("base", 2, 169.8212)]
    assert {one.test.partition("/")[0] for one in found if one.environment == "guest"} == {"nbench"}
    (tmp_path / "a").write_text("hello\n")
    assert_refused(LabError, f"{tmp_path}/a: 'hello' begins no results", list, table.read([f"base={tmp_path}/a"]))
