"""Charts as SVG, readable in colour, in grey, by colour-blind people, and on paper.

Curves differ by marker shape and by lightness, which is also visible in grey; placements by line style and by filled or
hollow markers. All repetitions are ticks next to their mean. Missing points leave a gap.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from lab.report.units import significant

SHADES = ("#74B0D8", "#4A7FC0", "#7A2476", "#46103F", "#000000")
"""From light to dark, from blue to purple: distinguishable in grey, and with any colour vision."""
MARKERS = ("o", "s", "^", "D", "v")
LINES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
STYLE = Path(__file__).with_name("charts.mplstyle")
WIDTH, HEIGHT, COLUMNS = 9.6, 3.1, 2  # inches; the height of one row

Point = tuple[float, Sequence[float]]
"""A load, and its values in the axis's unit, one per repetition. Empty without measurements."""


@dataclass(frozen=True)
class Curve:
    """`shade` and `line` are 0-based indexes of its colour and line style."""

    label: str
    points: Sequence[Point]
    shade: int
    line: int


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `limits` are named lines across it: an objective's threshold, a capacity."""

    title: str
    y_label: str
    curves: Sequence[Curve]
    limits: tuple[tuple[float, str], ...] = ()
    logarithmic: bool = False


def draw(panels: Sequence[Panel], x_label: str, ticks: Sequence[tuple[float, str]]) -> str:
    """`ticks` are the loads, and their labels."""
    with matplotlib.rc_context(fname=STYLE):
        columns = min(len(panels), COLUMNS)
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(WIDTH, HEIGHT * rows), layout="constrained")
        for number, panel in enumerate(panels, 1):
            # Adjacent panels with the same unit have the same scale, for comparison.
            shared = number % columns == 0 and panels[number - 2].y_label == panel.y_label
            same = figure.axes[-1] if shared and figure.axes else None
            axis = figure.add_subplot(rows, columns, number, sharey=same, title=panel.title, ylabel=panel.y_label)
            axis.set_xlabel(x_label)
            axis.set_xticks(*zip(*ticks, strict=True))
            axis.margins(x=0.08)
            if panel.logarithmic:
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
                axis.yaxis.set_minor_locator(NullLocator())
            else:
                axis.axhline(0, linewidth=0).sticky_edges.y.append(0)  # the axis begins here, unless a point is below
            for curve in panel.curves:
                _draw_curve(axis, curve)
            for value, text in panel.limits:
                axis.axhline(value, color="#222222", linewidth=1, linestyle=(0, (2, 2)), zorder=1, label=text)
            if panel.curves or panel.limits:
                axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8, borderpad=0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return out.getvalue()


def _draw_curve(axis: Axes, curve: Curve) -> None:
    colour, points = SHADES[curve.shade % len(SHADES)], sorted(curve.points)
    axis.plot(
        [x for x, _ in points],
        [fmean(values) if values else math.nan for _, values in points],  # NaN isn't drawn
        color=colour,
        linestyle=LINES[curve.line % len(LINES)],
        marker=MARKERS[curve.shade % len(MARKERS)],
        markersize=6.5,
        markerfacecolor="white" if curve.line % 2 else colour,
        zorder=3,
        clip_on=False,  # a marker on the axis would be cut in half
        label=curve.label,
    )
    for x, values in points:
        if len(values) > 1:
            axis.plot([x] * len(values), sorted(values), "_-", color=colour, markersize=7, linewidth=1, zorder=2)
