"""Counters of a host's guests that outlive the guests: what an ended guest had counted stays in the total.

A sum over the guests that exist falls when one ends, and Prometheus takes that for a reset. Whoever reads the guests at
each scrape can keep a total instead, as process-exporter does for groups of processes: it adds what each guest has
counted since the read before. Then a rate of the host is one `rate()`.

A total starts at 0 with the exporter, so that a restart is an ordinary counter reset. A guest that is there at the first
read counts from then on; one that appears later counts with all that is on its counters, as it started in between.
What a guest counts between the last read and its end is seen by no one, nor is a guest that lived between two reads.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Optional

# For how many reads an absent guest is remembered: a source may miss it once. Ids are not reused that soon.
_REMEMBERED = 10

Counters = Sequence[Optional[float]]
"""A guest's CPU seconds, then its other counters, always the same ones in the same order; None: not known now."""


class Totals:
    """Totals of a fixed list of counters, the first of which is CPU seconds."""

    def __init__(self, counters: int) -> None:
        self.values = [0.0] * counters
        """The totals so far, in the order of the guests' counters."""
        self._last: dict[Hashable, list[float | None]] | None = None  # None: before the first read
        self._absent: dict[Hashable, int] = {}  # of guests in `_last`, for how many reads
        self._read_at = 0.0

    def add(self, guests: Mapping[Hashable, Counters], cpus: int, now: float) -> None:
        """Add what these guests have counted since the read before.

        `guests` by an identity that no other guest has while this one lives, such as a domain id or a pid with its start
        time. `cpus` of the host, and `now` in seconds of a clock that never jumps, bound what a new guest can have used:
        one with more on its counters was there before, unseen, or was migrated with them, and counts from now on.
        """
        last = self._last
        if last is None:
            self._last = {guest: list(counters) for guest, counters in guests.items()}
        else:
            possible = cpus * (now - self._read_at) + 1
            for guest, counters in guests.items():
                before = last.get(guest)
                if before is None:
                    before = self._before(counters, possible)
                last[guest] = [
                    self._add(place, was, count, possible)
                    for place, (was, count) in enumerate(zip(before, counters))
                ]
            self._forget(guests)
        self._read_at = now

    def _before(self, counters: Counters, possible: float) -> list[float | None]:
        """Return what a guest that wasn't seen before had when it started: nothing, if it can have started since."""
        cpu_seconds = counters[0]
        if cpu_seconds is None or cpu_seconds > possible:
            return [None] * len(counters)
        return [0.0] * len(counters)

    def _add(self, place: int, was: float | None, count: float | None, possible: float) -> float | None:
        """Add to one total; return what the guest's counter has reached."""
        if count is None:
            return was
        if was is not None:
            # A counter that fell has started again from 0.
            increase = count - was if count >= was else count
            if place or increase <= possible:
                self.values[place] += increase
        return count

    def _forget(self, present: Mapping[Hashable, Counters]) -> None:
        assert self._last is not None
        self._absent = {guest: self._absent.get(guest, 0) + 1 for guest in self._last.keys() - present.keys()}
        for guest, reads in self._absent.items():
            if reads > _REMEMBERED:
                del self._last[guest]
        self._absent = {guest: reads for guest, reads in self._absent.items() if reads <= _REMEMBERED}
