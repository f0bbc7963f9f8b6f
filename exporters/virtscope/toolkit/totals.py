"""Counters of a host's guests that outlive the guests: what an ended guest had counted stays in the total.

A sum over the guests that exist falls when one ends, and Prometheus takes that for a reset. Whoever reads the guests at
each scrape can keep a total instead, as process-exporter does for groups of processes: it adds what each guest has
counted since the read before. Then a rate of the host is one `rate()`.

A total starts at 0 with the exporter, so a restart is an ordinary counter reset. A guest that is there at the first
read counts from then on; one that appears later counts with all that is on its counters, as it started in between.
Nobody sees what a guest counts between the last read and its end, nor a guest that lived between two reads.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

# For how many reads an absent guest is remembered: a source may miss it once. Ids are not reused that soon.
_REMEMBERED = 10
# Seconds by which a guest's CPU time may fall without a restart: clocks of CPUs differ, and some sources round.
_MAX_FALL = 1.0

Counter = Union[float, None, Mapping[Any, Optional[float]]]
"""A counter of a guest, or one for each of its devices. None: not known now."""

Counters = Sequence[Counter]
"""A guest's CPU seconds, then its other counters, always the same ones in the same order."""


class _Seen(NamedTuple):
    """A guest at its last read."""

    counters: list[Counter]
    now: float
    read: int  # number of that read


class Totals:
    """Totals of a fixed list of counters, the first of which is CPU seconds."""

    def __init__(self, counters: int) -> None:
        self.values = [0.0] * counters
        """The totals so far, in the order of the guests' counters."""
        self._last: dict[Hashable, _Seen] = {}
        self._reads = 0
        self._read_at = 0.0

    def add(self, guests: Mapping[Any, Counters], cpus: int, now: float, ambiguous: Container[Hashable] = ()) -> None:
        """Add what these guests have counted since the read before.

        `guests` by an identity that no other guest has while this one lives, such as a domain id or a pid with its
        start time. `cpus` of the host, and `now` in seconds of a clock that never jumps, bound what a guest can have
        used: one with more on its counters was there before, unseen, or was migrated with them, and counts from now on.
        So do new guests in `ambiguous`, which may be known ones under another identity, and devices that appear in a
        guest that has run.
        """
        self._reads += 1
        for guest, counters in guests.items():
            seen = self._last.get(guest)
            since = self._read_at if seen is None else seen.now
            possible = cpus * (now - since) + 1
            after, before = counters, _unknown(counters)
            if seen is not None:
                before, after = _same_or_restarted(seen.counters, counters, possible)
            elif self._reads > 1 and guest not in ambiguous:
                before = _started(counters, possible)
            # Before its first run, a guest is given its devices.
            new_device = 0.0 if before[0] == 0 else None
            reached = [self._add(place, *pair, new_device) for place, pair in enumerate(zip(before, after))]
            self._last[guest] = _Seen(reached, now, self._reads)
        self._read_at = now
        self._last = {guest: seen for guest, seen in self._last.items() if self._reads - seen.read <= _REMEMBERED}

    def _add(self, place: int, was: Counter, count: Counter, new_device: float | None) -> Counter:
        """Add to one total; return what the guest's counter has reached."""
        if count is None:
            return was
        if isinstance(count, (int, float)):
            if isinstance(was, (int, float)):
                self.values[place] += _increase(was, count)
            return count
        devices, new = ({}, was) if was is None or isinstance(was, (int, float)) else (was, new_device)
        reached: dict[Any, float | None] = {}
        increase = 0.0
        for device, value in count.items():
            before = devices.get(device, new)
            reached[device] = before if value is None else value
            if value is not None and before is not None:
                increase += _increase(before, value)
        self.values[place] += increase
        return reached


def _increase(was: float, count: float) -> float:
    """Return what was counted; a counter that fell has started again from 0."""
    return count - was if count >= was else count


def _same_or_restarted(before: Counters, counters: Counters, possible: float) -> tuple[Counters, Counters]:
    """Return what a known guest's counters started from and have reached; it may have been replaced by another one."""
    was, cpu_seconds = before[0], counters[0]
    if not isinstance(was, (int, float)) or not isinstance(cpu_seconds, (int, float)):
        return before, counters
    if cpu_seconds < was - _MAX_FALL:
        return _started(counters, possible), counters
    if cpu_seconds > was + possible:
        return _unknown(counters), counters
    return before, [max(was, cpu_seconds), *counters[1:]]


def _started(counters: Counters, possible: float) -> Counters:
    """Return what a guest had when it started: nothing, if it can have started since."""
    cpu_seconds = counters[0]
    if isinstance(cpu_seconds, (int, float)) and cpu_seconds <= possible:
        return [0.0] * len(counters)
    return _unknown(counters)


def _unknown(counters: Counters) -> Counters:
    return [None] * len(counters)
