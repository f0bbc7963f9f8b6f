"""Line charts as SVG, readable in colour, in grey, by colour-blind people, and on paper.

Curves are distinguished in three ways: by marker shape, by lightness (also in grey), and by a label at the curve's end,
so that no legend is needed. Placements differ by line style and by filled or hollow
markers. All repetitions are drawn as ticks beside their mean. Absent points leave a gap.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from lab.report.units import significant

SHADES = ("#74B0D8", "#4A7FC0", "#7A2476", "#46103F", "#000000")
"""From light to dark, from blue to purple: distinguishable in grey, and with any colour vision."""
MARKERS = ("o", "s", "^", "D", "v")
LINES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
INK, FAINT = "#222222", "#767676"

STYLE = Path(__file__).with_name("charts.mplstyle")
POINTS = 72  # in an inch
LEADER = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4}
FAR = 30  # points from a curve to its label; beyond, and wherever they are not level, a thin line joins them
HEADROOM = 0.08  # of an axis, beyond its points
LABEL_GAP = 11.0  # points between two labels at curves' ends
WIDTH, HEIGHT = 9.6, 3.1  # inches; the height of one row
COLUMNS = 2
ROW, LEFT = 0.21, 0.46  # of a row of intervals: its height in inches, the share of the width for its words
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"


@dataclass(frozen=True)
class Point:
    """The values of one load, one per repetition, in the axis's unit. Empty if nothing was measured."""

    x: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """NaN, which isn't drawn, if there is none."""
        return sum(self.values) / len(self.values) if self.values else float("nan")


@dataclass(frozen=True)
class Curve:
    """`shade` and `line` are indexes, from 0, of its colour and its line style."""

    label: str
    points: tuple[Point, ...]
    shade: int
    line: int


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `limits` are lines across it, each with its name: an objective's threshold, a capacity."""

    title: str
    y_label: str
    curves: tuple[Curve, ...]
    limits: tuple[tuple[float, str], ...] = ()
    logarithmic: bool = False
    bottom: float = 0
    """Where a linear axis begins, unless a point lies below it."""
    smooth: bool = True
    """Lines between the points; without, they are dotted, as of loads that nobody has measured between."""


@dataclass(frozen=True)
class Mark:
    """A value in the axis's unit with the ends of its interval; `shade` is the index of its colour and marker."""

    value: float
    low: float | None
    high: float | None
    shade: int
    hollow: bool = False


@dataclass(frozen=True)
class XAxis:
    """The x axis of all panels in a report: the loads and their labels."""

    label: str
    ticks: tuple[tuple[float, str], ...]


