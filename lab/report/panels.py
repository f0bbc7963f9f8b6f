"""A section's figure: its quantities as panels, with published numbers beside where they are of the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report import charts, units
from lab.report.loads import Layout, Load, curves
from lab.report.sections import Quantity, Section
from lab.report.study import Study


def chart(section: Section, loads: Sequence[Load], layout: Layout, study: Study) -> str | None:
    """The section's figure as SVG; None if there is not one number for it."""
    drawn = [quantity for quantity in section.quantities if quantity.drawn]
    panels = [_panel(quantity, loads, layout) for quantity in drawn]
    if not any(panel.curves for panel in panels):
        return None
    if section.key == "response" and (published := _published(study, loads, layout)):
        panels.insert(1, published)
    words = "; ".join(f"{panel.title}: {', '.join(curve.label for curve in panel.curves)}" for panel in panels)
    return charts.draw(panels, layout.x_axis, section.key, f"{section.title}. {words}".replace("\n", " "))


def _panel(quantity: Quantity, loads: Sequence[Load], layout: Layout) -> charts.Panel:
    return charts.Panel(
        quantity.title,
        quantity.unit.axis,
        tuple(curves(loads, layout, quantity.of, quantity.unit.factor)),
        _limits(quantity, loads),
        logarithmic=quantity.unit.logarithmic,
    )


def _limits(quantity: Quantity, loads: Sequence[Load]) -> tuple[tuple[float, str], ...]:
    limits = {limit for load in loads for limit in quantity.limit(load)}
    return tuple((value * quantity.unit.factor, text) for value, text in sorted(limits))


def _published(study: Study, loads: Sequence[Load], layout: Layout) -> charts.Panel | None:
    """The study's mean response times on the axes of this run's; None if they have no load in common."""
    xs = {x for x, _ in layout.x_axis.ticks}
    levels = {load.clients for load in loads}
    groups: dict[tuple[str, int], list[charts.Point]] = {}
    for row in study.mean_response:
        x = layout.x(row.instances, row.clients)
        if x in xs and row.clients in levels:
            points = groups.setdefault((row.placement, 0 if layout.along_instances else row.instances), [])
            points.append(charts.Point(x, (row.value * units.RESPONSE.factor,)))
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
