"""The charts: the tree of factors with what each costs, and performance against 1/x and with affinity."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from lab.factors.cases import Case
from lab.factors.scenario import COMPUTING, FACTORS, OVERCOMMIT
from lab.report.charts import FAINT, INK, MARKERS, SHADES, STYLE, Curve, Panel, Point, XAxis, draw, standalone
from lab.report.factors.comparisons import TESTS, Comparison, Results
from lab.report.factors.quantities import expected
from lab.report.factors.tables import TREE
from lab.report.measurements import values
from lab.report.units import SHARE

ROW, WIDTH = 0.21, 9.6  # inches
LEFT = 0.46  # of the width, for the tree's words
FEWEST = 2  # points of a curve


def tree(results: Results, key: str, title: str) -> str | None:
    """A row for each comparison below its factor: what it costs, with its interval, as SVG; None without any."""
    rows: list[tuple[str, Comparison | None]] = []
    for factor in FACTORS:
        if found := results.of(factor):
            rows.append((TREE[factor], None))
            rows += [(f"{one.test}: {one.what}", one) for one in found]
    if not rows:
        return None
    with matplotlib.rc_context(fname=STYLE):
        height = ROW * len(rows) + 0.7
        figure = Figure(figsize=(WIDTH, height))
        axis = figure.subplots()
        figure.subplots_adjust(left=LEFT, right=0.97, bottom=0.55 / height, top=1 - 0.1 / height)
        axis.grid(visible=True, axis="x")
        axis.grid(visible=False, axis="y")
        axis.axvline(0, color=INK, linewidth=1)
        for place, (words, one) in enumerate(rows):
            axis.annotate(
                words,
                (0, place),
                (-WIDTH * LEFT * 72 + (4 if one is None else 20), 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontweight="bold" if one is None else "normal",
                annotation_clip=False,
            )
            if one is not None:
                number = TESTS.index(one.test)
                colour = SHADES[number % len(SHADES)]
                if one.lost.low is not None and one.lost.high is not None:
                    ends = (one.lost.low * SHARE.factor, one.lost.high * SHARE.factor)
                    axis.hlines(place, *ends, color=colour, linewidth=1.4)
                axis.plot(
                    one.lost.value * SHARE.factor,
                    place,
                    MARKERS[number % len(MARKERS)],
                    color=colour,
                    markerfacecolor="white" if one.emulated else colour,
                    markersize=6,
                )
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set_xlabel("relative overhead, % (left of 0: more than there should be)", color=FAINT)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return standalone(out.getvalue(), key, f"{title}. {'; '.join(words for words, one in rows if one is None)}")


def overcommit(results: Results, key: str, title: str) -> str | None:
    """The share that each virtual server has, against the law's 1/x; None without two overcommitments to join."""
    panels, xs = [], {1.0}
    for test in COMPUTING:
        found = results.of(OVERCOMMIT, test)
        if not found:
            continue
        xs |= {one.x for one in found}
        law = tuple(Point(x, (expected(x) * SHARE.factor,)) for x in (1.0, *(one.x for one in found)))
        measured = (
            Point(1.0, _shares(found[0].base, found[0])),
            *(Point(one.x, _shares(one.performance, one)) for one in found),
        )
        panels.append(
            Panel(test, "share of that at x = 1, %", (Curve("1/x", law, 0, 1), Curve("measured", measured, 2, 0)))
        )
    if not panels:
        return None
    axis = XAxis("virtual servers per CPU, x", tuple((x, f"{x:g}") for x in sorted(xs)))
    return draw(panels, axis, key, f"{title}. {'; '.join(panel.title for panel in panels)}")


def _shares(performance: Sequence[float], one: Comparison) -> tuple[float, ...]:
    """Of each repetition, relative to the base's mean, in per cent."""
    base = sum(one.base) / len(one.base)
    return tuple(value / base * SHARE.factor for value in performance)


def affinity(results: Results, key: str, title: str) -> str | None:
    """What each virtual server has of what one alone has, free and pinned; None on a single CPU."""
    numbers = (1, results.cpus)
    panels = []
    for test in COMPUTING:
        curves = []
        for label, pinned, shade in (("free", False, 0), ("pinned", True, 2)):
            found = [values(results.measurements, test, Case(n, results.cpus, pinned=pinned).name) for n in numbers]
            if all(found):
                base = sum(found[0]) / len(found[0])
                points = zip(numbers, found, strict=True)
                curves.append(
                    Curve(
                        label,
                        tuple(Point(n, tuple(value / base * SHARE.factor for value in each)) for n, each in points),
                        shade,
                        int(not pinned),
                    )
                )
        if len(curves) == FEWEST:
            panels.append(Panel(test, "share of one alone, %", tuple(curves)))
    if not panels or results.cpus < FEWEST:
        return None
    axis = XAxis(f"virtual servers on {results.cpus} CPUs", tuple((n, str(n)) for n in numbers))
    return draw(panels, axis, key, f"{title}. {'; '.join(panel.title for panel in panels)}")
