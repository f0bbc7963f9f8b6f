"""What each environment does to each test: relative to the base, by group, and beyond what its spread explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.measurements import Measurement
from lab.report.statistics import Estimate, Ratio, estimate, ratio, t_quantile
from lab.report.suites import published
from lab.report.suites.published import Published
from lab.suites import nbench, unixbench
from lab.suites.rows import HIGHER, LOWER, Test

BASES = ("base", "host")  # what the environment is called that others are compared with: here, in the study


@dataclass(frozen=True)
class Compared:
    """A test in an environment, in the test's unit; `base` has the values of the base, and is empty without one."""

    test: Test
    environment: str
    values: tuple[float, ...]
    base: tuple[float, ...]

    @property
    def estimate(self) -> Estimate:
        """Over its repetitions."""
        found = estimate(self.values)
        assert found is not None  # there is a value, or there is no test
        return found

    @property
    def ratio(self) -> Ratio | None:
        """Its mean over the base's: of times, above 1 is slower."""
        return ratio(self.values, self.base)

    @property
    def performance(self) -> float | None:
        """The same with better as above 1, whatever the unit, so that tests can be averaged."""
        over, under = estimate(self.values), estimate(self.base)
        if over is None or under is None:
            return None
        return over.mean / under.mean if self.test.better == HIGHER else under.mean / over.mean

    @property
    def finding(self) -> str:
        """ "worse", "better", "no difference" beyond the spread of both; empty without repetitions."""
        found = self.ratio
        if found is None or found.low is None:
            return ""
        if not found.differs:
            return "no difference"
        return "better" if (found.value > 1) == (self.test.better == HIGHER) else "worse"


@dataclass(frozen=True)
class Mean:
    """A geometric mean of performances, with the ends of its 95 % interval if all tests have repetitions."""

    value: float
    low: float | None
    high: float | None
    tests: int


@dataclass(frozen=True)
class Environment:
    """An environment as measured; `emulated`: what is measured there is no more than a proof that it works."""

    name: str
    emulated: bool

    @property
    def label(self) -> str:
        """For a column's head."""
        return f"{self.name} (emulated)" if self.emulated else self.name


@dataclass(frozen=True)
class Comparison:
    """All tests in all environments; `base` is the name of the one that the others are compared with, "" if none is."""

    environments: tuple[Environment, ...]
    base: str
    compared: tuple[Compared, ...]

    @property
    def tests(self) -> list[Test]:
        """Without repetition, in the order in which they were measured."""
        return list(dict.fromkeys(one.test for one in self.compared))

    @property
    def groups(self) -> list[tuple[str, str]]:
        """Suite and group of all tests."""
        return list(dict.fromkeys((test.suite, test.group) for test in self.tests))

    @property
    def others(self) -> list[Environment]:
        """All but the base; emulated ones last."""
        return sorted((one for one in self.environments if one.name != self.base), key=lambda one: one.emulated)

    def of(self, test: Test, environment: str) -> Compared | None:
        """A test in an environment; None if it has no value there."""
        return next((one for one in self.compared if (one.test, one.environment) == (test, environment)), None)

    def inside(self, environment: str, suite: str, group: str | None = None) -> list[Compared]:
        """The tests of a suite, or of one of its groups, in an environment."""
        return [
            one
            for one in self.compared
            if one.environment == environment and one.test.suite == suite and group in {None, one.test.group}
        ]


def compare(measured: Iterable[Measurement]) -> Comparison:
    """The comparison of measurements whose tests are keys of `Test`."""
    environments: dict[str, Environment] = {}
    values: dict[tuple[Test, str], list[tuple[int, float]]] = {}
    for one in measured:
        environments.setdefault(one.environment, Environment(one.environment, one.emulated))
        suite, group, name = one.test.split("/", 2)
        test = Test(suite, group, name, one.unit, HIGHER if one.better == HIGHER else LOWER)
        values.setdefault((test, one.environment), []).append((one.repetition, one.value))
    base = next((name for name in BASES if name in environments), "")
    order = _Order(published.fisher())
    in_order = {
        key: tuple(value for _, value in sorted(values[key])) for key in sorted(values, key=lambda key: order(key[0]))
    }
    return Comparison(
        tuple(environments.values()),
        base,
        tuple(Compared(test, name, found, in_order.get((test, base), ())) for (test, name), found in in_order.items()),
    )


