"""The tables: each test with its spread, relative to the base, beside the study's; groups; and composites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.report.suites.comparison import Comparison, Environment, Mean, Study, geometric_mean
from lab.report.tables import Table
from lab.report.units import MISSING, significant
from lab.suites import nbench
from lab.suites.rows import HIGHER, INDEX, LOWER, MEGABYTES, MICROSECONDS, Test

STUDIED = ("openvz", "xen")  # the study's environments beside its host
IN_WORDS = {
    "processor_processes": "processor, processes",
    "context_switching": "context switching",
    "local_communication_latencies": "local communication latencies",
    "file_and_vm_system_latencies": "file and VM latencies",
    "local_communication_bandwidths": "local communication bandwidths",
    "index": "all indexes",
    "cpu_benchmarks": "CPU",
    "inter_process_communication_benchmarks": "inter-process communication",
    "filesystem_benchmarks": "file system",
}
_UNITS = {MICROSECONDS: "µs", MEGABYTES: "MB/s", INDEX: "index"}
_BETTER = {LOWER: "lower", HIGHER: "higher"}


def name_of(suite: str, group: str) -> str:
    """A group in words."""
    return f"{suite}, {IN_WORDS.get(group, group.replace('_', ' '))}"


def unit(of: Test) -> str:
    """A test's unit, short."""
    return _UNITS.get(of.unit, of.unit.replace("_", " "))


def groups(of: Comparison, study: Study) -> Table | None:
    """Geometric means of performances relative to the base; None without a base or another environment."""
    if not of.base or not of.others:
        return None
    return Table(
        (
            f"Performance, {of.base} = 1",
            *(each.label for each in of.others),
            *(f"{name} 2012" for name in ("OpenVZ", "Xen")),
        ),
        tuple(
            (
                name_of(suite, group),
                *(_mean(geometric_mean(of.inside(each.name, suite, group))) for each in of.others),
                *(_plain(study.geometric_mean(suite, group, name)) for name in STUDIED),
            )
            for suite, group in of.groups
        ),
    )


def tests(of: Comparison, study: Study, suite: str) -> Table:
    """Every test of a suite in every environment."""
    rows = []
    for test in (test for test in of.tests if test.suite == suite):
        rows += [_test(of, study, test, each) for each in (*_bases(of), *of.others)]
    return Table(
        (
            *("Group", "Test", "Unit", "Better", "Environment", "Mean", "Std. deviation", "95 % interval", "n"),
            *(f"Relative to {of.base or 'base'}", "95 % interval of that", "Beyond spread"),
            *("OpenVZ 2012", "Xen 2012"),
        ),
        tuple(rows),
    )


def _bases(of: Comparison) -> list[Environment]:
    return [each for each in of.environments if each.name == of.base]


def _test(of: Comparison, study: Study, test: Test, environment: Environment) -> tuple[str, ...]:
    group = IN_WORDS.get(test.group, test.group.replace("_", " "))
    begin = (group, test.name, unit(test), _BETTER[test.better], environment.label)
    one = of.of(test, environment.name)
    if one is None:
        return (*begin, MISSING, *[""] * 8)
    found, ratio = one.estimate, one.ratio
    ends = "" if found.low is None or found.high is None else f"{significant(found.low)} to {significant(found.high)}"
    mean = (
        significant(found.mean),
        "" if found.deviation is None else significant(found.deviation),
        ends,
        str(found.n),
    )
    if environment.name == of.base or ratio is None:
        return (*begin, *mean, *[""] * 5)
    apart = "" if ratio.low is None or ratio.high is None else f"{ratio.low:.3f} to {ratio.high:.3f}"
    theirs = tuple(_plain(study.ratio(test, name)) for name in STUDIED)
    return (*begin, *mean, f"{ratio.value:.3f}", apart, one.finding, *theirs)


def _mean(found: Mean | None) -> str:
    if found is None:
        return MISSING
    ends = "" if found.low is None or found.high is None else f" ({found.low:.3f} to {found.high:.3f})"
    return f"{found.value:.3f}{ends}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def composites(title: str, indexes: Mapping[str, Mapping[str, float]]) -> Table | None:
    """nbench's composites as printed and as they follow from its tests; `indexes` by environment and test."""
    rows = []
    for environment, of in indexes.items():
        for name, computed in nbench.composites(of).items():
            if (printed := of.get(name)) is not None:
                apart = f"{(computed / printed - 1) * 100:+.2f} %"
                rows.append((environment, name, f"{printed:.2f}", f"{computed:.2f}", apart))
    return Table((title, "Composite", "Printed", "Computed", "Difference"), tuple(rows)) if rows else None


def indexes_of(of: Comparison) -> dict[str, dict[str, float]]:
    """The means of nbench's indexes, by environment and test."""
    return {
        each.label: {one.test.name: one.estimate.mean for one in of.inside(each.name, nbench.SUITE)}
        for each in of.environments
    }


def studied_indexes(study: Study, environments: Sequence[str] = ("host", *STUDIED)) -> dict[str, dict[str, float]]:
    """The means of nbench's indexes as the study prints them."""
    return {
        name: {
            row.test.name: row.mean
            for row in study.rows
            if (row.test.suite, row.environment) == (nbench.SUITE, name) and row.mean is not None
        }
        for name in environments
    }
