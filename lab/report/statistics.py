"""Means of repetitions, ratios of means and straight lines, each with its 95 % confidence interval.

Intervals use Student's t distribution: with five repetitions the normal distribution's would be too narrow by a third.
They assume independent repetitions with roughly normal errors.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

# 0.975 quantiles of Student's t for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_Z = 1.959964  # of the normal distribution


@dataclass(frozen=True)
class Estimate:
    """A mean, a ratio or a slope with its interval, None for single values; `n` repetitions, the fewer of a ratio."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    deviation: float | None = None
    """Sample standard deviation (n - 1) of a mean."""

    @property
    def half(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def ends(self) -> tuple[float, float]:
        """The interval's ends; both are the value without an interval."""
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)

    def differs(self, other: float = 0.0) -> bool:
        """Whether it differs from a number by more than its interval."""
        return self.half is not None and not self.ends[0] <= other <= self.ends[1]

    def mapped(self, factor: float, offset: float = 0.0) -> Self:
        """offset + factor * this."""
        value = offset + factor * self.value
        if self.half is None:
            return replace(self, value=value)
        low, high = sorted(offset + factor * end for end in self.ends)
        deviation = None if self.deviation is None else abs(factor) * self.deviation
        return replace(self, value=value, low=low, high=high, deviation=deviation)


def three_digits(value: float | None) -> str:
    """A ratio with three decimals; empty if there is none."""
    return "" if value is None else f"{value:.3f}"


def interval(of: Estimate | None, written: Callable[[float], str] = three_digits) -> str:
    """The ends of an interval; empty without one."""
    return "" if of is None or of.low is None or of.high is None else f"{written(of.low)} to {written(of.high)}"


def t_quantile(freedom: int) -> float:
    """The 0.975 quantile of Student's t; beyond the table by Cornish and Fisher's expansion, accurate to 0.001.

    >>> t_quantile(4), round(t_quantile(60), 3)
    (2.776, 2.0)
    """
    if freedom <= len(_T):
        return _T[max(freedom, 1) - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of repetitions; None without any."""
    n = len(values)
    if n < 2:
        return Estimate(values[0]) if values else None
    deviation = statistics.stdev(values)
    return _with_half(statistics.fmean(values), t_quantile(n - 1) * deviation / math.sqrt(n), n, deviation)


def ratio(over: Estimate, under: Estimate) -> Estimate | None:
    """The ratio of two means, by the delta method; None if the second is 0."""
    if under.value == 0:
        return None
    value, n = over.value / under.value, min(over.n, under.n)
    if over.deviation is None or under.deviation is None:
        return Estimate(value, n=n)
    parts = [
        ((over.deviation / under.value) ** 2 / over.n, over.n - 1),
        ((value * under.deviation / under.value) ** 2 / under.n, under.n - 1),
    ]
    return _with_half(value, _welch(parts), n)


def geometric_mean(ratios: Sequence[tuple[Estimate, Estimate]]) -> Estimate | None:
    """The geometric mean of over / under for independent pairs of means; `n` counts the pairs. None without pairs."""
    if not ratios:
        return None
    n = len(ratios)
    value = statistics.geometric_mean([over.value / under.value for over, under in ratios])
    parts = [
        ((each.deviation / each.value) ** 2 / each.n, each.n - 1)
        for pair in ratios
        for each in pair
        if each.deviation is not None
    ]
    if len(parts) < 2 * n:
        return Estimate(value, n=n)
    half = _welch(parts) / n  # of the logarithm, whose variance is the sum of the relative variances
    return Estimate(value, value * math.exp(-half), value * math.exp(half), n)


def slope(points: Sequence[tuple[float, float]]) -> Estimate | None:
    """That of a line by least squares; None for fewer than three points (x, y), or if all have the same x."""
    n, xs, ys = len(points), [x for x, _ in points], [y for _, y in points]
    if n < 3 or len(set(xs)) == 1:
        return None
    found, intercept = statistics.linear_regression(xs, ys)
    residual = math.fsum((y - intercept - found * x) ** 2 for x, y in points)
    error = t_quantile(n - 2) * math.sqrt(residual / (n - 2))
    return _with_half(found, error / math.sqrt(n * statistics.pvariance(xs)), n)


def _with_half(value: float, half: float, n: int, deviation: float | None = None) -> Estimate:
    return Estimate(value, value - half, value + half, n, deviation)


def _welch(parts: Sequence[tuple[float, int]]) -> float:
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / math.fsum(part**2 / of for part, of in parts)
    return t_quantile(math.floor(freedom)) * math.sqrt(variance)