class _Order:
    """Where a test stands in a table: as in the study, what that doesn't have last."""

    def __init__(self, rows: Sequence[Published]) -> None:
        self._groups: dict[tuple[str, str], int] = {}
        self._tests: dict[str, int] = {}
        for place, row in enumerate(rows):
            self._groups.setdefault((row.test.suite, row.test.group), place)
            self._tests.setdefault(row.test.key.casefold(), place)

    def __call__(self, test: Test) -> tuple[str, int, str, int, str]:
        last = len(self._tests) * 10
        group = self._groups.get((test.suite, test.group), last)
        return test.suite, group, test.group, self._tests.get(test.key.casefold(), last), test.name


def independent(of: Sequence[Compared]) -> list[Compared]:
    """Without what follows from others: UnixBench's score, nbench's composites, and a test that is in two tables."""
    once: dict[tuple[str, str, str], Compared] = {}
    for one in of:
        composite = one.test.suite == nbench.SUITE and one.test.name in nbench.COMPOSITES
        if one.test.group != unixbench.SCORE and not composite:
            once.setdefault((one.test.suite, one.test.name, one.test.unit), one)
    return list(once.values())


def geometric_mean(of: Sequence[Compared]) -> Mean | None:
    """Of the performances of tests that the base has too; None without one.

    The logarithm of a ratio of means has the variance of the relative errors of both (delta method), and those of
    different tests are taken as independent; degrees of freedom are Welch's, rounded down.
    """
    logs: list[float] = []
    parts: list[tuple[float, int]] = []
    whole = True
    for one in of:
        performance, over, under = one.performance, one.estimate, estimate(one.base)
        if performance is None or under is None:
            continue
        logs.append(math.log(performance))
        for each in (over, under):
            if each.deviation is None:
                whole = False
            else:
                parts.append(((each.deviation / each.mean) ** 2 / each.n, each.n - 1))
    if not logs:
        return None
    value = math.exp(math.fsum(logs) / len(logs))
    variance = math.fsum(part for part, _ in parts)
    if not whole:
        return Mean(value, None, None, len(logs))
    if variance == 0:
        return Mean(value, value, value, len(logs))
    freedom = variance**2 / math.fsum(part**2 / n for part, n in parts)
    half = t_quantile(max(1, math.floor(freedom))) * math.sqrt(variance) / len(logs)
    return Mean(value, value * math.exp(-half), value * math.exp(half), len(logs))


@dataclass(frozen=True)
class Study:
    """The study's printed means, normalised to its host."""

    rows: tuple[Published, ...]

    @property
    def means(self) -> Mapping[tuple[str, str], float]:
        """By a test's key in small letters, as UnixBench has changed one, and environment."""
        return {(row.test.key.casefold(), row.environment): row.mean for row in self.rows if row.mean is not None}

    def ratio(self, test: Test, environment: str) -> float | None:
        """The mean over the host's, None if the study doesn't have the test."""
        means, key = self.means, test.key.casefold()
        mean, host = means.get((key, environment)), means.get((key, "host"))
        return mean / host if mean is not None and host is not None else None

    def geometric_mean(self, suite: str, group: str, environment: str) -> float | None:
        """Of the performances of a group's tests; None if the study doesn't have the group."""
        tests = [
            row.test for row in self.rows if (row.test.suite, row.test.group, row.environment) == (suite, group, "host")
        ]
        found = [(test, ratio) for test in tests if (ratio := self.ratio(test, environment)) is not None]
        logs = [math.log(value) * (1 if test.better == HIGHER else -1) for test, value in found]
        return math.exp(math.fsum(logs) / len(logs)) if logs else None
