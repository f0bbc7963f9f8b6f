"""The report of benchmark suites: each test in each environment, relative to the base and beyond its spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from lab.measurements import Measurement
from lab.report.page import STUDIES, Builder, Page, Section, Study, Table, count, interval, label, spread
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate, geometric_mean, ratio
from lab.report.units import MISSING, significant
from lab.suites import nbench, table, unixbench
from lab.suites.rows import HIGHER, INDEX, LOWER, MEGABYTES, MICROSECONDS, Test
from lab.suites.table import Published

BASES = ("base", "host")  # what the environment is called that others are compared with: here, in the study
STUDIED = ("openvz", "xen")  # the study's environments beside its host
IN_WORDS = {
    "processor_processes": "processor, processes",
    "file_and_vm_system_latencies": "file and VM latencies",
    "index": "all indexes",
    "cpu_benchmarks": "CPU",
    "inter_process_communication_benchmarks": "inter-process communication",
    "filesystem_benchmarks": "file system",
}
_UNITS = {MICROSECONDS: "µs", MEGABYTES: "MB/s", INDEX: "index"}


@dataclass(frozen=True)
class Compared:
    """A test in an environment, in the test's unit; `base` is the base's estimate, None without one."""

    test: Test
    environment: str
    estimate: Estimate
    base: Estimate | None
    ratio: Estimate | None
    """Its mean over the base's: of times, above 1 is slower."""

    @property
    def better_first(self) -> tuple[Estimate, Estimate] | None:
        """What to divide by what, so that better is above 1 whatever the unit."""
        if self.base is None:
            return None
        return (self.estimate, self.base) if self.test.better == HIGHER else (self.base, self.estimate)

    @property
    def performance(self) -> float | None:
        """Relative to the base, so that tests can be averaged."""
        pair = self.better_first
        return pair[0].value / pair[1].value if pair else None

    @property
    def finding(self) -> str:
        """ "worse", "better", "no difference" beyond the spread of both; empty without repetitions."""
        if self.ratio is None or self.ratio.low is None:
            return ""
        if not self.ratio.differs(1):
            return "no difference"
        return "better" if (self.ratio.value > 1) == (self.test.better == HIGHER) else "worse"


@dataclass(frozen=True)
class Comparison:
    """All tests in all environments; `base` is the name of the one that the others are compared with, "" if none is."""

    environments: Mapping[str, bool]
    """By name: whether it is emulated, so that its values are no more than a proof that it works."""
    base: str
    compared: tuple[Compared, ...]

    @property
    def tests(self) -> list[Test]:
        """Without repetition, in the order in which they were measured."""
        return list(dict.fromkeys(one.test for one in self.compared))

    @property
    def suites(self) -> list[str]:
        """Of all tests."""
        return list(dict.fromkeys(test.suite for test in self.tests))

    @property
    def others(self) -> list[str]:
        """All environments but the base; emulated ones last."""
        return sorted(
            (name for name in self.environments if name != self.base), key=lambda name: self.environments[name]
        )

    def label(self, environment: str) -> str:
        """For a column's head."""
        return label(environment, emulated=self.environments[environment])

    def inside(self, environment: str, suite: str, group: str | None = None) -> list[Compared]:
        """The tests of a suite, or of one of its groups, in an environment."""
        return [
            one
            for one in self.compared
            if one.environment == environment and one.test.suite == suite and group in {None, one.test.group}
        ]


def compare(measured: Iterable[Measurement]) -> Comparison:
    """Compare measurements whose tests are keys of `Test`; in the study's order, what it doesn't have last."""
    environments: dict[str, bool] = {}
    found: dict[tuple[Test, str], list[tuple[int, float]]] = {}
    for one in measured:
        environments.setdefault(one.environment, one.emulated)
        suite, group, name = one.test.split("/", 2)
        test = Test(suite, group, name, one.unit, HIGHER if one.better == HIGHER else LOWER)
        found.setdefault((test, one.environment), []).append((one.repetition, one.value))
    groups = list(dict.fromkeys((row.test.suite, row.test.group) for row in fisher()))
    tests = list(dict.fromkeys(row.test.key.casefold() for row in fisher()))

    def place(of: tuple[Test, str]) -> tuple[str, int, str, int, str]:
        test, _ = of
        group = (test.suite, test.group)
        return test.suite, _index(groups, group), test.group, _index(tests, test.key.casefold()), test.name

    values = {key: [value for _, value in sorted(found[key])] for key in sorted(found, key=place)}
    base = next((name for name in BASES if name in environments), "")
    compared = []
    for (test, environment), of in values.items():
        mean, under = estimate(of), values.get((test, base), [])
        assert mean is not None  # there is a value, or there is no test
        compared.append(Compared(test, environment, mean, estimate(under), ratio(of, under)))
    return Comparison(environments, base, tuple(compared))


