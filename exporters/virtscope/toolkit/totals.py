"""Counters of a host's guests that outlive the guests: what an ended guest had counted stays in the total.

A sum over the guests that exist falls when one ends, and Prometheus takes that for a reset. Whoever reads the guests at
each scrape can keep a total instead, as process-exporter does for groups of processes: it adds what each guest has
counted since the read before. Then a rate of the host is one `rate()`.

A total starts at 0 with the exporter, so a restart is an ordinary counter reset. A guest that is there at the first
read counts from then on; one that appears later counts with all that is on its counters, as it started in between.
What a guest counts between its last read and its end can only be estimated. A guest that lives between two reads is in
no total.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Optional

# Seconds by which a guest's CPU time may fall without a restart: clocks of CPUs differ, and some sources round. By as
# much may its age or its CPU time exceed the time between two reads.
_MAX_APART = 1.0
_MIN_RATE_SECONDS = 1.0  # over which a rate is taken: the kernel's own steps would spoil shorter ones

Counter = tuple[str, Optional[str]]
"""A counter's name, and the guest's device that has it, if any."""

Counters = Mapping[Counter, Optional[float]]
"""A guest's counters, not changed later; None: not known now."""

CPU: Counter = ("cpu", None)
"""CPU seconds, by which one guest is distinguished from another."""


class _Guest:
    """A guest as of its last read."""

    age: float  # seconds; inf: unknown
    read_at: float
    read: int  # number of that read

    def __init__(self, counters: Counters, now: float, ran: float | None) -> None:
        """`ran`: seconds for which it had run, all within the exporter's time; None: it may have run before."""
        self.started = ran is not None
        self.reached = dict.fromkeys(counters, None if ran is None else 0.0)
        # Two reads between which its last rate is taken.
        self.earlier: tuple[float, Counters] = (now - max(ran or 0.0, _MIN_RATE_SECONDS), dict(self.reached))
        self.later = (now, counters)
        self.ahead: defaultdict[str, float] = defaultdict(float)  # estimates that are in the totals

    def continues(self, counters: Counters, age: float, possible: float) -> bool:
        """Whether these are this guest's counters, and not another's under its identity."""
        was, cpu_seconds = self.reached.get(CPU), counters.get(CPU)
        if was is not None and cpu_seconds is not None and not was - _MAX_APART <= cpu_seconds <= was + possible:
            return False
        return age >= self.age

    def attach(self, counters: Counters) -> None:
        """Take over devices that appear.

        They count from now on, as they were perhaps only missing. They count from 0 before the guest's first run, and
        if devices of a guest that has started since were unknown until now.
        """
        known = {name for name, device in self.reached if device is not None}
        new = counters.keys() - self.reached.keys()
        replaced = {name for name, device in new if device is not None}
        from_0 = self.reached.get(CPU) == 0
        self.reached = {each: was for each, was in self.reached.items() if each in counters or each[0] not in replaced}
        for counter in new:
            self.reached[counter] = 0.0 if from_0 or (self.started and counter[0] not in known) else None


