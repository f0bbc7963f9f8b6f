"""The report of benchmark suites: each test in each environment, relative to the base and to the spread."""

from collections.abc import Iterable, Sequence
from functools import cache

from lab.metrics import Measurement
from lab.report.comparison import Comparison, Pair, Values
from lab.report.page import STUDIES, Columns, Page, Section, Table, load_study, table
from lab.report.recorded import Recording, count
from lab.report.statistics import Estimate, geometric_mean, interval, three_digits
from lab.report.units import MISSING, significant
from lab.suites import outputs
from lab.suites import table as tables
from lab.suites.rows import HIGHER

BASES = ("base", "host")  # the base environment's name, here and in the study
STUDIED = {"openvz": "OpenVZ 2012", "xen": "Xen 2012"}  # the study's environments other than its host


class Results:
    """All tests in all environments; `base` is the one to compare with, "" if there is none.

    Tests of measurements are keys of `Test`: suite/group/name.
    """

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.values = Values(measurements)
        names = list(self.values.tests)
        self.base = next((name for name in BASES if name in names), "")
        others = (name for name in names if name != self.base)
        self.others = sorted(others, key=lambda name: name in self.values.emulated)  # emulated ones last
        self.groups = sorted({tuple(test.split("/", 2)[:2]) for test in self.values.units})
        self.suites = list(dict.fromkeys(suite for suite, _ in self.groups))
        found = self.values.compare(Pair(name, name, self.base) for name in self.others)
        self._compared = sorted(found, key=lambda one: one.test)

    def inside(self, environment: str, *of: str) -> list[Comparison]:
        """The tests of a suite, or of one of its groups, that an environment and the base have."""
        begin = "/".join((*of, ""))
        return [one for one in self._compared if one.pair.group == environment and one.test.startswith(begin)]


def name(of: Comparison) -> str:
    """The test's name without its suite and group."""
    return of.test.split("/", 2)[2]


def finding(of: Comparison) -> str:
    """ "worse", "better", "no difference" beyond the spread of both; empty without repetitions."""
    if of.ratio.low is None:
        return ""
    if not of.ratio.differs(1):
        return "no difference"
    return "better" if (of.ratio.value > 1) == (of.better == HIGHER) else "worse"


def independent(of: Sequence[Comparison]) -> list[Comparison]:
    """Without dependent tests: UnixBench's score, nbench's composites, and a second entry of a test in two tables."""
    once = {
        (one.test.partition("/")[0], name(one), one.unit): one
        for one in reversed(of)
        if f"/{outputs.SCORE}/" not in one.test and name(one) not in outputs.COMPOSITES
    }
    return list(once.values())


def mean_performance(of: Sequence[Comparison]) -> Estimate | None:
    """The geometric mean of the performances of tests, above 1 if better; None without any."""
    return geometric_mean([(one.mean, one.base) if one.better == HIGHER else (one.base, one.mean) for one in of])


@cache
def studied() -> Results:
    """The study's means, as printed."""
    file = STUDIES / "fisher2012.csv"
    return Results(one for one in tables.parse(file.read_text(), file.name) if one.repetition == tables.MEAN)


def studied_ratio(test: str, environment: str) -> float | None:
    """The study's mean over its host's; None if the study doesn't have the test."""
    # UnixBench has changed a test's capitalization.
    tests = studied().inside(environment)
    return next((one.ratio.value for one in tests if one.test.casefold() == test.casefold()), None)


def of_files(files: Sequence[str]) -> Recording:
    """Results in files from the command line; raises `LabError` and `OSError`."""
    read = ", ".join(files)
    return Recording(f"Results of {read}", "suites", tuple(tables.read(files)), {"Read": read})


def write_up(recording: Recording) -> Page:
    of, cautions = Results(recording.measurements), []
    if recording.unsettled:
        steps = f"{len(recording.unsettled)} of {count(recording.finished_steps, 'step')}"
        most = f"others used up to {max(recording.unsettled.values()):.2f} CPUs"
        cautions = [f"The machine did not settle before {steps} ({most}), so their load is in the values."]
    sections = [Section(suite, _tests(of, suite)) for suite in of.suites]
    overview = _groups(of) if of.base and of.others else None
    return Page(recording, [*verdict(of), *cautions], sections, overview=overview, emulated=sorted(of.values.emulated))


def _groups(of: Results) -> Table:
    def mean(of: Results, name: str, group: tuple[str, ...], missing: str) -> str:
        found = mean_performance(of.inside(name, *group))
        ends = interval(found)
        return f"{found.value:.3f}{ends and f' ({ends})'}" if found else missing

    rows = tuple(
        (
            f"{group[0]}, {_words('groups', group[1])}",
            *(mean(of, name, group, MISSING) for name in of.others),
            *(mean(studied(), name, group, "") for name in STUDIED),
        )
        for group in of.groups
    )
    return Table((f"Performance, {of.base} = 1", *map(of.values.label, of.others), *STUDIED.values()), rows)


def _tests(of: Results, suite: str) -> Table:
    columns: Columns[Comparison] = (
        ("Group", lambda one: _words("groups", one.test.split("/")[1])),
        ("Test", name),
        ("Unit", lambda one: _words("units", one.unit)),
        ("Better", lambda one: one.better),
        ("Environment", lambda one: of.values.label(one.pair.group)),
        ("Mean", lambda one: significant(one.mean.value)),
        (f"Mean of {of.base}", lambda one: significant(one.base.value)),
        (f"Relative to {of.base}", lambda one: three_digits(one.ratio.value)),
        ("95 % interval of that", lambda one: interval(one.ratio)),
        ("Beyond spread", finding),
        *((title, lambda one, env=env: three_digits(studied_ratio(one.test, env))) for env, title in STUDIED.items()),
    )
    found = [one for name in of.others for one in of.inside(name, suite)]
    return table(sorted(found, key=lambda one: one.test), columns)


def _words(kind: str, name: str) -> str:
    found: str = load_study("suites")[kind].get(name, name.replace("_", " "))
    return found


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(of: Results) -> list[str]:
    if not of.values.tests:
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
    if not any(map(finding, tests)):
        return f"{means}; without repetitions, nothing says how much of that is noise."
    worse, better = ([one for one in tests if finding(one) == found] for found in ("worse", "better"))
    beyond = f"{len(worse)} worse and {len(better)} better than {of.base} beyond their spread"
    if not worse:
        return f"{means}; {beyond}."
    most = max(worse, key=lambda one: max(one.ratio.value, 1 / one.ratio.value))
    value = f"{significant(most.mean.value)} {_words('units', most.unit)}"
    return f"{means}; {beyond}, most of all {name(most)}: {value}, {most.ratio.value:.3f} times as much."
