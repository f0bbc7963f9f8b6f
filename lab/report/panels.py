"""A section's chart: its quantities as panels, and comparable published numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.report import charts, units
from lab.report.charts import Curve, Point, XAxis
from lab.report.loads import Load, count
from lab.report.results import StepResult
from lab.report.sections import Quantity, Section
from lab.report.study import Published, Study
from lab.report.units import significant


@dataclass(frozen=True)
class _Layout:
    """How the loads of a run are laid out in its charts.

    Along the x axis go the clients of an instance, and each number of instances is a curve; where all loads have the
    same clients, the instances go along the axis.
    """

    along_instances: bool
    shades: tuple[int, ...]
    """The numbers of instances there are; the place of one among them gives its shade and marker."""
    placements: tuple[str, ...]
    """The placements, likewise for line style and filling."""
    x_axis: XAxis

    def curve(self, placement: str, instances: int, points: Sequence[Point], *, many_placements: bool) -> Curve:
        """A curve, labelled with what distinguishes it from others."""
        line = self.placements.index(placement)
        if self.along_instances:
            return Curve(placement, tuple(points), line, line)
        label = count(instances, "instance") + (f", {placement}" if many_placements else "")
        return Curve(label, tuple(points), self.shades.index(instances), line)

    def x(self, instances: int, clients: int) -> int:
        """Where a load stands along the axis."""
        return instances if self.along_instances else clients


def chart(section: Section, loads: Sequence[Load], study: Study) -> str | None:
    """The section's chart as SVG; None if there are no numbers for it."""
    layout = _layout(loads, study.mean_response)
    drawn = [quantity for quantity in section.quantities if quantity.drawn]
    panels = [_panel(quantity, loads, layout) for quantity in drawn]
    if not any(panel.curves for panel in panels):
        return None
    if section.key == "response" and (published := _published(study, loads, layout)):
        panels.insert(1, published)
    words = "; ".join(f"{panel.title}: {', '.join(curve.label for curve in panel.curves)}" for panel in panels)
    return charts.draw(panels, layout.x_axis, section.key, f"{section.title}. {words}".replace("\n", " "))


def _panel(quantity: Quantity, loads: Sequence[Load], layout: _Layout) -> charts.Panel:
    return charts.Panel(
        quantity.title,
        quantity.unit.axis,
        tuple(_curves(loads, layout, quantity.of, quantity.unit.factor)),
        _limits(quantity, loads),
        logarithmic=quantity.unit.logarithmic,
    )


def _limits(quantity: Quantity, loads: Sequence[Load]) -> tuple[tuple[float, str], ...]:
    limits = {limit for load in loads for limit in quantity.limit(load)}
    return tuple((value * quantity.unit.factor, text) for value, text in sorted(limits))


def _published(study: Study, loads: Sequence[Load], layout: _Layout) -> charts.Panel | None:
    """The study's mean response times on the axes of this run's; None if they have no load in common."""
    xs = {x for x, _ in layout.x_axis.ticks}
    levels = {load.clients for load in loads}
    groups: dict[tuple[str, int], list[Point]] = {}
    for row in study.mean_response:
        x = layout.x(row.instances, row.clients)
        if x in xs and row.clients in levels:
            points = groups.setdefault((row.placement, 0 if layout.along_instances else row.instances), [])
            points.append(Point(x, (row.value * units.RESPONSE.factor,)))
    if not groups:
        return None
    return charts.Panel(
        f"{study.short}, Xen: mean",
        units.RESPONSE.axis,
        tuple(
            layout.curve(placement, instances, points, many_placements=True)
            for (placement, instances), points in groups.items()
        ),
        logarithmic=True,
        smooth=False,
    )


def _layout(of: Sequence[Load], published: Sequence[Published]) -> _Layout:
    """The layout for these loads, with room for published numbers."""
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
    return _Layout(
        along_instances,
        tuple(sorted({*instances, *(row.instances for row in published)})),
        tuple(dict.fromkeys([*sorted({load.placement for load in of}), *(row.placement for row in published)])),
        x_axis,
    )


def _curves(
    of: Sequence[Load], layout: _Layout, value: Callable[[StepResult], float | None], factor: float
) -> list[Curve]:
    """A value of all loads, in the axis's unit, as curves."""
    groups: dict[tuple[str, int], list[Point]] = {}
    for load in of:
        points = groups.setdefault((load.placement, 0 if layout.along_instances else load.instances), [])
        values = tuple(number * factor for number in load.values(value))
        points.append(Point(layout.x(load.instances, load.clients), values))
    many = len({load.placement for load in of}) > 1
    return [
        layout.curve(placement, instances, points, many_placements=many)
        for (placement, instances), points in groups.items()
        if any(point.values for point in points)
    ]


def _really_run(of: Sequence[Load]) -> str:
    values = of[0].values(lambda result: result.clients_run)
    return f" (really run: {significant(values[0])})" if values and values[0] != of[0].clients else ""
