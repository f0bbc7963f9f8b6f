"""The report of benchmark suites: each test in each environment, relative to the base and to the spread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from lab.metrics import Measurement
from lab.report.comparison import Values
from lab.report.page import STUDIES, Page, Section, Table, count, interval, load_study, page, spread, three_digits
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate, geometric_mean, ratio
from lab.report.units import MISSING, significant
from lab.suites import outputs, table
from lab.suites.rows import HIGHER, LOWER, Test
from lab.suites.table import Published

BASES = ("base", "host")  # the base environment's name, here and in the study
STUDIED = {"openvz": "OpenVZ 2012", "xen": "Xen 2012"}  # the study's environments other than its host


@dataclass(frozen=True)
class Compared:
    """A test in an environment and in the base, in the test's unit."""

    test: Test
    estimate: Estimate
    base: Estimate
    ratio: Estimate
    """Mean / base's mean: for times, above 1 is slower."""

    @property
    def better_first(self) -> tuple[Estimate, Estimate]:
        """Dividend and divisor of a ratio that is above 1 if better, for any unit, so that tests can be averaged."""
        return (self.estimate, self.base) if self.test.better == HIGHER else (self.base, self.estimate)

    @property
    def finding(self) -> str:
        """ "worse", "better", "no difference" beyond the spread of both; empty without repetitions."""
        if self.ratio.low is None:
            return ""
        if not self.ratio.differs(1):
            return "no difference"
        return "better" if (self.ratio.value > 1) == (self.test.better == HIGHER) else "worse"


class Results:
    """All tests in all environments; `base` is the one to compare with, "" if there is none.

    Tests of measurements are keys of `Test`.
    """

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.values = Values.of(list(measurements))
        names = list(self.values.tests)
        self.base = next((name for name in BASES if name in names), "")
        others = (name for name in names if name != self.base)
        self.others = sorted(others, key=lambda name: name in self.values.emulated)  # emulated ones last
        self.tests = []
        for key, one in sorted({one.test: one for one in self.values.measurements}.items()):
            suite, group, name = key.split("/", 2)
            self.tests.append(Test(suite, group, name, one.unit, HIGHER if one.better == HIGHER else LOWER))
        self.suites = list(dict.fromkeys(test.suite for test in self.tests))

    def inside(self, environment: str, suite: str, group: str | None = None) -> list[Compared]:
        """The tests of a suite, or of one of its groups, that an environment and the base have."""
        here, base = (self.values.tests.get(name, {}) for name in (environment, self.base))
        return [
            Compared(test, mean, of_base, over)
            for test in self.tests
            if test.suite == suite and group in {None, test.group}
            if (mean := estimate(here.get(test.key, ()))) and (of_base := estimate(base.get(test.key, ())))
            if (over := ratio(here[test.key], base[test.key]))
        ]


def independent(of: Sequence[Compared]) -> list[Compared]:
    """Without dependent tests: UnixBench's score, nbench's composites, and a second entry of a test in two tables."""
    once: dict[tuple[str, str, str], Compared] = {}
    for one in of:
        composite = one.test.suite == outputs.NBENCH and one.test.name in outputs.COMPOSITES
        if one.test.group != outputs.SCORE and not composite:
            once.setdefault((one.test.suite, one.test.name, one.test.unit), one)
    return list(once.values())


def mean_performance(of: Sequence[Compared]) -> Estimate | None:
    """The geometric mean of the performances of tests that the base has too; None without any."""
    return geometric_mean([one.better_first for one in of])


@cache
def fisher() -> tuple[Published, ...]:
    file = STUDIES / "fisher2012.csv"
    return table.parse(file.read_text(), file.name)


@cache
def studied() -> Results:
    return Results(
        Measurement(row.environment, "", False, row.test.key, row.test.unit, row.test.better, 1, row.mean)
        for row in fisher()
        if row.mean is not None
    )


def studied_ratio(test: Test, environment: str) -> float | None:
    """The study's mean over its host's; None if the study doesn't have the test."""
    # UnixBench has changed a test's capitalization.
    tests = studied().inside(environment, test.suite, test.group)
    return next((one.ratio.value for one in tests if one.test.key.casefold() == test.key.casefold()), None)


# --- Page -------------------------------------------------------------------------------------------------------------


def write_up(recording: Recording) -> Page:
    cautions = []
    if recording.unsettled:
        steps = f"{len(recording.unsettled)} of {count(recording.finished_steps, 'step')}"
        most = f"others used up to {max(recording.unsettled.values()):.2f} CPUs"
        cautions = [f"The machine did not settle before {steps} ({most}), so their load is in the values."]
    return of_files(recording.measurements, (), recording, cautions)