def _index(order: Sequence[object], of: object) -> int:
    return order.index(of) if of in order else len(order)


def independent(of: Sequence[Compared]) -> list[Compared]:
    """Without what follows from others: UnixBench's score, nbench's composites, and a test that is in two tables."""
    once: dict[tuple[str, str, str], Compared] = {}
    for one in of:
        composite = one.test.suite == nbench.SUITE and one.test.name in nbench.COMPOSITES
        if one.test.group != unixbench.SCORE and not composite:
            once.setdefault((one.test.suite, one.test.name, one.test.unit), one)
    return list(once.values())


def mean_performance(of: Sequence[Compared]) -> Estimate | None:
    """The geometric mean of the performances of tests that the base has too; None without one."""
    return geometric_mean([pair for one in of if (pair := one.better_first)])


# --- The study's numbers ----------------------------------------------------------------------------------------------


@cache
def fisher() -> tuple[Published, ...]:
    """The study's 189 rows."""
    file = STUDIES / "fisher2012.csv"
    return table.parse(file.read_text(), file.name)


@cache
def _means() -> Mapping[tuple[str, str], float]:
    """By a test's key in small letters, as UnixBench has changed one, and environment."""
    return {(row.test.key.casefold(), row.environment): row.mean for row in fisher() if row.mean is not None}


def studied_ratio(test: Test, environment: str) -> float | None:
    """The study's mean over its host's, None if it doesn't have the test."""
    mean, host = (_means().get((test.key.casefold(), name)) for name in (environment, "host"))
    return mean / host if mean is not None and host is not None else None


def studied_mean(suite: str, group: str, environment: str) -> float | None:
    """The geometric mean of the performances of a group's tests; None if the study doesn't have the group."""
    pairs = []
    for row in fisher():
        of = (row.test.suite, row.test.group, row.environment)
        if of == (suite, group, "host") and (found := studied_ratio(row.test, environment)):
            one, value = Estimate(1, None, None, 1), Estimate(found, None, None, 1)
            pairs.append((value, one) if row.test.better == HIGHER else (one, value))
    mean = geometric_mean(pairs)
    return mean.value if mean else None


def studied_indexes() -> dict[str, dict[str, float]]:
    """The means of nbench's indexes as the study prints them, by environment and test."""
    found: dict[str, dict[str, float]] = {}
    for row in fisher():
        if row.test.suite == nbench.SUITE and row.mean is not None:
            found.setdefault(row.environment, {})[row.test.name] = row.mean
    return found


# --- Page -------------------------------------------------------------------------------------------------------------


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    unsettled = []
    if recording.unsettled:
        steps = f"{len(recording.unsettled)} of {count(recording.finished_steps, 'step')}"
        most = f"others used up to {max(recording.unsettled.values()):.2f} CPUs"
        unsettled = [f"The machine did not settle before {steps} ({most}), so their load is in the values."]
    return _page(recording, recording.measurements, "", (), unsettled)


def of_files(found: Sequence[Measurement], files: Sequence[str]) -> Page:
    """The report of results that were made elsewhere."""
    read = ", ".join(files)
    return _page(None, found, f"Results of {read}", (("Read", read),), ())


def _page(
    recording: Recording | None,
    found: Sequence[Measurement],
    title: str,
    facts: Sequence[tuple[str, str]],
    cautions: Sequence[str],
) -> Page:
    of, build = compare(found), Builder(Study.load("suites"), recording)
    indexes = {
        of.label(name): {one.test.name: one.estimate.value for one in of.inside(name, nbench.SUITE)}
        for name in of.environments
    }
    text = (
        f"Every test as the suite prints it, relative to {of.base or 'nothing, as there is no base'}: of times, above "
        "1 is slower, of all else, above 1 is faster. The last columns are the study's means."
    )
    sections: list[Section | None] = [build.section(suite, _tests(of, suite), more=text) for suite in of.suites]
    sections.append(build.section("nbench-composites", _composites(indexes)))
    sections.append(build.section("composites", _composites(studied_indexes())))
    verdicts = (*verdict(of), *cautions)
    return build.page(verdicts, sections, _runs(of), title=title, facts=facts, overview=_groups(of))


def _groups(of: Comparison) -> Table | None:
    """Geometric means of performances relative to the base; None without a base or another environment."""
    if not of.base or not of.others:
        return None
    groups = dict.fromkeys((test.suite, test.group) for test in of.tests)
    rows = [
        (
            f"{suite}, {_words(group)}",
            *(_mean(mean_performance(of.inside(name, suite, group))) for name in of.others),
            *(_number(studied_mean(suite, group, name)) for name in STUDIED),
        )
        for suite, group in groups
    ]
    head = (f"Performance, {of.base} = 1", *map(of.label, of.others), "OpenVZ 2012", "Xen 2012")
    return Table(head, tuple(rows))


