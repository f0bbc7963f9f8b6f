"""Tests in an environment compared with a base: common to several studies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lab.metrics import Measurement
from lab.report.page import label
from lab.report.statistics import Estimate, ratio
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
    """A test in both environments of a pair; values are by repetition."""

    pair: Pair
    test: str
    values: Sequence[float]
    base: Sequence[float]
    ratio: Estimate
    emulated: bool

    @property
    def lost(self) -> Estimate:
        """The relative overhead: the missing share of the expected performance."""
        return self.ratio.mapped(-1 / self.pair.should, 1)


@dataclass(frozen=True)
class Values:
    measurements: Sequence[Measurement]
    tests: Mapping[str, Mapping[str, Sequence[float]]]
    """By environment and test, in the order of repetitions."""
    emulated: Collection[str]
    """Names of environments."""

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> Values:
        found: dict[str, dict[str, list[float]]] = {}
        for one in sorted(measurements, key=lambda one: one.repetition):
            found.setdefault(one.environment, {}).setdefault(one.test, []).append(one.value)
        return cls(measurements, found, {one.environment for one in measurements if one.emulated})

    def label(self, environment: str) -> str:
        return label(environment, emulated=environment in self.emulated)

    def compare(self, pairs: Iterable[Pair]) -> list[Comparison]:
        """Every test that both environments of a pair have."""
        found = []
        for pair in pairs:
            base = self.tests.get(pair.base, {})
            emulated = bool({pair.environment, pair.base} & set(self.emulated))
            for test, values in self.tests.get(pair.environment, {}).items():
                if test in base and (pair.tests is None or test in pair.tests) and (over := ratio(values, base[test])):
                    found.append(Comparison(pair, test, values, base[test], over, emulated))
        return found


def plus_minus(of: Estimate) -> str:
    return SHARE.write(of.value) + ("" if of.half is None else f" ± {SHARE.write(of.half)}")
