"""Repetitions as a mean with its interval, and straight lines with theirs: arithmetic only.

Intervals are 95 % confidence intervals by Student's t distribution, as with five repetitions the normal one would be
too narrow by a third. They suppose that repetitions are independent and their errors roughly normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# 0.975 quantiles of Student's t for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_Z = 1.959964  # of the normal distribution


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values, with their sample standard deviation; both in the values' unit."""

    mean: float
    deviation: float | None
    """With n - 1; None of a single value, and of what was fitted, whose points have another unit."""
    n: int
    half: float | None
    """Half the width of the 95 % interval; None of a single value."""

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """The interval's upper end."""
        return None if self.half is None else self.mean + self.half

    @property
    def differs(self) -> bool:
        """Whether it differs from 0 by more than its spread explains."""
        return self.half is not None and abs(self.mean) > self.half


@dataclass(frozen=True)
class Ratio:
    """The mean of repetitions over that of a base, with the ends of its 95 % interval; None of single values."""

    value: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool:
        """Whether it differs from 1 by more than the spread of both explains."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


@dataclass(frozen=True)
class Line:
    """y = intercept + slope * x by least squares; the halves are those of 95 % intervals."""

    intercept: Estimate
    slope: Estimate
    r_squared: float | None
    """The share of y's variance that the line explains; None if y doesn't vary."""


def t_quantile(freedom: int) -> float:
    """The 0.975 quantile of Student's t; beyond the table by Cornish and Fisher's expansion, to 0.001.

    Raises `ValueError` without a degree of freedom.

    >>> t_quantile(4), round(t_quantile(60), 3)
    (2.776, 2.0)
    """
    if freedom < 1:
        raise ValueError("an interval needs at least one degree of freedom")
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of repetitions; None if there are none."""
    n = len(values)
    if not n:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1, None)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, deviation, n, t_quantile(n - 1) * deviation / math.sqrt(n))


def ratio(values: Sequence[float], base: Sequence[float]) -> Ratio | None:
    """How the mean of values relates to that of a base; None without values, or if the base's mean is 0.

    The interval is that of the delta method: relative variances of two independent means add up, with Welch's degrees
    of freedom (Welch 1947, rounded down).
    """
    over, under = estimate(values), estimate(base)
    if over is None or under is None or under.mean == 0:
        return None
    value = over.mean / under.mean
    if over.deviation is None or under.deviation is None:
        return Ratio(value, None, None)
    parts = [
        ((over.deviation / under.mean) ** 2 / over.n, over.n - 1),
        ((value * under.deviation / under.mean) ** 2 / under.n, under.n - 1),
    ]
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return Ratio(value, value, value)
    freedom = variance**2 / math.fsum(part**2 / of for part, of in parts)
    half = t_quantile(max(1, math.floor(freedom))) * math.sqrt(variance)
    return Ratio(value, value - half, value + half)


def line(points: Sequence[tuple[float, float]]) -> Line | None:
    """The line through points (x, y) by least squares; None if all have the same x, or there are less than three."""
    n = len(points)
    x_mean = math.fsum(x for x, _ in points) / n if n else 0.0
    spread = math.fsum((x - x_mean) ** 2 for x, _ in points)
    if n < 3 or spread == 0:
        return None
    y_mean = math.fsum(y for _, y in points) / n
    slope = math.fsum((x - x_mean) * (y - y_mean) for x, y in points) / spread
    intercept = y_mean - slope * x_mean
    residual = math.fsum((y - intercept - slope * x) ** 2 for x, y in points)
    total = math.fsum((y - y_mean) ** 2 for _, y in points)
    deviation = math.sqrt(residual / (n - 2))  # of the points from the line
    t = t_quantile(n - 2)
    return Line(
        Estimate(intercept, None, n, t * deviation * math.sqrt(1 / n + x_mean**2 / spread)),
        Estimate(slope, None, n, t * deviation / math.sqrt(spread)),
        1 - residual / total if total else None,
    )


def slope_through_origin(points: Sequence[tuple[float, float]]) -> Estimate | None:
    """The slope of y = slope * x by least squares, as of differences that are 0 at x = 0; None for less than two."""
    n, squares = len(points), math.fsum(x * x for x, _ in points)
    if n < 2 or squares == 0:
        return None
    slope = math.fsum(x * y for x, y in points) / squares
    deviation = math.sqrt(math.fsum((y - slope * x) ** 2 for x, y in points) / (n - 1))
    return Estimate(slope, None, n, t_quantile(n - 1) * deviation / math.sqrt(squares))
