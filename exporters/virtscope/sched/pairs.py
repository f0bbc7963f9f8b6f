"""Reduces the kernel's pairs of cgroups to few monotonic counters: the wait of each container, by its main causes.

100 containers make 10,000 pairs. So each container has series for the `MAX_NAMED` others that recently caused most of
its wait. All others add up to "(rest)", so the sum of a container's series is its total wait.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from virtscope.sched.names import HOST, NONE, REST, Found

Pair = tuple[int, int]
"""Ids of the cgroup that waited and of the one that had the resource meanwhile, which may be a pseudo id."""


class Waited(NamedTuple):
    """A pair's totals since the program was loaded, or since the pair was deleted."""

    ns: int
    waits: int  # each wait counts in one pair only


MAX_NAMED = 8  # named causes per container: containers and units together
_FLOOR = 1_000_000  # ns: minimum wait caused by a named one
_HALF_LIFE = 300.0  # half-life of a cause's weight, in seconds
_TWICE = 2  # times the smallest named cause's weight, to replace it


class Row:
    """A container's wait, by what had the resource meanwhile. Its name is the label `cgroup`."""

    def __init__(self, name: str, nobody: Iterable[str], floor: int = _FLOOR) -> None:
        """Another cgroup needs at least the `floor` to be named."""
        self._floor = floor
        self.waits = 0
        # ns by what had the resource. Counters that aren't another cgroup's exist from the start: rate() misses a
        # counter's first value.
        self.ns = dict.fromkeys((name, HOST, *nobody), 0)
        self._own = frozenset(self.ns)
        self._named: list[str] = []  # those of other cgroups
        self._lately: dict[str, float] = {}  # decaying ns by other cgroups, named or not

    def add(self, grown: Mapping[str, int], running: frozenset[str], fade: float) -> None:
        """Add the wait since the last call. `running` holds all existing cgroups."""
        for name in [name for name in self._named if name not in running]:
            self._end(name)  # it is gone; adding it to the rest would make that jump
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
        others = [name for name, ns in self._lately.items() if ns >= self._floor and name not in self.ns]
        for name in sorted(others, key=self._lately.__getitem__, reverse=True):
            if len(self._named) >= MAX_NAMED:
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
    """Adds up the growth of the kernel's pairs."""

    def __init__(self, nobody: Mapping[int, str], most: int, floor: int = _FLOOR) -> None:
        """`nobody` names the pseudo ids; the kernel's map has room for `most` pairs; `floor` is that of each Row."""
        self.rows: dict[str, Row] = {}  # by name
        self.grown: dict[str, dict[str, int]] = {}  # the last call's growth, by the names of both
        self._nobody, self._most, self._floor = nobody, most, floor
        self._counted: dict[Pair, Waited] = {}
        self._found = NONE
        self._added = 0.0

    def add(self, pairs: dict[Pair, Waited], found: Found, now: float) -> list[Pair]:
        """Add the growth of `pairs`, which were read before the cgroups; `now` is in seconds.

        Returns pairs to delete from the kernel's map: those with a deleted cgroup, and idle ones if the map is crowded.
        Call forget() afterwards.
        """
        grown: dict[str, dict[str, int]] = {}
        unneeded: list[Pair] = []
        crowded = len(pairs) > self._most // 2
        for name in self.rows.keys() - found.shown:
            del self.rows[name]
        for name in sorted(found.shown - self.rows.keys()):
            self.rows[name] = Row(name, self._nobody.values(), self._floor)
        for pair, waited in pairs.items():
            idle = self._counted.get(pair) == waited
            if not idle:
                self._count(pair, waited, found, grown)
            waiting, running = pair
            gone = waiting not in found.names or not (running in found.names or running in self._nobody)
            if gone or (idle and crowded):
                unneeded.append(pair)
        fade = 0.5 ** ((now - self._added) / _HALF_LIFE)
        for name, row in self.rows.items():
            row.add(grown.get(name, {}), found.running, fade)
        self.grown = grown
        self._found, self._added = found, now
        return unneeded

    def _count(self, pair: Pair, waited: Waited, found: Found, grown: dict[str, dict[str, int]]) -> None:
        """Add a pair's growth by names; a cgroup that has just gone keeps its name."""
        before = self._counted.get(pair, Waited(0, 0))
        self._counted[pair] = waited
        waiting, running = (found.names.get(each) or self._found.names.get(each) for each in pair)
        row = self.rows.get(waiting.waiting) if waiting else None
        if row is None or waiting is None:
            return  # created and deleted since the last call: unknown
        row.waits += waited.waits - before.waits
        name = self._nobody.get(pair[1]) or (running.running if running else REST)
        of_row = grown.setdefault(waiting.waiting, {})
        of_row[name] = of_row.get(name, 0) + waited.ns - before.ns

    def forget(self, pairs: list[Pair]) -> None:
        """Forget pairs deleted from the kernel's map: they restart at 0."""
        for pair in pairs:
            self._counted.pop(pair, None)
