"""Loads: steps that only differ in their repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.report.judgement import Judged
from lab.report.results import StepResult


@dataclass(frozen=True)
class Load:
    """A number of instances and of clients per instance, in one placement; `results` are its repetitions."""

    placement: str
    instances: int
    clients: int
    results: tuple[StepResult, ...]

    def values(self, of: Callable[[StepResult], float | None]) -> tuple[float, ...]:
        """A value in every repetition that has it."""
        return tuple(value for result in self.results if (value := of(result)) is not None)

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Every objective of every instance in every repetition."""
        return tuple(judged for result in self.results for app in result.instances for judged in app.judged)

    @property
    def met(self) -> bool | None:
        """Whether every objective was met, by every instance, in every repetition; None if unknown."""
        verdicts = [judged.met for judged in self.judged]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True


def loads(results: Iterable[StepResult]) -> list[Load]:
    """Group repetitions, smallest loads first."""
    groups: dict[tuple[str, int, int], list[StepResult]] = {}
    for result in results:
        step = result.step
        groups.setdefault((step.placement, step.instances, step.clients), []).append(result)
    return [Load(*of, tuple(group)) for of, group in sorted(groups.items())]


def count(number: int, thing: str) -> str:
    """A number of things, in words.

    >>> count(1, "instance"), count(4, "instance")
    ('1 instance', '4 instances')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
