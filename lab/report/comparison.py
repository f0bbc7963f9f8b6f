"""Tests in an environment compared with a base: common to all studies."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lab.metrics import Measurement
from lab.report.statistics import Estimate, estimate, interval, ratio
from lab.report.units import SHARE

S = TypeVar("S")


def by_step(measurements: Iterable[Measurement], parse: Callable[[str, int], S | None]) -> dict[S, dict[str, float]]:
    """The values of each step by test; `parse` finds the step of an environment and a repetition, if it is one."""
    found: dict[S, dict[str, float]] = {}
    for one in measurements:
        if step := parse(one.environment, one.repetition):
            found.setdefault(step, {})[one.test] = one.value
    return found


@dataclass(frozen=True)
class Pair:
    """Two environments to compare, described by `what`; only `tests`, or all if None."""

    group: str
    """A key for a section of the report or a factor."""
    environment: str
    base: str
    what: str = ""
    should: float = 1.0
    """The expected ratio."""
    x: float = 0.0
    """Its position on an axis."""
    tests: Collection[str] | None = None


@dataclass(frozen=True)
class Comparison:
    """A test in both environments of a pair; `unit` and `better` are the test's."""

    pair: Pair
    test: str
    unit: str
    better: str
    mean: Estimate
    base: Estimate
    ratio: Estimate
    emulated: bool

    @property
    def lost(self) -> Estimate:
        """The relative overhead: the missing share of the expected performance."""
        return self.ratio.mapped(-1 / self.pair.should, 1)


class Values:
    """`tests` has values by environment and test, in the order of repetitions; `emulated` names environments."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.tests: dict[str, dict[str, list[float]]] = {}
        self.units: dict[str, tuple[str, str]] = {}
        self.emulated: set[str] = set()
        for one in sorted(measurements, key=lambda one: one.repetition):
            self.tests.setdefault(one.environment, {}).setdefault(one.test, []).append(one.value)
            self.units[one.test] = one.unit, one.better
            self.emulated |= {one.environment} if one.emulated else set()

    def mean(self, environment: str, test: str) -> Estimate | None:
        return estimate(self.tests.get(environment, {}).get(test, ()))

    def label(self, environment: str) -> str:
        return f"{environment} (emulated)" if environment in self.emulated else environment

    def compare(self, pairs: Iterable[Pair]) -> list[Comparison]:
        """Every test that both environments of a pair have."""
        return [
            Comparison(
                pair, test, *self.units[test], mean, base, over, bool({pair.environment, pair.base} & self.emulated)
            )
            for pair in pairs
            for test, values in self.tests.get(pair.environment, {}).items()
            if pair.tests is None or test in pair.tests
            if (mean := estimate(values)) and (base := self.mean(pair.base, test))
            if (over := ratio(mean, base))
        ]


def furthest(of: Iterable[tuple[Estimate, S]], unchanged: float) -> tuple[Estimate, S]:
    """The largest estimate above `unchanged` beyond its interval, if any: with few repetitions noise may be larger."""
    known = list(of)
    beyond = [one for one in known if one[0].differs(unchanged) and one[0].value > unchanged]
    return max(beyond or known, key=lambda one: one[0].value)


def beyond_noise(effect: Estimate) -> str:
    """A share with its interval; if none was found, its upper bound."""
    if effect.high is not None and not effect.differs():
        return f"nothing beyond noise (at most {SHARE.write(max(0.0, effect.high))})"
    ends = interval(effect, SHARE.write)
    return f"{SHARE.write(effect.value)}{ends and f' ({ends})'}"
