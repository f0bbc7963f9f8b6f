"""What a group of counters has counted in truth, from what it counted while it had the hardware.

A processor has few counters. When more groups are wanted than fit, the kernel gives each a turn (multiplexing) and
tells for how long a group was wanted (enabled) and counted (running). What happened while it did not count is
estimated by what happened while it did.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_WRAP = 1 << 64


class Reading(NamedTuple):
    """What the kernel says of a group: times in nanoseconds, and its events' values in the order they were opened."""

    enabled: int
    running: int
    values: tuple[int, ...]


def reading_bytes(events: int) -> int:
    """Return the size of what the kernel says of a group of so many events."""
    return 8 * (3 + events)


def parse_reading(content: bytes) -> Reading:
    """Return the reading in what read(2) gave; its form is that of PERF_FORMAT_GROUP with both times.

    Raises ValueError where there isn't as much as the first number says: the kernel gives nothing, not an error, for a
    group that it had to give up.
    """
    words = struct.unpack(f"={len(content) // 8}Q", content[: len(content) // 8 * 8])
    if len(words) < 3 or len(words) != 3 + words[0]:
        raise ValueError(f"a group's reading makes no sense: {content[:64].hex()}")
    return Reading(words[1], words[2], words[3:])


class Total(NamedTuple):
    """A group from its opening on: seconds, and each event's count with the estimate for the time it didn't run."""

    enabled_seconds: float
    running_seconds: float
    values: tuple[float, ...]


class Scaled:
    """Adds up the readings of one group on one CPU; no figure of its ever falls.

    Each stretch between two readings is scaled by itself, so a later turn can't take back what was counted for an
    earlier one, as it can where the whole value is scaled by the whole time. A stretch without a turn says nothing: its
    time is added to the next one that has one.
    """

    def __init__(self, events: int) -> None:
        self._last = Reading(0, 0, (0,) * events)
        self._pending = 0  # nanoseconds enabled since the last stretch in which it ran
        self._enabled = 0
        self._running = 0
        self._values = [0.0] * events

    def add(self, reading: Reading) -> None:
        """Take the next reading of the group. One whose times went back has begun anew, whoever reset it."""
        if reading.enabled < self._last.enabled or reading.running < self._last.running:
            self.restart()
        last = self._last
        enabled, running = reading.enabled - last.enabled, reading.running - last.running
        self._last = reading
        self._enabled += enabled
        self._running += running
        self._pending += enabled
        if running == 0:
            return
        # The kernel takes both times at slightly different moments: never scale down.
        factor = max(self._pending / running, 1.0)
        self._pending = 0
        self._values = [
            total + (now - before) % _WRAP * factor
            for total, now, before in zip(self._values, reading.values, last.values)
        ]

    def restart(self) -> None:
        """Expect the next reading to count from 0: the group was opened anew."""
        self._last = Reading(0, 0, (0,) * len(self._values))

    def total(self) -> Total | None:
        """Return what was counted so far; None while the group has never run, of which nothing is known."""
        if self._running == 0:
            return None
        return Total(self._enabled / 1e9, self._running / 1e9, tuple(self._values))
