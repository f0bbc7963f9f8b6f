"""Totals of a host's containers that keep what ended containers used: CPU time, and waits for a CPU.

/proc/vz/vestat lists running containers only, under ids that are used again. A container that is new with a short
uptime has started since the read before, and all that is on its counters counts. One that is new with a long uptime was
migrated here, or was not read before; it counts from then on. What an ended container used after its last read is
estimated: its last rate for half the time until it was missed. Reading often keeps that small: see READ_SECONDS.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

READ_SECONDS = 1.0
"""Time between two reads between scrapes. A container that lives shorter may be in no total."""

MAX_LATE_SECONDS = 1.0  # that a container may seem to be up longer than since the read before
MIN_RATE_SECONDS = 1.0  # over which a rate is taken: the kernel's own steps would spoil shorter ones


class Used(NamedTuple):
    """A running container's counters, in seconds; None: not known."""

    ctid: str
    uptime: float
    cpu: float | None
    waited: float | None


@dataclass
class _Life:
    """A container between its start and its end, as of its last read."""

    uptime: float
    counters: list[float]
    marked_at: float  # uptime at which `marks` were the counters
    marks: list[float]
    rates: list[float] = field(default_factory=lambda: [0.0, 0.0])
    ahead: list[float] = field(default_factory=lambda: [0.0, 0.0])  # estimated and already in the totals
    missed: bool = False  # not in the last read


class ContainerTotals:
    """Seconds of CPU and of waiting of all containers, since the first read."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self.wait_seconds = 0.0
        self.waits_counted = False  # by this kernel: every container waits within seconds
        self._lives: dict[str, _Life] | None = None  # by ctid; None: before the first read
        self._read_at = 0.0

    def add(self, containers: Iterable[Used], now: float) -> None:
        """Add what the running containers, and those that ended, used since the read before; `now` in seconds."""
        lives = self._lives
        running = {each.ctid: each for each in containers if each.cpu is not None}
        self.waits_counted = self.waits_counted or any(each.waited for each in running.values())
        before = {} if lives is None else lives
        same = {ctid for ctid, each in running.items() if _continues(before.get(ctid), each)}
        # By the containers' uptime, as a recording is read at another pace than it was made.
        elapsed = max(
            (running[ctid].uptime - before[ctid].uptime for ctid in same if not before[ctid].missed),
            default=now - self._read_at,
        )
        self._read_at = now
        for ctid in before.keys() - same:
            if not before[ctid].missed:
                self._add(_end(before[ctid], elapsed))
        self._lives = {ctid: life for ctid, life in before.items() if ctid not in running and not life.missed}
        for life in self._lives.values():
            life.missed = True
        for ctid, each in running.items():
            if ctid in same:
                self._add(_advance(before[ctid], each))
                self._lives[ctid] = before[ctid]
            else:
                counters = _counters(each)
                self._lives[ctid] = life = _Life(each.uptime, counters, each.uptime, counters)
                if lives is not None and each.uptime <= elapsed + MAX_LATE_SECONDS:
                    self._add(counters)
                    life.rates = [counter / max(each.uptime, MIN_RATE_SECONDS) for counter in counters]

    def _add(self, increases: Iterable[float]) -> None:
        cpu, waited = increases
        self.cpu_seconds += cpu
        self.wait_seconds += waited


def _counters(each: Used) -> list[float]:
    return [each.cpu or 0.0, each.waited or 0.0]


def _continues(life: _Life | None, each: Used) -> bool:
    """Whether this is the container that had the id before; one that started again begins at 0."""
    return life is not None and each.uptime >= life.uptime and _counters(each)[0] >= life.counters[0]


def _advance(life: _Life, each: Used) -> list[float]:
    """Take over the counters; return what they have added to the totals."""
    counters = [max(counter, was) for counter, was in zip(_counters(each), life.counters)]
    added = [max(counter - was - ahead, 0.0) for counter, was, ahead in zip(counters, life.counters, life.ahead)]
    life.uptime, life.counters, life.ahead, life.missed = each.uptime, counters, [0.0, 0.0], False
    marked = each.uptime - life.marked_at
    if marked >= MIN_RATE_SECONDS:
        life.rates = [(counter - mark) / marked for counter, mark in zip(counters, life.marks)]
        life.marked_at, life.marks = each.uptime, counters
    return added


def _end(life: _Life, elapsed: float) -> list[float]:
    """Return the estimate of what it used after its last read."""
    life.ahead = [rate * elapsed / 2 for rate in life.rates]
    return life.ahead
