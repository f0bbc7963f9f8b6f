"""Multiplexed groups: counted values, extrapolated values, and that no value ever decreases."""

import struct

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
        ("a wrap at 64 bits", [(1, 1, 2**64 - 10), (2, 2, 5)], (2.0, 2.0, (15.0,))),
        ("half of all counts", [(1, 1, 2**62)], (1.0, 1.0, (float(2**62),))),
        ("times that went back: restarted", [(2, 2, 1000), (1, 1, 500)], (3.0, 3.0, (1500.0,))),
    ):
        assert total_of(*readings) == total, why


def test_cpus_add_up_and_an_event_that_was_not_opened_has_no_count() -> None:
    total = Sum(3)
    Scaled(total, [2, 0]).add(Reading(SECOND, SECOND, (5, 7)))
    Scaled(total, [2, 0]).add(Reading(SECOND, SECOND // 2, (100, 100)))
    assert total.total() == (2.0, 1.5, (207.0, None, 205.0))


def test_readings_of_the_kernel() -> None:
    content = struct.pack("=5Q", 2, 10, 5, 1000, 7)
    assert len(content) == reading_bytes(2)
    assert parse_reading(content, 2) == Reading(10, 5, (1000, 7))
    for given_up in (b"", struct.pack("=4Q", 1, 10, 5, 1000)):
        assert parse_reading(given_up, 2) is None
    for malformed in (b"\0" * 8, struct.pack("=4Q", 2, 10, 5, 1000), struct.pack("=5Q", 1, 1, 1, 1, 1)):
        assert_refused(SourceMalformed, "is malformed", parse_reading, malformed, 2)
