"""Steps that are compared with each other, as they have the same containers: overheads and the cost of a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, TRANSACTIONAL, Step
from lab.report.allocation.steps import Measured, overhead
from lab.report.statistics import Estimate, Line, estimate, line, slope_through_origin


@dataclass(frozen=True, order=True)
class Case:
    """What is done to the caps: the steps that only differ in their repetition."""

    mode: str
    low: float
    high: float
    interval: int

    @classmethod
    def of(cls, step: Step) -> Case:
        """The case of a step."""
        return cls(step.mode, step.low, step.high, step.interval)

    @property
    def magnitude(self) -> str:
        """In the study's notation."""
        return f"[{self.low:g}, {self.high:g}]"

    @property
    def what(self) -> str:
        """In words."""
        return f"switched, {self.magnitude}" if self.mode == DYNAMIC else _WORDS[self.mode]


_WORDS = {STATIC: "static", CONTROL: "control"}
_ORDER = (STATIC, CONTROL, DYNAMIC)


@dataclass(frozen=True)
class Group:
    """All whole steps with this number of containers, pinned or not, and this load."""

    containers: int
    pinning: str
    load: str
    steps: tuple[Measured, ...]

    @property
    def name(self) -> str:
        """In words."""
        load = f", {TRANSACTIONAL}" if self.load == TRANSACTIONAL else ""
        return f"{self.containers} containers, {self.pinning}{load}"

    @property
    def unit(self) -> str:
        """What is finished, in the plural."""
        return self.steps[0].step.unit

    @property
    def cases(self) -> list[Case]:
        """Static and control first, then the magnitudes from the smallest on; by interval."""
        found = {Case.of(one.step) for one in self.steps}
        return sorted(found, key=lambda case: (_ORDER.index(case.mode), -case.low, case.interval))

    @property
    def intervals(self) -> list[int]:
        """Of all steps."""
        return sorted({one.step.interval for one in self.steps})

    def values(self, of: Callable[[Measured], float | None], *modes: str) -> list[float]:
        """A value of each step in these modes that has it."""
        return [value for one in self._in(*modes) if (value := of(one)) is not None]

    def estimate(self, case: Case, of: Callable[[Measured], float | None]) -> Estimate | None:
        """A value over a case's repetitions."""
        return estimate([value for one in self.steps if Case.of(one.step) == case if (value := of(one)) is not None])

    def losses(self, case: Case, of: Callable[[Measured], float]) -> list[float]:
        """What each repetition of a case lost, relative to the static step of its own block.

        Steps of a block ran one after the other, so that a slow drift of the machine is in both.
        """
        static = {_block(one): of(one) for one in self._in(STATIC)}
        return [
            overhead(before, of(one))
            for one in self.steps
            if Case.of(one.step) == case and (before := static.get(_block(one)))
        ]

    def overhead(self, case: Case, of: Callable[[Measured], float]) -> Estimate | None:
        """What a case lost, over its repetitions."""
        return estimate(self.losses(case, of))

    def lost(self, of: Callable[[Measured], float]) -> list[tuple[Case, Estimate]]:
        """What each switched case lost, if it can be compared."""
        switched = [case for case in self.cases if case.mode == DYNAMIC]
        return [(case, lost) for case in switched if (lost := self.overhead(case, of)) is not None]

    def worst(self, of: Callable[[Measured], float]) -> tuple[Case, Estimate] | None:
        """The switched case that lost most on average; None if there is none to compare."""
        return max(self.lost(of), key=lambda one: one[1].mean, default=None)

    @property
    def used(self) -> float:
        """CPUs used on the whole machine, on average over all steps."""
        return sum(one.host + one.capacity for one in self.steps) / len(self.steps)

    def host_line(self, mode: str) -> Line | None:
        """The host's CPU = static + c * f; c in CPU seconds per switch (or per call, of the control), f = 1 / T.

        The law is the one that the study's points follow. Static steps are at f = 0.
        """
        return line([*((0.0, one.host) for one in self._in(STATIC)), *((_f(one), one.host) for one in self._in(mode))])

    @property
    def reallocation(self) -> Estimate | None:
        """The part of c beyond the call, in CPU seconds: what switched steps used more than the control of their block.

        Over magnitudes the mean is taken first, as they are compared with the same control.
        """
        control = {_block(one): one.host for one in self._in(CONTROL)}
        switched: dict[tuple[int, int], list[float]] = {}
        for one in self._in(DYNAMIC):
            switched.setdefault(_block(one), []).append(one.host)
        return slope_through_origin(
            [
                (1 / interval, sum(hosts) / len(hosts) - control[interval, repetition])
                for (interval, repetition), hosts in sorted(switched.items())
                if (interval, repetition) in control
            ]
        )

    def per_call(self, of: Callable[[Measured], float | None], mode: str) -> Estimate | None:
        """A total of each step that has it, divided by its calls, over all steps of a mode."""
        called = [(of(one), one.calls) for one in self._in(mode)]
        return estimate([total / calls for total, calls in called if total is not None and calls])

    def _in(self, *modes: str) -> Sequence[Measured]:
        return [one for one in self.steps if one.step.mode in modes]


def groups(steps: Iterable[Measured]) -> list[Group]:
    """The whole steps by what they may be compared with."""
    of: dict[tuple[int, str, str], list[Measured]] = {}
    for one in steps:
        if one.whole:
            of.setdefault((one.step.containers, one.step.pinning, one.step.load), []).append(one)
    return [
        Group(*key, tuple(found))
        for key, found in sorted(of.items(), key=lambda item: (item[0][2], item[0][1] != "unpinned", item[0]))
    ]


def _f(one: Measured) -> float:
    return 1 / one.step.interval


def _block(one: Measured) -> tuple[int, int]:
    """The steps of a group that ran one after the other."""
    return one.step.interval, one.step.repetition