class Totals:
    """Totals by the counters' names."""

    def __init__(self, remembered: int = 10) -> None:
        """`remembered`: number of reads that a guest may miss; ids aren't reused that soon."""
        self.values: dict[str, float] = {}
        """The totals so far, of counters that were known of any guest."""
        self.unknown: set[str] = set()
        """Names of counters that some guest had, but not known."""
        self._ended: defaultdict[str, float] = defaultdict(float)
        self._highest: defaultdict[str, float] = defaultdict(float)
        self._guests: dict[Hashable, _Guest] = {}
        self._remembered = remembered
        self._reads = 0
        self._read_at = 0.0
        self._now = 0.0  # the sum of the times between reads

    def with_ends(self, name: str) -> float:
        """Return a total with an estimate of what guests counted between their last read and their end.

        That is half of the time until they were missed, at their last rate.
        """
        # Rounding could let the sum fall.
        self._highest[name] = max(self._highest[name], self.values.get(name, 0.0) + self._ended[name])
        return self._highest[name]

    def add(
        self,
        guests: Mapping[Any, Counters],
        now: float,
        *,
        cpus: float = 0,
        ages: Mapping[Any, float] = MappingProxyType({}),
        ambiguous: Container[Hashable] = (),
    ) -> None:
        """Add what these guests have counted since the read before; `now` in seconds of a clock that never jumps.

        `guests` by an identity that no other guest has while this one lives, such as a domain id or a pid with its
        start time. A guest that appears has started since if its age in seconds allows that, or, without `ages`, if the
        host's `cpus` can have computed what is on its counters. Others were there before, unseen, or were migrated with
        their counters, and count from now on. So do new guests in `ambiguous`, which may be known ones under another
        identity.
        """
        self._reads += 1
        elapsed = now - self._read_at
        if ages:  # a recording is read at another pace than it was made
            before = {key: guest.age for key, guest in self._guests.items() if guest.read == self._reads - 1}
            grown = (ages[key] - age for key, age in before.items() if key in ages and age <= ages[key])
            elapsed = max(grown, default=elapsed)
        self._read_at = now
        self._now += elapsed
        for key, counters in guests.items():
            guest, age = self._guests.get(key), ages.get(key, math.inf)
            since = self._now - elapsed if guest is None else guest.read_at
            possible = math.inf if ages else cpus * (self._now - since) + _MAX_APART
            if guest is None or not guest.continues(counters, age, possible):
                ran = None
                if self._reads > 1 and key not in ambiguous:
                    ran = _ran(counters, age, self._now - since, possible)
                if guest is not None:
                    self._end(guest, elapsed)
                guest = self._guests[key] = _Guest(counters, self._now, ran)
            self._count(guest, counters)
            guest.age, guest.read_at, guest.read = age, self._now, self._reads
            if self._now - guest.later[0] >= _MIN_RATE_SECONDS:
                guest.earlier, guest.later = guest.later, (self._now, counters)
        for key in self._guests.keys() - guests.keys():
            self._end(self._guests[key], elapsed)
            if self._reads - self._guests[key].read > self._remembered:
                del self._guests[key]

    def _count(self, guest: _Guest, counters: Counters) -> None:
        """Add what a guest has counted; take back what was estimated of it, as it had only missed reads."""
        if not counters.keys() <= guest.reached.keys():
            guest.attach(counters)
        values, reached = self.values, guest.reached
        estimated = {name: self.with_ends(name) for name in guest.ahead}
        for counter, value in counters.items():
            name, device = counter
            if value is None:
                self.unknown.add(name)
                continue
            was = reached[counter]
            if was is None:
                was = value
            elif value < was:
                if device is None:
                    continue  # a clock that is behind; the guest's own counters don't restart while it lives
                was = 0
            values[name] = values.get(name, 0.0) + (value - was)
            reached[counter] = value
        for name, before in estimated.items():
            self._ended[name] = max(self._ended[name] - guest.ahead.pop(name), before - values[name])

    def _end(self, guest: _Guest, elapsed: float) -> None:
        """Estimate what a guest of the read before has counted since."""
        if guest.read < self._reads - 1:
            return
        (began, before), (ended, after) = guest.earlier, guest.later
        for counter, value in after.items():
            was = before.get(counter)
            if value is not None and was is not None and value > was:
                estimate = (value - was) / (ended - began) * elapsed / 2
                guest.ahead[counter[0]] += estimate
                self._ended[counter[0]] += estimate


def _ran(counters: Counters, age: float, elapsed: float, possible: float) -> float | None:
    """Return how long a guest that appeared has run, on average half of the `elapsed` time; None: perhaps longer."""
    if age < math.inf:
        return age if age <= elapsed + _MAX_APART else None
    cpu_seconds = counters.get(CPU)
    return None if cpu_seconds is None or cpu_seconds > possible else elapsed / 2
