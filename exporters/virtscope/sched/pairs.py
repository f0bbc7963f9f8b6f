"""From the kernel's pairs of cgroups to few counters that only grow: of each container, by the most important others.

A container may wait for every other one: a host of 100 has 10,000 pairs. So `MOST` others are named of each that waits,
those that lately made it wait most. What the rest did is "(rest)": the rates of a container's counters add up to all of
its waiting.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtscope.sched.names import HOST, NONE, REST, Found
from virtscope.sched.program import IDLE, MOST_PAIRS, OTHER, STOLEN, THROTTLED, Pair, Waited

NO_CGROUP = {IDLE: "(idle)", OTHER: REST, THROTTLED: "(cap)", STOLEN: "(stolen)"}

MOST = 8  # others that are named of each that waits, containers and units together
_FLOOR = 1_000_000  # ns: who made it wait for less isn't named
_HALF_LIFE = 300.0  # seconds after which what somebody did counts half
_TWICE = 2  # as much as the least of those that are named has to be done by who is to be named in its place


class Row:
    """What a container waited, by whose tasks ran. Its name is the label `cgroup`."""

    def __init__(self, name: str) -> None:
        self.waits = 0
        # ns by the label `running`. What is no other one's is there from the start: a counter that begins above 0 hides
        # from rate() what it begins with.
        self.ns = dict.fromkeys((name, HOST, *NO_CGROUP.values()), 0)
        self._own = frozenset(self.ns)
        self._named: list[str] = []  # the others among them
        self._lately: dict[str, float] = {}  # ns by others, named or not; what is long ago fades away

    def add(self, grown: Mapping[str, int], running: frozenset[str], fade: float) -> None:
        """Add what it has waited since the last time. `running` are all that there are."""
        for name in [name for name in self._named if name not in running]:
            self._end(name)  # it is gone: to add it to the rest would be a jump there
        self._lately = {name: ns * fade for name, ns in self._lately.items() if ns > 1 and name in running}
        if not grown:
            return
        for name, ns in grown.items():
            if name in running and name not in self._own:
                self._lately[name] = self._lately.get(name, 0.0) + ns
        self._name()
        for name, ns in grown.items():
            self.ns[name if name in self.ns else REST] += ns

    def _name(self) -> None:
        others = [name for name, ns in self._lately.items() if ns >= _FLOOR and name not in self.ns]
        for name in sorted(others, key=self._lately.__getitem__, reverse=True):
            if len(self._named) >= MOST:
                least = min(self._named, key=lambda each: self._lately.get(each, 0.0))
                if self._lately[name] < _TWICE * self._lately.get(least, 0.0):
                    return
                self._end(least)
            self._named.append(name)
            self.ns[name] = 0

    def _end(self, name: str) -> None:
        self._named.remove(name)
        del self.ns[name]


class Pairs:
    """Adds up what the kernel's pairs grow by."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}  # by name
        self._counted: dict[Pair, Waited] = {}
        self._found = NONE
        self._added = 0.0

    def add(self, pairs: dict[Pair, Waited], found: Found, now: float) -> list[Pair]:
        """Add what is new in `pairs`, read before the cgroups were found, at this moment of a clock in seconds.

        Returns what the kernel may forget: pairs of which a cgroup has gone, and idle ones where it has little room.
        Once it has, tell forget().
        """
        grown: dict[str, dict[str, int]] = {}
        unneeded: list[Pair] = []
        crowded = len(pairs) > MOST_PAIRS // 2
        for name in self.rows.keys() - found.shown:
            del self.rows[name]
        for name in sorted(found.shown - self.rows.keys()):
            self.rows[name] = Row(name)
        for pair, waited in pairs.items():
            idle = self._counted.get(pair) == waited
            if not idle:
                self._count(pair, waited, found, grown)
            waiting, running = pair
            gone = waiting not in found.names or not (running in found.names or running in NO_CGROUP)
            if gone or (idle and crowded):
                unneeded.append(pair)
        fade = 0.5 ** ((now - self._added) / _HALF_LIFE)
        for name, row in self.rows.items():
            row.add(grown.get(name, {}), found.running, fade)
        self._found, self._added = found, now
        return unneeded

    def _count(self, pair: Pair, waited: Waited, found: Found, grown: dict[str, dict[str, int]]) -> None:
        """Count what a pair grew by, by names; a cgroup that has just gone still has its own."""
        before = self._counted.get(pair, Waited(0, 0))
        self._counted[pair] = waited
        waiting, running = (found.names.get(each) or self._found.names.get(each) for each in pair)
        row = self.rows.get(waiting.waiting) if waiting else None
        if row is None or waiting is None:
            return  # it has come and gone since the last time: whose it was isn't known
        row.waits += waited.waits - before.waits
        name = NO_CGROUP.get(pair[1]) or (running.running if running else REST)
        of_row = grown.setdefault(waiting.waiting, {})
        of_row[name] = of_row.get(name, 0) + waited.ns - before.ns

    def forget(self, pairs: list[Pair]) -> None:
        """Know that the kernel has forgotten these: if they come again, they begin at 0."""
        for pair in pairs:
            self._counted.pop(pair, None)
