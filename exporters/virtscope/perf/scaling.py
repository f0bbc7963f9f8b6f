"""A group's readings to totals that never fall: its counts, estimated for the time it did not have the hardware.

A processor has few counters. When more groups are wanted than fit, the kernel gives each a turn (multiplexing) and
reports for how long a group was wanted (enabled) and counted (running). What happened while it did not count is
estimated by what happened while it did. `perf stat` prints the share in which a group ran behind its counts: (33.33%).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from virtscope.toolkit.collect import SourceMalformed

_WRAP = 1 << 64
_LONGEST_WAIT = 10 * 10**9  # nanoseconds for which a turn may stand; turns are of milliseconds


class Reading(NamedTuple):
    """What the kernel says of a group: times in nanoseconds, and its events' values in the order they were opened."""

    enabled: int
    running: int
    values: tuple[int, ...]


def reading_bytes(events: int) -> int:
    """Return the size of what the kernel says of a group of so many events."""
    return 8 * (3 + events)


def parse_reading(content: bytes, events: int) -> Reading | None:
    """Return the reading in what read(2) gave; its form is that of PERF_FORMAT_GROUP with both times.

    None where the kernel has given the group up: it says nothing then, or only the leader, as once its CPU has been
    offline. Raises SourceMalformed where it is none of these.
    """
    if len(content) == reading_bytes(events):
        count, enabled, running, *values = struct.unpack(f"={3 + events}Q", content)
        if count == events:
            return Reading(enabled, running, tuple(values))
    elif not content or int.from_bytes(content[:8], sys.byteorder) == len(content) // 8 - 3:
        return None
    raise SourceMalformed(f"a group's reading is malformed: {content[:64].hex()}")


class Total(NamedTuple):
    """What a group has counted so far, with the estimate for the time it didn't run."""

    enabled_seconds: float
    running_seconds: float
    values: tuple[float | None, ...]  # of each event in the group; None: of this one nothing is known


class Sum:
    """Adds up what a group counts, on one CPU or on several; none of its values ever falls."""

    def __init__(self, events: int) -> None:
        self.enabled = 0  # nanoseconds
        self.running = 0
        self.values: list[float | None] = [None] * events

    def total(self) -> Total:
        """Return the sum as it is now."""
        return Total(self.enabled / 1e9, self.running / 1e9, tuple(self.values))


class Scaled:
    """Follows the readings of one opened group, from its opening on, and adds to a sum what they mean.

    Each stretch between two readings is scaled by itself, so a later turn can't take back what was counted for an
    earlier one, as it can where the whole value is scaled by the whole time. So each stretch adds what was counted in
    it at least, and at most that times the time enabled over the time run; the same over all stretches together need
    not hold, and couldn't without a sum that falls. A stretch without a turn says nothing: its time is added to the
    next one that has one, unless it is seconds that the group has waited for. What was missed then is unknown, and
    to take one turn for all of it would be a leap.
    """

    def __init__(self, total: Sum, members: Sequence[int]) -> None:
        """`members` are the places in the sum of the events that were opened, in the order of their opening."""
        self._sum = total
        self._members = members
        self._enabled = 0  # nanoseconds, by the last reading
        self._running = 0
        self._values: Sequence[int] = [0] * len(members)
        self._pending = 0  # nanoseconds enabled since the last stretch in which it ran

    def add(self, reading: Reading) -> None:
        """Take the next reading of the group. One whose times went back has started again, whoever reset it."""
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
            if counted >= _WRAP // 2:  # it fell, and is too far from its end to have wrapped: nothing can be said
                counted = 0
            values[member] = (values[member] or 0.0) + counted * factor
