"""What is derived from records."""

import math

import pytest

from advise.seen import _allowed

LATE, SHARE, RESPONSE = 0.3, 0.99, 0.05


@pytest.mark.parametrize(
    ("ratio", "requests", "expected"),
    [
        (0.5, 9000, 2 * RESPONSE),
        (0.1, 9000, LATE),  # a mean above it would make most requests late
        (0.0, 10, LATE / math.log(100)),  # too few requests to say more than an exponential distribution does
        (0.0, 300_000, RESPONSE * math.log(100_000) / math.log(100)),
    ],
)
def test_the_mean_at_which_an_objective_for_a_share_breaks(ratio: float, requests: float, expected: float) -> None:
    assert _allowed(LATE, SHARE, ratio, RESPONSE, requests) == pytest.approx(expected)
