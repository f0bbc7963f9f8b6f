"""Multiplexed groups: what is counted, what is estimated, and that no figure ever falls."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtscope.perf.scaling import Reading, Scaled, parse_reading, reading_bytes


def test_a_group_that_has_the_hardware_all_the_time_is_counted_as_it_is() -> None:
    group = Scaled(2)
    group.add(Reading(10**9, 10**9, (1000, 10)))
    group.add(Reading(2 * 10**9, 2 * 10**9, (2500, 30)))
    assert group.total() == (2.0, 2.0, (2500.0, 30.0))


def test_each_stretch_is_scaled_by_itself() -> None:
    """As by hand: 1000 in a half of the first second make 2000, 300 in a quarter of the next make 1200."""
    group = Scaled(1)
    group.add(Reading(10**9, 5 * 10**8, (1000,)))
    group.add(Reading(2 * 10**9, 75 * 10**7, (1300,)))
    assert group.total() == (2.0, 0.75, (3200.0,))


def test_a_stretch_without_a_turn_counts_as_the_next_one() -> None:
    group = Scaled(1)
    group.add(Reading(10**9, 10**9, (1000,)))
    group.add(Reading(2 * 10**9, 10**9, (1000,)))
    assert group.total() == (2.0, 1.0, (1000.0,))
    group.add(Reading(3 * 10**9, 2 * 10**9, (1500,)))
    assert group.total() == (3.0, 2.0, (2000.0,))


def test_of_a_group_that_never_ran_nothing_is_known() -> None:
    group = Scaled(2)
    group.add(Reading(10**9, 0, (0, 0)))
    assert group.total() is None


def test_a_counter_that_wraps_goes_on() -> None:
    group = Scaled(1)
    group.add(Reading(10**9, 10**9, (2**64 - 100,)))
    group.add(Reading(2 * 10**9, 2 * 10**9, (50,)))
    total = group.total()
    assert total
    assert total.values[0] == pytest.approx(2**64 + 50)


def test_a_group_opened_anew_goes_on_from_its_total() -> None:
    group = Scaled(1)
    group.add(Reading(10**9, 10**9, (1000,)))
    group.restart()
    group.add(Reading(3 * 10**9, 3 * 10**9, (500,)))  # longer than before: its times don't give it away
    assert group.total() == (4.0, 4.0, (1500.0,))


def test_a_group_whose_times_went_back_began_anew() -> None:
    group = Scaled(1)
    group.add(Reading(2 * 10**9, 2 * 10**9, (1000,)))
    group.add(Reading(10**9, 10**9, (500,)))
    assert group.total() == (3.0, 3.0, (1500.0,))


stretches = st.lists(
    st.tuples(
        st.integers(0, 10**10),  # nanoseconds enabled
        st.floats(0, 1),  # the share of them that it ran
        st.integers(0, 2**50),  # counted meanwhile
        st.booleans(),  # opened anew before it
    ),
    min_size=1,
    max_size=50,
)


@given(stretches)
def test_no_figure_falls_and_none_leaves_its_bounds(stretches: list[tuple[int, float, int, bool]]) -> None:
    """Every stretch adds what was counted at least, and at most that times the time enabled over the time run."""
    group = Scaled(1)
    enabled = running = value = 0
    last = least = 0.0
    for wanted, share, counted, anew in stretches:
        if anew:
            group.restart()
            enabled = running = value = 0
        ran = int(wanted * share)
        enabled, running, value = enabled + wanted, running + ran, value + (counted if ran else 0)
        group.add(Reading(enabled, running, (value,)))
        least += counted if ran else 0
        total = group.total()
        if total is None:
            continue
        assert total.values[0] >= last
        assert total.values[0] >= least * (1 - 1e-9)
        assert total.running_seconds <= total.enabled_seconds
        last = total.values[0]


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 2**50))
def test_one_stretch_is_scaled_as_perf_stat_scales(enabled: int, running: int, value: int) -> None:
    running = min(enabled, running)
    group = Scaled(1)
    group.add(Reading(enabled, running, (value,)))
    total = group.total()
    assert total
    assert total.values[0] == pytest.approx(value * enabled / running)


def test_reading_of_the_kernel() -> None:
    content = struct.pack("=5Q", 2, 10, 5, 1000, 7)
    assert len(content) == reading_bytes(2)
    assert parse_reading(content) == Reading(10, 5, (1000, 7))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, struct.pack("=4Q", 2, 10, 5, 1000), struct.pack("=5Q", 1, 1, 1, 1, 1)]
)
def test_a_reading_that_is_cut_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        parse_reading(content)
