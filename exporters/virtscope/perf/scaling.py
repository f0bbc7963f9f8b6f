"""Turns a group's readings into monotonic totals, extrapolated for the time without hardware counters.

A processor has few counters. If they don't suffice, the kernel multiplexes groups and reports the times that a group
was enabled and running. Counts are extrapolated from running to enabled time. `perf stat` prints a group's share of
running time behind its counts: (33.33%).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from virtscope.toolkit.collect import SourceMalformed

_WRAP = 1 << 64
_LONGEST_WAIT = 10 * 10**9  # nanoseconds, the longest time that one turn may represent; turns take milliseconds


class Reading(NamedTuple):
    """The kernel's reading of a group: times in nanoseconds, and its events' values in the order of opening."""

    enabled: int
    running: int
    values: tuple[int, ...]


def reading_bytes(events: int) -> int:
    """Return the size of a reading with this many events."""
    return 8 * (3 + events)


def parse_reading(content: bytes, events: int) -> Reading | None:
    """Parse the result of read(2), in the form of PERF_FORMAT_GROUP with both times.

    Returns None if the kernel has dropped the group, for example because its CPU went offline: then the reading is
    empty or has only the leader. Raises SourceMalformed for anything else.
    """
    if len(content) == reading_bytes(events):
        count, enabled, running, *values = struct.unpack(f"={3 + events}Q", content)
        if count == events:
            return Reading(enabled, running, tuple(values))
    elif not content or int.from_bytes(content[:8], sys.byteorder) == len(content) // 8 - 3:
        return None
    raise SourceMalformed(f"a group's reading is malformed: {content[:64].hex()}")


class Total(NamedTuple):
    """A group's counts so far, extrapolated to its enabled time."""

    enabled_seconds: float
    running_seconds: float
    values: tuple[float | None, ...]  # of each event in the group; None: unknown


class Sum:
    """Adds up a group's counts on one or more CPUs; all values are monotonic."""

    def __init__(self, events: int) -> None:
        self.enabled = 0  # nanoseconds
        self.running = 0
        self.values: list[float | None] = [None] * events

    def total(self) -> Total:
        """Return the current sum."""
        return Total(self.enabled / 1e9, self.running / 1e9, tuple(self.values))


class Scaled:
    """Follows the readings of an open group from its opening on, and adds the scaled counts to a sum.

    Each interval between two readings is scaled separately, because scaling the whole value by the whole time could
    decrease the total. An interval adds between its raw count and that count times enabled over running time; for the
    sum of all intervals the upper bound need not hold. An interval without a turn gives no information: its time is
    added to the next one with a turn, unless the group has waited for seconds. Then the missed counts are unknown, and
    extrapolating them from one turn would make the total jump.
    """

    def __init__(self, total: Sum, members: Sequence[int]) -> None:
        """`members` are the opened events' indices in the sum, in the order of opening."""
        self._sum = total
        self._members = members
        self._enabled = 0  # nanoseconds, of the last reading
        self._running = 0
        self._values: Sequence[int] = [0] * len(members)
        self._pending = 0  # nanoseconds enabled since the last interval with a turn

    def add(self, reading: Reading) -> None:
        """Add the next reading of the group. If its times decreased, it has been reset."""
        if reading.enabled < self._enabled or reading.running < self._running:
            self._enabled = self._running = 0
            self._values = [0] * len(self._members)
        enabled, running = reading.enabled - self._enabled, reading.running - self._running
        before = self._values
        self._enabled, self._running, self._values = reading
        self._sum.enabled += enabled
        self._sum.running += running
        self._pending += enabled
        if running == 0:
            if self._pending > _LONGEST_WAIT:
                self._pending = 0
            return
        # The kernel takes both times at slightly different moments: never scale down.
        factor = max(self._pending / running, 1.0)
        self._pending = 0
        values = self._sum.values
        for member, now, last in zip(self._members, reading.values, before):
            counted = (now - last) % _WRAP
            if counted >= _WRAP // 2:  # it decreased without wrapping: unknown
                counted = 0
            values[member] = (values[member] or 0.0) + counted * factor
