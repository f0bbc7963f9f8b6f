"""Slopes of a soak: growth is distinguished from what goes up and down."""

from __future__ import annotations

import math
import random

import pytest

from soak.slopes import MONTH, PARTS, slope

HOURS_2 = [float(second) for second in range(0, 7200, 10)]


def test_a_straight_line_is_found_as_it_is() -> None:
    found = slope([(second, 40 + second / 100) for second in HOURS_2])
    assert found.middle == pytest.approx(0.01)
    assert found.low == pytest.approx(found.high)
    assert found.grows_by(0.009 * MONTH) is True
    assert found.grows_by(0.011 * MONTH) is False


def test_a_leak_is_found_in_what_a_collector_makes_go_up_and_down() -> None:
    """A kilobyte a second, below a sawtooth of 30 MB every two minutes."""
    readings = [(second, 100 + second / 1000 + second % 120 / 4) for second in HOURS_2]
    found = slope(readings)
    assert found.low < 0.001 < found.high
    assert found.grows_by(1000) is True


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_is_no_growth(seed: int) -> None:
    noise = random.Random(seed)
    found = slope([(second, 30 + noise.gauss(0, 1)) for second in HOURS_2])
    assert found.grows_by(5000) is False
    assert found.grows_by(0) is not True


def test_what_the_readings_do_not_tell_stays_open() -> None:
    found = slope([(second, 30 + 5 * math.sin(second / 700)) for second in HOURS_2])
    assert found.grows_by(100) is None


@pytest.mark.parametrize("at", [1000, 3600, 6500])
def test_a_step_stays_open(at: int) -> None:
    """Such as a thread more since a minute of much load."""
    found = slope([(second, 5.0 + (second > at)) for second in HOURS_2])
    assert found.grows_by(20) is None


def test_a_single_outlier_moves_nothing() -> None:
    readings = [(second, 500.0 if second == 3600 else 30.0) for second in HOURS_2]
    assert slope(readings)[:3] == (0, 0, 0)


def test_a_part_without_readings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a part of 600 s has no reading"):
        slope(
            [reading for reading in zip(HOURS_2, HOURS_2, strict=True) if not 1300 < reading[0] < 2700]
            + [(7200.0, 1.0)]
        )
    assert PARTS == 12
