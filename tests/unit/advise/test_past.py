"""How guests wait on a host, compared with what queueing theory expects."""

import numpy as np
import pytest

from advise.past import _bursts, _earlier


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


def test_what_was_before() -> None:
    assert _earlier(np.array([1.0, 2.0, 3.0]), 1) == pytest.approx([np.nan, 1.0, 2.0], nan_ok=True)
    assert _earlier(np.array([1.0, 2.0]), 5) == pytest.approx([np.nan, np.nan], nan_ok=True)
