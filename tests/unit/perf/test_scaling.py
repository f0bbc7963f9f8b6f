"""Multiplexed groups: what is counted, what is estimated, and that no value ever falls."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import assert_refused
from virtscope.perf.scaling import Reading, Scaled, Sum, Total, parse_reading, reading_bytes
from virtscope.toolkit.collect import SourceMalformed

SECOND = 10**9


class Group:
    """One group opened once, or again, on one CPU."""

    def __init__(self, events: int) -> None:
        self.sum = Sum(events)
        self.reopen()

    def reopen(self) -> None:
        self._scaled = Scaled(self.sum, range(len(self.sum.values)))

    def add(self, enabled: int, running: int, *values: int) -> Total:
        self._scaled.add(Reading(enabled, running, values))
        return self.sum.total()


def test_each_stretch_is_scaled_by_itself() -> None:
    """As by hand: 1000 in a half of the first second make 2000, 300 in a quarter of the next make 1200."""
    group = Group(1)
    group.add(SECOND, SECOND // 2, 1000)
    assert group.add(2 * SECOND, SECOND * 3 // 4, 1300) == (2.0, 0.75, (3200.0,))


def test_a_stretch_without_a_turn_counts_as_the_next_one() -> None:
    group = Group(1)
    group.add(SECOND, SECOND, 1000)
    assert group.add(2 * SECOND, SECOND, 1000) == (2.0, 1.0, (1000.0,))
    assert group.add(3 * SECOND, 2 * SECOND, 1500) == (3.0, 2.0, (2000.0,))


def test_of_a_group_that_never_ran_nothing_is_known_but_how_long_it_waited() -> None:
    assert Group(2).add(SECOND, 0, 0, 0) == (1.0, 0.0, (None, None))


def test_several_cpus_add_up_into_one_sum() -> None:
    total = Sum(1)
    here, there = Scaled(total, [0]), Scaled(total, [0])
    here.add(Reading(SECOND, SECOND, (100,)))
    there.add(Reading(SECOND, SECOND // 2, (100,)))
    assert total.total() == (2.0, 1.5, (300.0,))


def test_an_event_that_was_not_opened_has_no_count() -> None:
    total = Sum(3)
    Scaled(total, [2, 0]).add(Reading(SECOND, SECOND, (5, 7)))
    assert total.total().values == (7.0, None, 5.0)


def test_a_value_that_falls_without_a_wrap_adds_nothing() -> None:
    group = Group(1)
    group.add(SECOND, SECOND, 1000)
    assert group.add(2 * SECOND, 2 * SECOND, 400).values == (1000.0,)
    assert group.add(3 * SECOND, 3 * SECOND, 500).values == (1100.0,)


def test_a_group_whose_times_went_back_has_restarted() -> None:
    group = Group(1)
    group.add(2 * SECOND, 2 * SECOND, 1000)
    assert group.add(SECOND, SECOND, 500) == (3.0, 3.0, (1500.0,))


stretches = st.lists(
    st.tuples(
        st.integers(0, 10**10),  # nanoseconds enabled
        st.floats(0, 1),  # the share of them that it ran
        st.integers(0, 2**50),  # counted meanwhile
        st.booleans(),  # opened again before it
    ),
    min_size=1,
    max_size=50,
)


@given(stretches, st.integers(0, 2**64 - 1))
def test_no_value_falls_and_none_leaves_its_bounds(stretches: list[tuple[int, float, int, bool]], start: int) -> None:
    """Each stretch adds what was counted, at least, and at most that times the time enabled over the time run.

    The time enabled is that since the last turn. Values begin anywhere, so they wrap.
    """
    group = Group(1)
    enabled = running = value = 0
    group.add(1, 1, start)
    base, last = group.sum.values[0], 0.0
    assert base is not None
    offset, least, most, waited = start, base, base, 0
    enabled = running = 1
    for wanted, share, counted, reopened in stretches:
        if reopened:
            group.reopen()
            enabled = running = value = offset = waited = 0
        ran = int(wanted * share)
        enabled, running, value = enabled + wanted, running + ran, value + (counted if ran else 0)
        waited += wanted
        if ran:
            least += counted
            most += counted * waited / ran
            waited = 0
        total = group.add(enabled, running, (offset + value) % 2**64)
        (estimate,) = total.values
        assert estimate is not None
        assert estimate >= last
        assert least * (1 - 1e-9) <= estimate <= most * (1 + 1e-9)
        assert total.running_seconds <= total.enabled_seconds
        last = estimate


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 2**50))
def test_one_stretch_is_scaled_as_perf_stat_scales(enabled: int, running: int, value: int) -> None:
    running = min(enabled, running)
    (scaled,) = Group(1).add(enabled, running, value).values
    assert scaled == pytest.approx(value * enabled / running)


def test_readings_of_the_kernel() -> None:
    content = struct.pack("=5Q", 2, 10, 5, 1000, 7)
    assert len(content) == reading_bytes(2)
    assert parse_reading(content, 2) == Reading(10, 5, (1000, 7))
    for given_up in (b"", struct.pack("=4Q", 1, 10, 5, 1000)):
        assert parse_reading(given_up, 2) is None
    for malformed in (b"\0" * 8, struct.pack("=4Q", 2, 10, 5, 1000), struct.pack("=5Q", 1, 1, 1, 1, 1)):
        assert_refused(SourceMalformed, "is malformed", parse_reading, malformed, 2)
