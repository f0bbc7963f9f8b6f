"""Configurations beside one that differs in one thing: ratios of throughput, CPU time, events and costs.

The cost is that of a byte, or of a request where a web server was loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from lab.measurements import Measurement
from lab.network.experiment import CPU, PER_BYTE, PER_REQUEST, REQUESTS, THROUGHPUT
from lab.network.paths import EVENTS
from lab.network.scenario import OFFLOADS, ON, PATHS, UNCHANGED, Configuration, WebLoad
from lab.report.measurements import values
from lab.report.network import costs
from lab.report.statistics import Ratio, ratio

INSTRUCTIONS, _ = EVENTS
COUNTED = (*EVENTS, CPU)
_OFFLOADS = (*OFFLOADS, UNCHANGED)
C = TypeVar("C", bound=Configuration | WebLoad)


@dataclass(frozen=True)
class Compared(Generic[C]):
    """Ratios to a baseline: of throughput, of what was counted per second, and of what each byte or request cost."""

    configuration: C
    baseline: C
    n: int
    """The fewest repetitions of either."""
    throughput: Ratio
    counted: dict[str, Ratio]
    cost: dict[str, Ratio]


@dataclass(frozen=True)
class Results:
    """All that a run has measured."""

    measurements: Sequence[Measurement]

    @cached_property
    def configurations(self) -> list[Configuration]:
        """All of which anything was measured: by direction, size, offloads and path."""
        found = {one for each in self.measurements if (one := Configuration.parse(each.environment))}
        return sorted(
            found,
            key=lambda one: (one.direction, one.size, _OFFLOADS.index(one.offloads), _rank(one.path)),
        )

    @cached_property
    def loads(self) -> list[WebLoad]:
        """All loads of a web server that were measured: by size, rate and path."""
        found = {one for each in self.measurements if (one := WebLoad.parse(each.environment))}
        return sorted(found, key=lambda one: (one.size, one.rate, _rank(one.path)))

    @cached_property
    def emulated(self) -> set[str]:
        """The names of configurations of emulated guests."""
        return {one.environment for one in self.measurements if one.emulated}

    @property
    def counted(self) -> list[str]:
        """Of `COUNTED`, what was."""
        there_are = {one.test for one in self.measurements}
        return [name for name in COUNTED if name in there_are]

    @property
    def judged_by(self) -> str:
        """What the cost of a byte is in: instructions where they were counted, else CPU time."""
        return INSTRUCTIONS if INSTRUCTIONS in self.counted else CPU

    @cached_property
    def paths(self) -> list[Compared[Configuration]]:
        """Each path beside the first of `PATHS` that was measured; those to guests beside it with offloads."""
        first = _first(one.path for one in self.configurations)
        offloads = ON if first in PATHS else UNCHANGED
        return [
            *self._beside(
                self.configurations,
                lambda one: replace(one, path=first, offloads=offloads if one.offloads == UNCHANGED else one.offloads),
            )
        ]

    @cached_property
    def offloads(self) -> list[Compared[Configuration]]:
        """Without offloads beside with them."""
        own = [one for one in self.configurations if one.offloads in OFFLOADS]
        return [*self._beside(own, lambda one: replace(one, offloads=ON))]

    @cached_property
    def sizes(self) -> list[Compared[Configuration]]:
        """Smaller messages beside the largest."""
        largest = max((one.size for one in self.configurations), default=0)
        return [*self._beside(self.configurations, lambda one: replace(one, size=largest))]

    @cached_property
    def requests(self) -> list[Compared[WebLoad]]:
        """Each load of a web server beside the same over the first of `PATHS`."""
        first = _first(one.path for one in self.loads)
        return [*self._beside(self.loads, lambda one: replace(one, path=first))]

    def of(self, test: str, one: Configuration | WebLoad) -> list[float]:
        """A test's values, by repetition."""
        return values(self.measurements, test, one.name)

    def _beside(self, all_of: Sequence[C], baseline_of: Callable[[C], C]) -> Iterator[Compared[C]]:
        for one in all_of:
            baseline = baseline_of(one)
            if one != baseline and (found := self._compare(one, baseline)):
                yield found

    def _compare(self, one: C, baseline: C) -> Compared[C] | None:
        """None unless both were measured."""
        test, per = (REQUESTS, PER_REQUEST) if isinstance(one, WebLoad) else (THROUGHPUT, PER_BYTE)
        throughput = self._ratio(test, one, baseline)
        if throughput is None:
            return None
        counted = {name: found for name in self.counted if (found := self._ratio(name, one, baseline))}
        cost = {
            name: _cost(of, throughput, each)
            for name, of in counted.items()
            if (each := self._ratio(name + per, one, baseline)) and each.value > 0
        }
        n = min(len(self.of(test, each)) for each in (one, baseline))
        return Compared(one, baseline, n, throughput, counted, cost)

    def _ratio(self, test: str, one: C, baseline: C) -> Ratio | None:
        return ratio(self.of(test, one), self.of(test, baseline))


def _rank(path: str) -> tuple[int, str]:
    """Guests come last."""
    return (PATHS.index(path) if path in PATHS else len(PATHS), path)


def _first(paths: Iterable[str]) -> str:
    return min(paths, key=_rank, default="")


def _cost(counted: Ratio, throughput: Ratio, each: Ratio) -> Ratio:
    """The study's ratio, with the relative interval of the repetitions' costs.

    Not with one from both ratios' intervals: in a repetition that is slow, both are smaller.
    """
    value = costs.instruction_cost_ratio(counted.value, throughput.value)
    low, high = (None if end is None else end / each.value * value for end in (each.low, each.high))
    return Ratio(value, low, high)
