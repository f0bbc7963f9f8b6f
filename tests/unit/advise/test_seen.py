"""What is derived from records."""

import math

import pytest

from advise.reading import Place
from advise.seen import Guest, _allowed, _lost

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


def test_a_tier_is_lost_if_its_host_is_no_longer_recorded_and_it_is_nowhere_else() -> None:
    a, b, c = (Place(host, "kvm") for host in "abc")
    mapped = {("web", a): ["shop"], ("db", b): ["shop"], ("old", c): ["blog"], ("old", a): ["blog"]}
    there = [Guest("web", a, 0.1), Guest("old", a, 0.1)]
    assert _lost(mapped, there, [a]) == {"shop": "db on b is no longer recorded"}
    assert _lost(mapped, there, [a, b]) == {}
