"""The arithmetic of the lab's reports: means with intervals, and lines."""

from collections.abc import Sequence

import pytest

from lab.report.statistics import Estimate, estimate, ratio, slope, t_quantile


def of(*values: float) -> Estimate:
    found = estimate(values)
    assert found is not None
    return found


def test_a_mean_has_its_spread_and_is_noise_within_its_interval_of_zero() -> None:
    found = of(2.1, 1.9, 2.0, 2.3, 1.7)
    # s = sqrt((0.01 + 0.01 + 0 + 0.09 + 0.09) / 4); half = 2.776 * s / sqrt(5)
    numbers = (found.value, found.deviation, found.half, *found.ends)
    assert numbers == pytest.approx((2.0, 0.223607, 0.2776, 1.7224, 2.2776), abs=1e-4)
    assert (found.n, found.differs()) == (5, True)
    one = of(3.0)
    assert (one.value, one.deviation, one.low, one.high, one.differs()) == (3.0, None, None, None, False)
    assert not of(0.02, -0.01, 0.01).differs()
    assert estimate([]) is None
    quantiles = {1: 12.706, 4: 2.776, 30: 2.042, 31: 2.0395, 60: 2.0003, 120: 1.9799}
    assert {freedom: t_quantile(freedom) for freedom in quantiles} == pytest.approx(quantiles, abs=5e-4)


def test_the_slope_of_a_line_through_points_beside_it() -> None:
    found = slope([(0, 1.1), (1, 2.9), (2, 5.1), (3, 6.9)])
    assert found is not None
    # Calculated manually: slope = 9.8 / 5, residuals 0.04, -0.12, 0.12, -0.04.
    deviation = (0.032 / 2) ** 0.5
    assert (found.value, found.half) == pytest.approx((1.96, 4.303 * deviation / 5**0.5))
    assert found.deviation is None  # the points have the unit of y, not of the slope
    for points in ([], [(0, 1), (1, 2)], [(1, 1), (1, 2), (1, 3)]):
        assert slope(points) is None, "no freedom or no spread"


def test_a_ratio_has_the_spread_of_both_or_is_noise() -> None:
    found = ratio(of(2.1, 1.9, 2.0, 2.3, 1.7), of(1.0, 1.1, 0.9, 1.0, 1.0))
    assert found is not None
    # Variances of the means, calculated manually: 0.05 / 5 over 1 ** 2, and 2 ** 2 * 0.005 / 5; 6.76 degrees of
    # freedom.
    half = 2.447 * (0.01 + 0.004) ** 0.5
    assert (found.value, *found.ends) == pytest.approx((2, 2 - half, 2 + half))
    cases: tuple[tuple[Sequence[float], Sequence[float], bool], ...] = (
        ([1.02, 0.98, 1.01], [1.0, 1.03, 0.97], False),
        ([3.0], [1.0, 1.1], False),  # needs two repetitions of each
        ([5.0, 5.0], [5.0, 5.0], False),
        ([10.0, 10.0], [5.0, 5.0], True),
    )
    for values, base, differs in cases:
        found = ratio(of(*values), of(*base))
        assert found is not None
        assert (found.differs(1), found.low is None) == (differs, len(values) == 1), values
    assert ratio(of(1.0, 2.0), of(0.0, 0.0)) is None
