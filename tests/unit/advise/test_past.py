"""How guests wait on a host, compared with what queueing theory expects."""

import numpy as np
import pytest

from advise.past import _bursts, _gaps, _settled


@pytest.mark.parametrize(
    ("waited", "expected", "factor"),
    [
        ([1.0, 3.0], [0.5, 1.5], 2.02 / 1.02),
        ([0.001], [0.002], 1.0),  # on an idle host neither says much
        ([9.0], [0.1], 5.0),
        ([np.nan, 1.0], [1.0, np.nan], 1.0),
        ([1.0, 1.0], [1.0, np.inf], 1.0),  # full CPUs say nothing
    ],
)
def test_how_many_times_as_long_as_expected_guests_wait(
    waited: list[float], expected: list[float], factor: float
) -> None:
    assert _bursts(np.array(waited), np.array(expected)) == pytest.approx(factor, rel=0.06)


@pytest.mark.parametrize(
    ("there", "settled"),
    [
        ("--xxxxxx--", "----xx----"),  # a stay that has ended
        ("--xxxx", "----xx"),  # one that lasts
        ("--xxxxx-xxxx", "----x-----xx"),  # the guest comes back at once
        ("xx-xxx", "-----x"),  # it may have come right before the first value
    ],
)
def test_while_a_guest_comes_or_goes_its_rates_are_left_out(there: str, settled: str) -> None:
    values = np.array([1.0 if each == "x" else np.nan for each in there])
    assert "".join("x" if each else "-" for each in _settled(values, coming=2, going=2)) == settled


def test_gaps_are_between_values() -> None:
    used = np.array([np.nan, 1.0, np.nan, np.nan, 1.0, np.nan])
    assert [*_gaps(used)] == [False, False, True, True, False, False]
