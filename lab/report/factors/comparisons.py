"""What a run compares: cases that differ in one factor, and how far performance is from what it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.factors.cases import BASE, Case
from lab.factors.scenario import (
    AFFINITY,
    CAPS,
    COMPUTING,
    OVERCOMMIT,
    SERVERS,
    SPARE_CORE,
    VIRTUALISATION,
    WEIGHTS,
    WORKLOADS,
)
from lab.factors.workloads import BENCHMARKS
from lab.measurements import Measurement
from lab.report.factors.quantities import deviation, expected, gain, loss, relative_delta
from lab.report.measurements import values
from lab.report.statistics import Ratio, ratio

TESTS = tuple(benchmark.name for workload in WORKLOADS for benchmark in BENCHMARKS[workload])
ALONE = Case()  # on a CPU of its own


@dataclass(frozen=True)
class Effect:
    """A share of the performance, with the ends of its 95 % interval; these are None of single repetitions."""

    value: float
    low: float | None
    high: float | None
    n: tuple[int, int]
    """Repetitions of what is compared, and of what it is compared with."""

    @property
    def differs(self) -> bool:
        """Whether it differs from 0 by more than the spread explains."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Comparison:
    """A test in two environments: what there is of the base's performance, and what there should be."""

    factor: str
    what: str
    test: str
    performance: tuple[float, ...]
    """By repetition."""
    base: tuple[float, ...]
    """The performance to compare with, by repetition."""
    ratio: Ratio
    """Of both."""
    should: float
    """What the ratio should be."""
    x: float
    """Where it is along its factor: servers, overcommitment or cap; 0 of the others."""
    emulated: bool

    @property
    def lost(self) -> Effect:
        """What lacks to the performance that there should be, as a share of that; below 0 if there is more.

        As the study computes it for this factor: a relative delta, a loss, or what the base gains.
        """
        return self._effect(self._lost)

    @property
    def deviation(self) -> Effect:
        """How far it is from 1/x, relative to that."""
        return self._effect(lambda share: deviation(share, self.x))

    def _lost(self, share: float) -> float:
        """The same, of a share of the base's performance."""
        if self.factor == SERVERS:
            return loss(1, share)
        if self.factor == OVERCOMMIT:
            return -deviation(share, self.x)
        if self.factor in {AFFINITY, SPARE_CORE}:
            return gain(share, 1)
        return relative_delta(self.should, share)

    def _effect(self, of: Callable[[float], float]) -> Effect:
        """A quantity of the ratio, with the ends of its interval."""
        ratio = self.ratio
        ends = sorted(of(end) for end in (ratio.low, ratio.high) if end is not None)
        low, high = ends or (None, None)
        return Effect(of(ratio.value), low, high, (len(self.performance), len(self.base)))


@dataclass(frozen=True)
class Results:
    """All that a run has measured."""

    measurements: Sequence[Measurement]

    @cached_property
    def cases(self) -> list[Case]:
        """Those of virtual servers."""
        found = {case for one in self.measurements if (case := Case.parse(one.environment))}
        return sorted(found, key=lambda case: (case.cpus, case.servers, case.pinned, case.weights, case.cap or 0))

    @property
    def cpus(self) -> int:
        """How many CPUs the virtual servers share where they share several."""
        return max((case.cpus for case in self.cases), default=1)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """All for which there are measurements, by factor and test."""
        return [one for test in TESTS for one in self._of(test) if one is not None]

    def of(self, factor: str, test: str | None = None) -> list[Comparison]:
        """Those of a factor."""
        return [one for one in self.comparisons if one.factor == factor and test in {None, one.test}]

    def _of(self, test: str) -> Iterator[Comparison | None]:
        yield from self._virtualisation(test)
        yield from self._servers(test)
        if test in COMPUTING:
            yield from self._overcommit(test)
            yield from self._placement(test)
            yield from self._shares(test)

    def _virtualisation(self, test: str) -> Iterator[Comparison | None]:
        yield self._compare(VIRTUALISATION, "cgroup", test, ALONE.name, BASE)
        guests = {one.environment: one for one in self.measurements if one.virtualization not in {"none", "cgroup"}}
        for name, one in guests.items():
            what = f"{name} ({one.virtualization}{', emulated' if one.emulated else ''})"
            yield self._compare(VIRTUALISATION, what, test, name, BASE, emulated=one.emulated)

    def _servers(self, test: str) -> Iterator[Comparison | None]:
        one = Case(1, self.cpus, pinned=False)
        for case in self._free():
            if 1 < case.servers <= self.cpus or (case.servers > 1 and test not in COMPUTING):
                what = f"{case.servers} on {self.cpus} CPUs"
                yield self._compare(SERVERS, what, test, case.name, one.name, x=case.servers)

    def _overcommit(self, test: str) -> Iterator[Comparison | None]:
        base = Case(self.cpus, self.cpus, pinned=False)
        for case in self._free():
            if (x := case.overcommit) > 1:
                should = expected(x)
                yield self._compare(OVERCOMMIT, f"x = {x:g}", test, case.name, base.name, should=should, x=x)

    def _placement(self, test: str) -> Iterator[Comparison | None]:
        if self.cpus == 1:
            return
        for servers in (1, self.cpus):
            free, pinned = (Case(servers, self.cpus, pinned=pinned).name for pinned in (False, True))
            what = f"{servers} of {self.cpus} CPUs busy"
            yield self._compare(AFFINITY, what, test, free, pinned, x=servers)
        without, spare = (Case(servers, self.cpus).name for servers in (self.cpus, self.cpus - 1))
        yield self._compare(SPARE_CORE, f"{self.cpus - 1} of {self.cpus} CPUs used", test, without, spare)

    def _shares(self, test: str) -> Iterator[Comparison | None]:
        for case in self.cases:
            for server, weight in enumerate(case.weights):
                should = weight / sum(case.weights)
                what = f"{weight} of {sum(case.weights)}"
                yield self._compare(WEIGHTS, what, test, case.of_server(server), ALONE.name, should=should)
            if case.cap is not None:
                what = f"cap of {case.cap:g} CPUs"
                yield self._compare(CAPS, what, test, case.name, ALONE.name, should=case.cap, x=case.cap)

    def _free(self) -> list[Case]:
        return [case for case in self.cases if not case.pinned and case.cpus == self.cpus]

    def _compare(
        self,
        factor: str,
        what: str,
        test: str,
        environment: str,
        base: str,
        *,
        should: float = 1.0,
        x: float = 0.0,
        emulated: bool = False,
    ) -> Comparison | None:
        """None unless both were measured."""
        of, under = (tuple(values(self.measurements, test, name)) for name in (environment, base))
        found = ratio(of, under)
        return Comparison(factor, what, test, of, under, found, should, x, emulated) if found else None

    def loss(self, test: str, *, pinned: bool) -> Effect | None:
        """What each of as many as there are CPUs loses against one alone; None without measurements of several."""
        if self.cpus == 1:
            return None
        many, one = (Case(servers, self.cpus, pinned=pinned).name for servers in (self.cpus, 1))
        found = self._compare(SERVERS, "", test, many, one)
        return found.lost if found else None
