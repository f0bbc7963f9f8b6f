"""The charts: a panel for each group, a curve for each magnitude."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.allocation.metrics import FOLLOWED
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC
from lab.report.allocation.groups import Case, Group
from lab.report.allocation.steps import Measured
from lab.report.charts import Curve, Panel, Point, XAxis, draw
from lab.report.units import CPUS, SHARE, Unit

FEWEST = 2  # points of a curve


def lost(of: Sequence[Group], value: Callable[[Measured], float], key: str, title: str) -> str | None:
    """An overhead against the interval, as SVG; None if there is only one interval."""
    intervals = sorted({seconds for group in of for seconds in group.intervals})
    axis = XAxis("interval between switches, s", tuple((seconds, str(seconds)) for seconds in intervals))

    def points(group: Group, cases: Sequence[Case]) -> list[Point]:
        return [
            Point(case.interval, tuple(lost * SHARE.factor for lost in group.losses(case, value))) for case in cases
        ]

    return _drawn(of, points, SHARE, axis, key=key, title=title)


def host(of: Sequence[Group], key: str, title: str) -> str | None:
    """The host's CPU against the frequency of switches, along which the law is a straight line."""
    intervals = sorted({seconds for group in of for seconds in group.intervals}, reverse=True)
    axis = XAxis(
        "interval between switches, by their frequency",
        ((0.0, "static"), *((1 / seconds, f"{seconds} s") for seconds in intervals)),
    )

    def points(group: Group, cases: Sequence[Case]) -> list[Point]:
        static = tuple(group.values(lambda one: one.host, STATIC))
        switched = [
            Point(1 / case.interval, tuple(one.host for one in group.steps if Case.of(one.step) == case))
            for case in cases
        ]
        return [Point(0.0, static), *switched]

    return _drawn(of, points, CPUS, axis, key=key, title=title)


def after(of: Sequence[Group], key: str, title: str) -> str | None:
    """The host's CPU by the seconds since a switch, or since the control's call."""
    seconds = [second for second in range(FOLLOWED) if any(_mean_after(group, DYNAMIC, second) for group in of)]
    if len(seconds) < FEWEST:
        return None
    axis = XAxis("seconds since the caps were written", tuple((second, str(second)) for second in seconds))
    panels = [
        Panel(
            group.name,
            CPUS.axis,
            tuple(
                Curve(label, tuple(Point(second, _mean_after(group, mode, second)) for second in seconds), shade, line)
                for label, mode, shade, line in (("control", CONTROL, 0, 1), ("switched", DYNAMIC, 2, 0))
            ),
        )
        for group in of
    ]
    return draw(panels, axis, key, f"{title}. {'; '.join(panel.title for panel in panels)}")


def _mean_after(group: Group, mode: str, second: int) -> tuple[float, ...]:
    values = group.values(lambda one: one.host_in(str(second)), mode)
    return (sum(values) / len(values),) if values else ()


def _drawn(
    of: Sequence[Group],
    points: Callable[[Group, Sequence[Case]], list[Point]],
    unit: Unit,
    axis: XAxis,
    *,
    key: str,
    title: str,
) -> str | None:
    if len(axis.ticks) < FEWEST:
        return None
    panels = []
    for group in of:
        by_what: dict[str, list[Case]] = {}
        for case in group.cases:
            if case.mode != STATIC:
                by_what.setdefault(case.what, []).append(case)
        curves = tuple(
            Curve(what, tuple(points(group, cases)), shade, line=int(cases[0].mode == CONTROL))
            for shade, (what, cases) in enumerate(by_what.items())
        )
        panels.append(Panel(group.name, unit.axis, curves))
    return draw(panels, axis, key, f"{title}. {'; '.join(panel.title for panel in panels)}") if panels else None