def of_files(
    found: Sequence[Measurement],
    files: Sequence[str],
    recording: Recording | None = None,
    cautions: Sequence[str] = (),
) -> Page:
    of = Results(found)
    text = (
        f"Every test as the suite prints it, relative to {of.base or 'nothing, as there is no base'}: of times, above "
        "1 is slower, of all else, above 1 is faster. The last columns are the study's means."
    )
    sections = [Section(suite, _tests(of, suite), more=text) for suite in of.suites]
    read = ", ".join(files)
    return page(
        load_study("suites"),
        recording,
        (*verdict(of), *cautions),
        sections,
        title=f"Results of {read}",
        facts=[("Read", read)],
        overview=_groups(of) if of.base and of.others else None,
        emulated=sorted(of.values.emulated),
    )


def _groups(of: Results) -> Table:
    def mean(of: Results, name: str, suite: str, group: str, missing: str) -> str:
        found = mean_performance(of.inside(name, suite, group))
        ends = found and interval(found)
        return f"{found.value:.3f}{ends and f' ({ends})'}" if found else missing

    rows = tuple(
        (
            f"{suite}, {_words('groups', group)}",
            *(mean(of, name, suite, group, MISSING) for name in of.others),
            *(mean(studied(), name, suite, group, "") for name in STUDIED),
        )
        for suite, group in dict.fromkeys((test.suite, test.group) for test in of.tests)
    )
    return Table((f"Performance, {of.base} = 1", *map(of.values.label, of.others), *STUDIED.values()), rows)


def _tests(of: Results, suite: str) -> Table:
    names = [name for name in (of.base, *of.others) if name]
    compared = {(name, one.test): one for name in names for one in of.inside(name, suite)}
    rows = []
    for test in (test for test in of.tests if test.suite == suite):
        for name in names:
            found = estimate(of.values.tests[name].get(test.key, ()))
            cells: tuple[str, ...] = ("",) * 5
            if (one := compared.get((name, test))) and name != of.base:
                theirs = (three_digits(studied_ratio(test, studied)) for studied in STUDIED)
                cells = (three_digits(one.ratio.value), interval(one.ratio), one.finding, *theirs)
            begin = (_words("groups", test.group), test.name, _words("units", test.unit), test.better)
            rows.append((*begin, of.values.label(name), *spread(found, significant), *cells))
    relative_to = (f"Relative to {of.base or 'base'}", "95 % interval of that", "Beyond spread")
    head = ("Group", "Test", "Unit", "Better", "Environment", "Mean", "Std. deviation", "95 % interval", "n")
    return Table((*head, *relative_to, *STUDIED.values()), tuple(rows))


def _words(kind: str, name: str) -> str:
    found: str = load_study("suites")[kind].get(name, name.replace("_", " "))
    return found


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Results) -> list[str]:
    if not of.tests:
        return ["No suite has measured anything, so there is nothing to compare."]
    if not of.base:
        return ["There is no environment named base or host, so nothing can be compared with it."]
    if not of.others:
        return [f"Only {of.base} was measured, so there is nothing to compare it with."]
    nothing = f"none of its tests was measured in {of.base} too."
    return [
        f"{of.values.label(name)}: {said}"
        for name in of.others
        for said in list(filter(None, (_suite(of, name, suite) for suite in of.suites))) or [nothing]
    ]


def _suite(of: Results, environment: str, suite: str) -> str:
    tests = independent(of.inside(environment, suite))
    if (mean := mean_performance(tests)) is None:
        return ""
    ends = interval(mean)
    of_base = f"of {of.base}'s performance (geometric mean{ends and f', 95 % interval {ends}'})"
    means = f"{suite}'s {count(mean.n, 'test')} reach {mean.value:.3f} {of_base}"
    if not any(one.finding for one in tests):
        return f"{means}; without repetitions, nothing says how much of that is noise."
    worse, better = ([one for one in tests if one.finding == finding] for finding in ("worse", "better"))
    beyond = f"{len(worse)} worse and {len(better)} better than {of.base} beyond their spread"
    if not worse:
        return f"{means}; {beyond}."
    most = max(worse, key=lambda one: max(one.ratio.value, 1 / one.ratio.value))
    value = f"{significant(most.estimate.value)} {_words('units', most.test.unit)}"
    return f"{means}; {beyond}, most of all {most.test.name}: {value}, {most.ratio.value:.3f} times as much."
