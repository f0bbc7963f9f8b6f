"""Slopes with confidence intervals, extrapolated to a month. Pure arithmetic.

Consecutive readings aren't independent: memory grows until a garbage collection. So the time is cut into twelve parts,
each represented by its median, and the line is fitted to these (least squares; interval by Student's t with ten degrees
of freedom). A step isn't a slope: an additional thread since an hour of high load says nothing about a month. A real
leak grows in both halves of the time.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

PARTS = 12
_T = 2.228  # 95 %, two-sided, with PARTS - 2 degrees of freedom
MONTH = 30 * 86400.0  # seconds


class Slope(NamedTuple):
    """The slope of a value per second, with its 95 % confidence bounds."""

    middle: float
    low: float
    high: float
    level: float  # the median of all readings
    goes_on: bool  # by at least a quarter of the slope in each half of the time

    def grows_by(self, most: float) -> bool | None:
        """Whether a month adds more than `most`; None if the readings leave it open."""
        if self.low * MONTH > most:
            return True if self.goes_on else None
        return False if self.high * MONTH <= most else None


def slope(readings: Sequence[tuple[float, float]]) -> Slope:
    """The slope of readings (seconds, value), in order of time.

    Raises ValueError if one of the twelve parts of the time has no reading.
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
