"""What is learnt of an application's past, and predicted from it."""

import numpy as np
import pytest

from advise.model import DRAWS, Past, fit, predict
from advise.queueing import Numbers, waiting

WORK, REST, K = 0.01, 0.004, 1.3


def past(intervals: int, *, noise: float = 0.1, busy: tuple[float, float] = (0.2, 0.8)) -> Past:
    """Of an application with these three numbers, on a CPU that is used by chance."""
    chance = np.random.default_rng(1)
    waits = WORK * waiting(chance.uniform(*busy, intervals), 1.0)
    seconds = (WORK + REST + K * waits) * np.exp(chance.normal(0, noise, intervals))
    return Past(seconds, np.full(intervals, WORK), waits)


def at(used: float) -> Numbers:
    return np.full(DRAWS, WORK * float(waiting(used, 1.0)))


def test_much_past_tells_rest_bursts_and_noise() -> None:
    found = fit(past(288))
    assert found.k == pytest.approx(K, rel=0.05)
    assert found.rest == pytest.approx(REST, rel=0.15)
    assert found.noise == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("used", [0.3, 0.6, 0.9])
def test_the_response_at_another_use_of_the_cpus_is_predicted(used: float) -> None:
    found = predict(fit(past(288)), WORK, at(used))
    came = WORK + REST + K * WORK * used / (1 - used)
    assert found.median == pytest.approx(came, rel=0.05)
    assert found.low < came < found.high


def test_the_less_is_known_the_wider_the_interval() -> None:
    little, much = (predict(fit(past(intervals)), WORK, at(0.9)) for intervals in (3, 288))
    assert little.high / little.low > 1.5 * much.high / much.low


def test_90_percent_of_what_comes_is_in_the_interval() -> None:
    chance = np.random.default_rng(2)
    found = predict(fit(past(288)), WORK, at(0.7))
    came = (WORK + REST + K * float(at(0.7)[0])) * np.exp(chance.normal(0, 0.1, 1000))
    assert np.mean((came > found.low) & (came < found.high)) == pytest.approx(0.9, abs=0.05)


def test_full_cpus_have_no_bound_and_don_t_disturb_what_is_learnt() -> None:
    seen = past(100)
    full = Past(np.append(seen.response, 3.0), np.append(seen.work, WORK), np.append(seen.waiting, np.inf))
    assert fit(full).k == pytest.approx(fit(seen).k)
    found = predict(fit(seen), WORK, np.full(DRAWS, np.inf))
    assert (found.low, found.median) == (np.inf, np.inf)


def test_work_beside_requests_is_no_part_of_them() -> None:
    """An application that computes three times as long as its requests take."""
    seen = past(200)
    found = fit(Past(seen.response, 3 * seen.work + 2 * REST, 3 * seen.waiting))
    assert found.share < 0.6
    used = predict(found, 3 * WORK + 2 * REST, 3 * at(0.5))
    assert used.median == pytest.approx(WORK + REST + K * WORK, rel=0.1)


def test_a_different_rest_and_a_wider_interval() -> None:
    found = fit(past(288))
    here, there = predict(found, WORK, at(0.5)), predict(found, WORK, at(0.5), rest_change=0.02)
    assert there.median - here.median == pytest.approx(0.02, rel=0.1)
    wide = predict(found, WORK, at(0.5), widened=2.0)
    assert wide.median == here.median
    assert np.log(wide.high / wide.median) == pytest.approx(2 * np.log(here.high / here.median))
