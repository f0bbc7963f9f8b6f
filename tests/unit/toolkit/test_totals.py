"""Totals over guests that come and go, against what the guests really did."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping

import pytest

from virtscope.toolkit.totals import Counters, Totals

CPUS = 4
MINUTE = 60.0


def _totals(*reads: Mapping[Hashable, Counters], counters: int = 1, seconds: float = MINUTE) -> list[float]:
    """Return the totals after these reads."""
    totals = Totals(counters)
    for number, guests in enumerate(reads):
        before = list(totals.values)
        totals.add(guests, CPUS, 1000 + number * seconds)
        assert all(was <= value for was, value in zip(before, totals.values, strict=True)), "a total fell"
    return totals.values


def test_guests_of_the_first_read_count_from_then_on_and_later_ones_from_0() -> None:
    assert _totals({"web": [5000]}) == [0]
    assert _totals({"web": [5000]}, {"web": [5030], "db": [20]}) == [50]


def test_an_ended_guest_stays_in_the_total() -> None:
    assert _totals({"web": [5000]}, {"web": [5030]}, {}, {}) == [30]


def test_a_guest_that_misses_reads_loses_nothing_even_if_it_used_every_cpu() -> None:
    assert _totals({"web": [5000]}, {}, {"web": [5480]}) == [480]
    assert _totals({"web": [5000]}, *[{}] * 10, {"web": [5660]}) == [660]


def test_a_guest_with_more_than_can_have_been_used_since_the_last_read_counts_from_then_on() -> None:
    assert _totals({}, {"web": [7200, 1e9]}, {"web": [7230, 1e9 + 5]}, counters=2) == [30, 5]
    assert _totals({}, {"web": [CPUS * MINUTE + 1]}) == [CPUS * MINUTE + 1]
    # A name that has passed to a guest that was migrated with its counters.
    assert _totals({"web": [10, 7]}, {"web": [7200, 1e9]}, {"web": [7230, 1e9 + 5]}, counters=2) == [30, 5]


def test_an_id_that_is_used_again_starts_from_0() -> None:
    assert _totals({7: [5000, 900]}, {7: [20, 1000]}, counters=2) == [20, 1000]
    # The fall shows another guest, but what this one used before was used before the last read.
    assert _totals({7: [9000, 900]}, {7: [5000, 1000]}, {7: [5010, 1001]}, counters=2) == [10, 1]


def test_a_fall_of_a_clock_is_no_restart() -> None:
    assert _totals({7: [5000, 900]}, {7: [4999.99, 900]}, {7: [5030, 901]}, counters=2) == [30, 1]


def test_an_unknown_counter_keeps_its_place() -> None:
    assert _totals({7: [5000, 900]}, {7: [5030, None]}, {7: [None, 910]}, {7: [5060, 920]}, counters=2) == [60, 20]
    assert _totals({}, {7: [None, 900]}, {7: [30, 910]}, {7: [60, 920]}, counters=2) == [30, 20]
    assert _totals({}, {7: [10, None]}, {7: [20, {"a": 5}]}, counters=2) == [20, 5]


def test_devices_are_counted_one_by_one() -> None:
    both, one = {"eth0": 900, "eth1": 5e9}, {"eth0": 950}
    assert _totals({7: [5, both]}, {7: [6, one]}, {7: [7, {"eth0": 10}]}, counters=2) == [2, 60]
    # One that appears was perhaps only missing; but before its first run, a guest is given its devices.
    assert _totals({7: [5, {"eth0": 900}]}, {7: [6, both]}, {7: [7, both]}, counters=2) == [2, 0]
    assert _totals({7: [0, {}]}, {7: [6, {"eth0": 30}]}, counters=2) == [6, 30]
    assert _totals({}, {7: [6, {"eth0": 30, "eth1": None}]}, {7: [6, {"eth0": 40, "eth1": 9}]}, counters=2) == [6, 49]


def test_ambiguous_guests_count_from_then_on() -> None:
    totals = Totals(1)
    for seconds, guests in enumerate(({"web": [20]}, {"web-1": [21], "web-2": [10]}, {"web-1": [22], "web-2": [10]})):
        totals.add(guests, CPUS, seconds * MINUTE, ambiguous={"web-1", "web-2"})
    assert totals.values == [1]


@pytest.mark.parametrize("seed", range(20))
def test_the_total_is_the_truth_under_churn(seed: int) -> None:
    chance = random.Random(seed)
    ids = iter(range(10**6))
    used = {next(ids): 3600.0 for _ in range(5)}  # CPU seconds by guest; of bytes each has nine times as many
    totals, read, truth = Totals(2), dict(used), 0.0
    totals.add({guest: (seconds, {0: seconds * 9}) for guest, seconds in used.items()}, CPUS, 0)
    for minute in range(1, 200):
        for guest in [guest for guest in used if chance.random() < 0.1]:
            del used[guest]  # nobody sees what it has used since the last read
        used.update((next(ids), 0.0) for _ in range(chance.choice((0, 0, 1, 2))))
        for guest in used:
            used[guest] += chance.random() * CPUS * MINUTE / len(used)
        seen = {guest: seconds for guest, seconds in used.items() if guest not in read or chance.random() < 0.9}
        if chance.random() < 0.1:  # migrated in with hours on its counter
            migrated = next(ids)
            seen[migrated] = used[migrated] = read[migrated] = 7200.0
        truth += sum(seconds - read.get(guest, 0) for guest, seconds in seen.items())
        read.update(seen)
        totals.add({guest: (seconds, {0: seconds * 9}) for guest, seconds in seen.items()}, CPUS, minute * MINUTE)
        assert totals.values == pytest.approx([truth, truth * 9])
