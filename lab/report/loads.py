"""Loads: steps that differ in their repetition alone, and the order in which loads are drawn and listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.report.charts import Curve, Point, XAxis
from lab.report.judgement import Judged
from lab.report.results import StepResult
from lab.report.study import Published
from lab.report.units import significant


@dataclass(frozen=True)
class Load:
    """So many instances with so many clients each, in one placement; `results` are its repetitions."""

    placement: str
    instances: int
    clients: int
    results: tuple[StepResult, ...]

    def values(self, of: Callable[[StepResult], float | None]) -> tuple[float, ...]:
        """A figure in every repetition that has it."""
        return tuple(value for result in self.results if (value := of(result)) is not None)

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Every objective of every instance in every repetition."""
        return tuple(judged for result in self.results for app in result.instances for judged in app.judged)

    @property
    def met(self) -> bool | None:
        """Whether every objective was met, by every instance, in every repetition; None if that can't be said."""
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


@dataclass(frozen=True)
class Layout:
    """How the loads of a run are laid out in its charts.

    Along the x axis go the clients of an instance, and each number of instances is a curve; where all loads have the
    same clients, the instances go along the axis.
    """

    along_instances: bool
    shades: tuple[int, ...]
    """The numbers of instances there are; the place of one among them gives its shade and marker."""
    placements: tuple[str, ...]
    """Likewise for line style and filling."""
    x_axis: XAxis

    def curve(self, placement: str, instances: int, points: Sequence[Point], *, many_placements: bool) -> Curve:
        """A curve, labelled with what tells it from others."""
        line = self.placements.index(placement)
        if self.along_instances:
            return Curve(placement, tuple(points), line, line)
        label = count(instances, "instance") + (f", {placement}" if many_placements else "")
        return Curve(label, tuple(points), self.shades.index(instances), line)

    def x(self, instances: int, clients: int) -> int:
        """Where a load stands along the axis."""
        return instances if self.along_instances else clients


def layout(of: Sequence[Load], published: Sequence[Published] = ()) -> Layout:
    """The layout for these loads, with a place for published numbers that are drawn beside them."""
    instances = sorted({load.instances for load in of})
    clients = sorted({load.clients for load in of})
    along_instances = len(clients) == 1 and len(instances) > 1
    if along_instances:
        x_axis = XAxis(f"instances, {clients[0]} clients each{_really_run(of)}", tuple((n, str(n)) for n in instances))
    else:
        run = {load.clients: load.values(lambda result: result.clients_run) for load in of}
        scaled = any(values and values[0] != number for number, values in run.items())
        ticks = tuple(
            (number, f"{number}\n({significant(run[number][0])})" if scaled and run[number] else str(number))
            for number in clients
        )
        x_axis = XAxis("clients per instance" + (", in the study's numbers (really run)" if scaled else ""), ticks)
    return Layout(
        along_instances,
        tuple(sorted({*instances, *(row.instances for row in published)})),
        tuple(dict.fromkeys([*sorted({load.placement for load in of}), *(row.placement for row in published)])),
        x_axis,
    )


def curves(
    of: Sequence[Load], laid_out: Layout, value: Callable[[StepResult], float | None], factor: float
) -> list[Curve]:
    """A figure of all loads, multiplied into the axis's unit, as curves."""
    groups: dict[tuple[str, int], list[Point]] = {}
    for load in of:
        points = groups.setdefault((load.placement, 0 if laid_out.along_instances else load.instances), [])
        values = tuple(number * factor for number in load.values(value))
        points.append(Point(laid_out.x(load.instances, load.clients), values))
    many = len({load.placement for load in of}) > 1
    return [
        laid_out.curve(placement, instances, points, many_placements=many)
        for (placement, instances), points in groups.items()
        if any(point.values for point in points)
    ]


def _really_run(of: Sequence[Load]) -> str:
    values = of[0].values(lambda result: result.clients_run)
    return f" (really run: {significant(values[0])})" if values and values[0] != of[0].clients else ""


def count(number: int, thing: str) -> str:
    """So many of them, in words.

    >>> count(1, "instance"), count(4, "instance")
    ('1 instance', '4 instances')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
