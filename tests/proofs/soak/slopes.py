"""Slopes with their confidence, and what they would come to in a month. Pure arithmetic.

Readings follow each other too closely to be independent: memory goes up until a garbage collection, then down. So the
time is cut into twelve parts, each stands for itself with its median, and the line goes through these (least squares;
the interval by Student's t with ten degrees of freedom). A step is no slope: a thread more since an hour of much load
says nothing of a month. What grows does so in both halves of the time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

PARTS = 12
_T = 2.228  # of 95 %, two-sided, with PARTS - 2 degrees of freedom
MONTH = 30 * 86400.0  # seconds


class Slope(NamedTuple):
    """How a value goes on, per second, and the bounds in which that lies by 95 %."""

    middle: float
    low: float
    high: float
    level: float  # the median of all readings
    goes_on: bool  # by at least a quarter of it in each half of the time

    def grows_by(self, most: float) -> bool | None:
        """Return whether a month adds more than `most`; None where these readings don't tell."""
        if self.low * MONTH > most:
            return True if self.goes_on else None
        return False if self.high * MONTH <= most else None


def slope(readings: Sequence[tuple[float, float]]) -> Slope:
    """Return the slope of readings (seconds, value), in the order of time.

    Raises ValueError where one of the twelve parts of the time has none.
    """
    begin, length = readings[0][0], (readings[-1][0] - readings[0][0]) / PARTS
    parts: list[list[tuple[float, float]]] = [[] for _ in range(PARTS)]
    for second, value in readings:
        parts[min(int((second - begin) / length), PARTS - 1)].append((second, value))
    if not all(parts):
        raise ValueError(f"a part of {length:.0f} s has no reading")
    seconds = [statistics.fmean(second for second, _ in part) for part in parts]
    values = [statistics.median(value for _, value in part) for part in parts]
    line = statistics.linear_regression(seconds, values)
    rests = [value - line.intercept - line.slope * second for second, value in zip(seconds, values, strict=True)]
    rest = sum(each**2 for each in rests)
    middle = statistics.fmean(seconds)
    error = math.sqrt(rest / (PARTS - 2) / sum((second - middle) ** 2 for second in seconds))
    level = statistics.median(value for _, value in readings)
    half = PARTS // 2
    halves = [
        statistics.linear_regression(seconds[part], values[part]).slope for part in (slice(half), slice(half, None))
    ]
    goes_on = all(each >= line.slope / 4 for each in halves)
    return Slope(line.slope, line.slope - _T * error, line.slope + _T * error, level, goes_on)