def draw(panels: Sequence[Panel], x_axis: XAxis, title: str) -> str:
    """Panels, two per row, as an <svg> element; `title` is unique on the page."""
    described = "; ".join(f"{panel.title}: {', '.join(curve.label for curve in panel.curves)}" for panel in panels)
    with matplotlib.rc_context(fname=STYLE):
        columns = min(len(panels), COLUMNS)
        rows = -(-len(panels) // columns)
        height = HEIGHT * rows + 0.25
        figure = Figure(figsize=(WIDTH, height))
        every = list(figure.subplots(rows, columns, squeeze=False).flat)
        # Labels are in the free space to the right of each pair of axes.
        figure.subplots_adjust(
            left=0.07, right=0.83, bottom=0.75 / height, top=1 - 0.35 / height, wspace=0.75, hspace=0.45
        )
        axes = every[: len(panels)]
        for panel, axis in zip(panels, axes, strict=True):
            _draw_panel(axis, panel, x_axis)
        for axis in every[len(panels) :]:
            axis.remove()
        figure.supxlabel(x_axis.label, x=(0.07 + 0.83) / 2, y=0.1 / height, fontsize="medium")
        drawn = list(zip(panels, axes, strict=True))
        for first in range(0, len(drawn), columns):
            _share_scale(drawn[first : first + columns])
        for panel, axis in zip(panels, axes, strict=True):
            _label_ends(axis, panel, figure.dpi)
        return _svg(figure, title, described)


def draw_intervals(rows: Sequence[tuple[str, Mark | None]], label: str, title: str) -> str:
    """A row for each value with its interval, below the rows without one, which are headings, as an <svg> element."""
    with matplotlib.rc_context(fname=STYLE):
        height = ROW * len(rows) + 0.7
        figure = Figure(figsize=(WIDTH, height))
        axis = figure.subplots()
        figure.subplots_adjust(left=LEFT, right=0.97, bottom=0.55 / height, top=1 - 0.1 / height)
        axis.grid(visible=True, axis="x")
        axis.grid(visible=False, axis="y")
        axis.axvline(0, color=INK, linewidth=1)
        for place, (words, mark) in enumerate(rows):
            axis.annotate(
                words,
                (0, place),
                (-WIDTH * LEFT * POINTS + (4 if mark is None else 20), 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontweight="bold" if mark is None else "normal",
                annotation_clip=False,
            )
            if mark is not None:
                colour, marker = SHADES[mark.shade % len(SHADES)], MARKERS[mark.shade % len(MARKERS)]
                if mark.low is not None and mark.high is not None:
                    axis.hlines(place, mark.low, mark.high, color=colour, linewidth=1.4)
                face = "white" if mark.hollow else colour
                axis.plot(mark.value, place, marker, color=colour, markerfacecolor=face, markersize=6)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set_xlabel(label, color=FAINT)
        return _svg(figure, title, "; ".join(words for words, mark in rows if mark is None))


def _svg(figure: Figure, title: str, described: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    name = re.sub(r"\W+", "-", title.lower())
    return standalone(out.getvalue(), name, f"{title}. {described}".replace("\n", " "))


def _draw_panel(axis: Axes, panel: Panel, x_axis: XAxis) -> None:
    axis.set_title(panel.title)
    axis.set_ylabel(panel.y_label)
    axis.set_xticks([x for x, _ in x_axis.ticks], [text for _, text in x_axis.ticks])
    xs = [x for x, _ in x_axis.ticks]
    room = 0.08 * (max(xs) - min(xs)) or 1
    axis.set_xlim(min(xs) - room, max(xs) + room)
    if panel.logarithmic:
        axis.set_yscale("log")
    for value, _ in panel.limits:
        axis.axhline(value, color=INK, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    for curve in panel.curves:
        _draw_curve(axis, curve, smooth=panel.smooth)
    drawn = [value for curve in panel.curves for point in curve.points for value in point.values]
    if drawn and not panel.logarithmic:
        low, high = min(panel.bottom, *drawn), max(panel.bottom, *drawn, *(value for value, _ in panel.limits))
        # Matplotlib's own margin is a share of the data's range, which may be small on an axis that begins at 0.
        room = HEADROOM * (high - low)
        axis.set_ylim(low - room if low < panel.bottom else low, high + room if room else None)


def _draw_curve(axis: Axes, curve: Curve, *, smooth: bool) -> None:
    colour, marker = SHADES[curve.shade % len(SHADES)], MARKERS[curve.shade % len(MARKERS)]
    points = sorted(curve.points, key=lambda point: point.x)
    axis.plot(
        [point.x for point in points],
        [point.mean for point in points],
        color=colour,
        linestyle=LINES[curve.line % len(LINES)] if smooth else ":",
        linewidth=1.7 if smooth else 1,
        marker=marker,
        markersize=6.5,
        markerfacecolor="white" if curve.line % 2 else colour,
        markeredgecolor=colour,
        markeredgewidth=1.4,
        zorder=3,
        clip_on=False,  # a marker on the axis would be cut in half
    )
    for point in points:
        if len(point.values) > 1:
            axis.vlines(point.x, min(point.values), max(point.values), color=colour, linewidth=1, zorder=2)
            axis.plot(
                [point.x] * len(point.values),
                point.values,
                "_",
                color=colour,
                markersize=7,
                markeredgewidth=1,
                zorder=2,
            )


def _share_scale(row: Sequence[tuple[Panel, Axes]]) -> None:
    """Give adjacent panels with the same unit the same scale, so that they can be compared."""
    limits = [axis.get_ylim() for _, axis in row]
    for panel, axis in row:
        same = [drawn for drawn, (other, _) in zip(limits, row, strict=True) if other.y_label == panel.y_label]
        axis.set_ylim(min(low for low, _ in same), max(high for _, high in same))
        if panel.logarithmic:
            _write_plain_numbers(axis)


def _write_plain_numbers(axis: Axes) -> None:
    """20, 50, 100 instead of powers of ten on a logarithmic axis."""
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 3000 else (1.0,)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_minor_formatter(NullFormatter())


def _label_ends(axis: Axes, panel: Panel, pixels: float) -> None:
    """Name each curve beside its last point, and each limit at the axes' end, moved apart where names would overlap.

    A curve that ends before others is labelled where it ends: a line to a distant label would look like part of it.
    pixels: in an inch.
    """
    right = axis.get_xlim()[1]
    ends = [(right, value, text, "italic") for value, text in panel.limits]
    last_points = [
        (curve.label, max((point for point in curve.points if point.values), key=lambda point: point.x))
        for curve in panel.curves
        if any(point.values for point in curve.points)
    ]
    furthest = max((last.x for _, last in last_points), default=right)
    for label, last in last_points:
        if last.x == furthest:
            ends.append((last.x, last.mean, label, "normal"))
        else:
            axis.annotate(label, (last.x, last.mean), (7, 0), textcoords="offset points", va="center", fontsize=8)
    ends.sort(key=lambda end: end[1])
    wanted = [float(axis.transData.transform((x, y))[1]) / pixels * POINTS for x, y, _, _ in ends]
    column = float(axis.transData.transform((right, 1))[0])
    for place, (x, y, text, slant), height in zip(spread(wanted, LABEL_GAP), ends, wanted, strict=True):
        across = (column - float(axis.transData.transform((x, y))[0])) / pixels * POINTS
        axis.annotate(
            text,
            (x, y),
            (across + 6, place - height),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontstyle=slant,
            annotation_clip=False,
            arrowprops=LEADER if abs(place - height) > LABEL_GAP / 3 or across > FAR else None,
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move places, in rising order, apart to at least `gap`, each group around its own middle.

    >>> spread([0, 1, 50], 10)
    [-4.5, 5.5, 50.0]
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_bottom(group, gap) + gap * number for group in groups for number in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) + gap * (len(group) - 1) / 2


def standalone(svg: str, name: str, description: str) -> str:
    """Matplotlib's output as an element to embed in a page: without prologue, with unique ids and a description."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif value.startswith("#") and key.endswith("href"):
                element.set(key, f"#{name}-{value[1:]}")
            elif "url(#" in value:
                element.set(key, re.sub(r"url\(#", f"url(#{name}-", value))
        # Matplotlib's rule is for `*`, which on a page would apply to all other charts; it sets no colour.
        if element.tag == f"{{{SVG}}}style" and element.text:
            element.text = element.text.replace("*", f"#{name} *")
    root.set("id", name)
    root.set("role", "img")
    root.set("aria-label", description)
    return ElementTree.tostring(root, encoding="unicode")
