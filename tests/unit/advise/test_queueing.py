"""Waiting by queueing theory, against values of textbooks."""

import numpy as np
import pytest

from advise.queueing import capped, delay, waiting


@pytest.mark.parametrize(
    ("used", "cpus", "expected"),
    [
        (0.0, 1, 0.0),
        (0.5, 1, 1.0),  # rho / (1 - rho)
        (0.9, 1, 9.0),
        (1.0, 2, 1 / 3),  # rho^2 / (1 - rho^2)
        (4.0, 5, 0.5541),  # Erlang's C for 4 erlangs and 5 servers, over 5 - 4
        (0.99, 1, np.inf),
        (3.0, 2, np.inf),
    ],
)
def test_waiting_for_cpus_per_second_of_work(used: float, cpus: int, expected: float) -> None:
    assert float(waiting(used, cpus)) == pytest.approx(expected, abs=1e-4)


def test_a_part_of_a_cpu_counts_as_a_part() -> None:
    at_two_thirds = [float(waiting(2 / 3 * cpus, cpus)) for cpus in (1, 2)]
    assert float(waiting(1.0, 1.5)) == pytest.approx(sum(at_two_thirds) / 2)


def test_a_cap_makes_a_queue_as_a_slower_cpu_and_long_requests_take_longer() -> None:
    # A fifth of a CPU, half of it used: a queue of one request's time, which is 0.01 / 0.2.
    assert float(capped(0.01, 0.1, 0.2)) == pytest.approx(0.05)
    # Of 0.1 s, the quota of a period is 0.02 s; the rest takes five times as long.
    assert float(capped(0.1, 0.1, 0.2)) == pytest.approx(0.5 + 0.08 * 4)
    assert float(capped(0.01, 0.2, 0.2)) == np.inf


class TestDelay:
    """Of a request with a second of work."""

    def test_with_one_cpu_its_vcpu_and_the_host_are_one_queue(self) -> None:
        assert float(delay(1, 0.3, cap=np.nan, vcpus=1, used=0.6, cpus=1)) == pytest.approx(1.5)

    def test_alone_on_a_large_host_it_waits_for_its_own_vcpu(self) -> None:
        assert float(delay(1, 0.6, cap=np.nan, vcpus=1, used=0.6, cpus=8)) == pytest.approx(1.5)
        assert float(delay(1, 0.6, cap=np.nan, vcpus=np.nan, used=0.6, cpus=8)) == pytest.approx(0, abs=1e-4)

    def test_what_others_use_slows_it_beside_its_cap(self) -> None:
        others = 0.3 / 0.7
        assert float(delay(0.01, 0.1, cap=0.2, vcpus=np.nan, used=0.4, cpus=1)) == pytest.approx(0.01 * others + 0.05)

    def test_limits_that_come_and_go_count_while_they_are_there(self) -> None:
        waits = delay(np.full(2, 0.01), np.full(2, 0.1), cap=np.array([0.2, np.nan]), vcpus=np.nan, used=0.1, cpus=1)
        assert waits == pytest.approx([0.05, 0.01 / 9])

    def test_on_a_host_with_bursts_it_waits_longer(self) -> None:
        assert float(delay(1, 0.3, cap=np.nan, vcpus=np.nan, used=0.6, cpus=1, bursts=2.0)) == pytest.approx(3.0)
