"""Multiplexed groups: counted values, extrapolated values, and that no value ever decreases."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import assert_refused
from virtscope.perf.scaling import Reading, Scaled, Sum, Total, parse_reading, reading_bytes
from virtscope.toolkit.collect import SourceMalformed

SECOND = 10**9


def total_of(*readings: tuple[float, float, int]) -> Total:
    """The sum of a group with one event, read with these seconds enabled, seconds running and values."""
    total = Sum(1)
    group = Scaled(total, [0])
    for enabled, running, value in readings:
        group.add(Reading(int(enabled * SECOND), int(running * SECOND), (value,)))
    return total.total()


def test_stretches_of_a_group_are_scaled_and_added() -> None:
    """Calculated manually: 1000 in half of the first second become 2000, 300 in a quarter of the next become 1200."""
    for why, readings, total in (
        ("each by itself", [(1, 0.5, 1000), (2, 0.75, 1300)], (2.0, 0.75, (3200.0,))),
        ("one without a turn adds nothing", [(1, 1, 1000), (2, 1, 1000)], (2.0, 1.0, (1000.0,))),
        ("and counts as the next one", [(1, 1, 1000), (2, 1, 1000), (3, 2, 1500)], (3.0, 2.0, (2000.0,))),
        ("a group that never ran", [(1, 0, 0)], (1.0, 0.0, (None,))),
        ("a value that falls without a wrap", [(1, 1, 1000), (2, 2, 400)], (2.0, 2.0, (1000.0,))),
        ("and rises again", [(1, 1, 1000), (2, 2, 400), (3, 3, 500)], (3.0, 3.0, (1100.0,))),
        ("times that went back: restarted", [(2, 2, 1000), (1, 1, 500)], (3.0, 3.0, (1500.0,))),
    ):
        assert total_of(*readings) == total, why


def test_cpus_add_up_and_an_event_that_was_not_opened_has_no_count() -> None:
    total = Sum(3)
    Scaled(total, [2, 0]).add(Reading(SECOND, SECOND, (5, 7)))
    Scaled(total, [2, 0]).add(Reading(SECOND, SECOND // 2, (100, 100)))
    assert total.total() == (2.0, 1.5, (207.0, None, 205.0))


# Nanoseconds enabled, share of them running, counts meanwhile, whether it was reopened before.
STRETCH = st.tuples(st.integers(0, 10**10), st.floats(0, 1), st.integers(0, 2**50), st.booleans())


@given(st.lists(STRETCH, min_size=1, max_size=50), st.integers(0, 2**64 - 1))
def test_no_value_falls_and_none_leaves_its_bounds(stretches: list[tuple[int, float, int, bool]], start: int) -> None:
    """Each interval adds at least the counted value, and at most that times enabled / running.

    Enabled is the time since the last turn. Values start anywhere, so they wrap.
    """
    total = Sum(1)
    group = Scaled(total, [0])
    group.add(Reading(1, 1, (start,)))
    least = most = float(start if start < 2**63 else 0)  # a fall of more isn't taken for a wrap
    offset, last, value, waited = start, 0.0, 0, 0
    enabled = running = 1
    for wanted, share, counted, reopened in stretches:
        if reopened:
            group = Scaled(total, [0])
            enabled = running = value = offset = waited = 0
        ran = int(wanted * share)
        enabled, running, value = enabled + wanted, running + ran, value + (counted if ran else 0)
        waited += wanted
        if ran:
            least += counted
            most += counted * waited / ran
            waited = 0
        group.add(Reading(enabled, running, ((offset + value) % 2**64,)))
        found = total.total()
        estimate = found.values[0] or 0.0
        assert estimate >= last
        assert least * (1 - 1e-9) <= estimate <= most * (1 + 1e-9)
        assert found.running_seconds <= found.enabled_seconds
        last = estimate


def test_readings_of_the_kernel() -> None:
    content = struct.pack("=5Q", 2, 10, 5, 1000, 7)
    assert len(content) == reading_bytes(2)
    assert parse_reading(content, 2) == Reading(10, 5, (1000, 7))
    for given_up in (b"", struct.pack("=4Q", 1, 10, 5, 1000)):
        assert parse_reading(given_up, 2) is None
    for malformed in (b"\0" * 8, struct.pack("=4Q", 2, 10, 5, 1000), struct.pack("=5Q", 1, 1, 1, 1, 1)):
        assert_refused(SourceMalformed, "is malformed", parse_reading, malformed, 2)
