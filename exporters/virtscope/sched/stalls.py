"""Estimates who caused a cgroup's stalls for memory: who evicted its pages in the last minute.

The kernel counts how long a cgroup's tasks stall, and the programs count who evicts whose pages. Nothing links them: a
task stalls when it refaults a page that was evicted earlier, or reclaims memory. So a stall is divided by the evictions
of the last minute. A cgroup is named only if it evicted at least half of the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from virtscope.sched.memory import BY_KSWAPD, MIN_PAGES
from virtscope.sched.names import REST, Found
from virtscope.sched.pairs import Row

CAP = "(cap)"
MIN_SHARE = 0.5  # of a cgroup's evicted pages, to name who evicted them

_HALF_LIFE = 60.0  # half-life of an eviction's weight, in seconds: refaults come later
_LEAST = 1.0  # pages: less weight is forgotten

Pages = Mapping[str, Mapping[str, float]]
"""Pages by victim and evictor."""


class Interval(NamedTuple):
    """What happened since the last call, by names of cgroups."""

    evicted: Pages
    stalled: Mapping[str, int]  # ns
    grown: Mapping[str, float]  # pages of each cgroup's usage, below 0 if it shrank
    full: frozenset[str]  # victims at their own limit


class Stalls:
    """The stalls of each container, by who evicted its pages. `rows` have ns."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._lately: dict[str, dict[str, float]] = {}  # decaying pages by victim and evictor
        self._added = 0.0

    def add(self, interval: Interval, found: Found, now: float) -> None:
        """Add the stalls since the last call; `now` is in seconds."""
        for name in self.rows.keys() - found.shown:
            del self.rows[name]
        for name in sorted(found.shown - self.rows.keys()):
            self.rows[name] = Row(name, (CAP, REST))
        fade = 0.5 ** ((now - self._added) / _HALF_LIFE)
        evicted = without_kswapd(interval.evicted, interval.grown)
        lately = {}
        for name, row in self.rows.items():
            weights = faded(self._lately.get(name, {}), fade)
            for by, pages in evicted.get(name, {}).items():
                own = CAP if by == name and name in interval.full else by
                weights[own] = weights.get(own, 0.0) + pages
            if weights:
                lately[name] = weights
            row.add(divided(interval.stalled.get(name, 0), shares(weights, name)), found.running, fade)
        self._lately, self._added = lately, now


def faded(weights: Mapping[str, float], fade: float) -> dict[str, float]:
    """Return the weights times this factor; drops those of less than a page."""
    return {name: weight * fade for name, weight in weights.items() if weight * fade >= _LEAST}


def without_kswapd(evicted: Pages, grown: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the evicted pages, kswapd's divided among the cgroups that allocated meanwhile.

    A cgroup has allocated its growth plus its own evicted pages, at least. A victim that only reads its pages again
    isn't the cause, so its own evicted pages explain what the others' allocations and its growth leave. The remainder,
    such as what kswapd evicted for the kernel, is the rest.
    """
    total = sum(pages.get(BY_KSWAPD, 0) for pages in evicted.values())
    replaced = {name: sum(pages.values()) for name, pages in evicted.items()}
    allocated = {name: max(0.0, pages + replaced.get(name, 0)) for name, pages in grown.items()}
    found = {}
    for victim, pages in evicted.items():
        of_victim = {by: float(count) for by, count in pages.items() if by != BY_KSWAPD}
        kswapd = pages.get(BY_KSWAPD, 0)
        if kswapd:
            causes = allocated | {victim: max(0.0, grown.get(victim, 0.0))}
            whole = max(total, sum(causes.values()))
            own = min(whole - sum(causes.values()), allocated.get(victim, 0.0) - causes[victim])
            causes[victim] += max(0.0, own)
            causes[REST] = whole - sum(causes.values())
            for name, part in causes.items():
                if part > 0:
                    of_victim[name] = of_victim.get(name, 0.0) + kswapd * part / whole
        found[victim] = of_victim
    return found


def shares(weights: Mapping[str, float], victim: str) -> dict[str, float]:
    """Return each evictor's share of a victim's evicted pages; what isn't safe to name is in the rest.

    With less than MIN_PAGES nothing is known: the stall has other reasons, such as compaction.
    """
    total = sum(weights.values())
    if total < MIN_PAGES:
        return {REST: 1.0}
    found = {REST: 0.0}
    for name, weight in weights.items():
        safe = name in (victim, CAP) or (weight >= MIN_PAGES and weight >= MIN_SHARE * total)
        name_or_rest = name if safe else REST
        found[name_or_rest] = found.get(name_or_rest, 0.0) + weight / total
    return found


def divided(ns: int, parts: Mapping[str, float]) -> dict[str, int]:
    """Return ns by these shares, whole numbers that add up to it; nothing if it is 0."""
    if not ns:
        return {}
    found = {name: int(ns * part) for name, part in parts.items()}
    found[REST] = found.get(REST, 0) + ns - sum(found.values())
    return found