def _tests(of: Comparison, suite: str) -> Table:
    """Every test of a suite in every environment."""
    compared = {(one.test, one.environment): one for one in of.compared}
    names = [name for name in (of.base, *of.others) if name]
    rows = []
    for test in (test for test in of.tests if test.suite == suite):
        for name in names:
            one = compared.get((test, name))
            found, relative = (one.estimate, one.ratio if name != of.base else None) if one else (None, None)
            cells: tuple[str, ...] = ("",) * 5
            if one and relative:
                theirs = (_number(studied_ratio(test, studied)) for studied in STUDIED)
                cells = (_number(relative.value), interval(relative, _number), one.finding, *theirs)
            begin = (_words(test.group), test.name, _unit(test), test.better, of.label(name))
            rows.append((*begin, *spread(found, significant), *cells))
    relative_to = (f"Relative to {of.base or 'base'}", "95 % interval of that", "Beyond spread")
    head = ("Group", "Test", "Unit", "Better", "Environment", "Mean", "Std. deviation", "95 % interval", "n")
    return Table((*head, *relative_to, "OpenVZ 2012", "Xen 2012"), tuple(rows))


def _composites(indexes: Mapping[str, Mapping[str, float]]) -> Table:
    """nbench's composites as printed and as they follow from its tests; `indexes` by environment and test."""
    rows = []
    for environment, of in indexes.items():
        for name, computed in nbench.composites(of).items():
            if (printed := of.get(name)) is not None:
                apart = f"{(computed / printed - 1) * 100:+.2f} %"
                rows.append((environment, name, f"{printed:.2f}", f"{computed:.2f}", apart))
    return Table(("Environment", "Composite", "Printed", "Computed", "Difference"), tuple(rows))


def _runs(of: Comparison) -> Table:
    """How many tests and runs of each there are."""
    rows = []
    for name in of.environments:
        for suite in of.suites:
            if runs := [one.estimate.n for one in of.inside(name, suite)]:
                each = str(max(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
                rows.append((of.label(name), suite, str(len(runs)), each))
    return Table(("Environment", "Suite", "Tests", "Runs of each"), tuple(rows))


def _words(group: str) -> str:
    return IN_WORDS.get(group, group.replace("_", " "))


def _unit(of: Test) -> str:
    return _UNITS.get(of.unit, of.unit.replace("_", " "))


def _mean(found: Estimate | None) -> str:
    if found is None:
        return MISSING
    ends = interval(found, _number)
    return f"{found.value:.3f}{ends and f' ({ends})'}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Comparison) -> list[str]:
    """For readers who read no further, an environment at a time; emulated ones last, and marked as such."""
    if not of.compared:
        return ["No suite has measured anything, so there is nothing to compare."]
    if not of.base:
        return ["There is no environment named base or host, so nothing can be compared with it."]
    if not of.others:
        return [f"Only {of.base} was measured, so there is nothing to compare it with."]
    return [sentence for name in of.others for sentence in _of(of, name)]


def _of(of: Comparison, environment: str) -> list[str]:
    found = [f"{of.label(environment)}: {said}" for suite in of.suites if (said := _suite(of, environment, suite))]
    if not found:
        return [f"{environment}: none of its tests was measured in {of.base} too."]
    if of.environments[environment]:
        caution = "is emulated, which costs more than any platform: its values show that it works, and nothing else"
        found.insert(0, f"{environment} {caution}.")
    return found


def _suite(of: Comparison, environment: str, suite: str) -> str:
    tests = [one for one in independent(of.inside(environment, suite)) if one.base]
    mean = mean_performance(tests)
    if mean is None:
        return ""
    ends = interval(mean, _number)
    of_base = f"of {of.base}'s performance (geometric mean{ends and f', 95 % interval {ends}'})"
    means = f"{suite}'s {count(mean.n, 'test')} reach {mean.value:.3f} {of_base}"
    if not any(one.finding for one in tests):
        return f"{means}; without repetitions, nothing says how much of that is noise."
    worse, better = ([one for one in tests if one.finding == finding] for finding in ("worse", "better"))
    beyond = f"{len(worse)} worse and {len(better)} better than {of.base} beyond their spread"
    if not worse:
        return f"{means}; {beyond}."
    most = min(worse, key=lambda one: one.performance or 0.0)
    value = f"{significant(most.estimate.value)} {_unit(most.test)}"
    times = _number(most.ratio.value if most.ratio else None)
    return f"{means}; {beyond}, most of all {most.test.name}: {value}, {times} times as much."
