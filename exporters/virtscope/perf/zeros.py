"""Finds stuck counters: events that read 0 although instructions run.

Some virtual PMUs count an event only once on each CPU: a second counter of it, such as that of a second `perf stat`, is
always running but stays at 0. No program runs for long without cycles, branches or misses, so such a 0 is no
measurement.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from virtscope.perf.groups import Group
from virtscope.perf.scaling import Sum

# In instructions or cycles: some seconds of a busy CPU. Even a loop in the cache is interrupted hundreds of times
# meanwhile.
MIN_WORK = 1e10
# Work per time in a cgroup that runs: at least that of a processor at 100 MHz.
_MIN_CYCLES = 0.1  # a nanosecond

_WORK = frozenset({"instructions", "cycles", "cpu-cycles"})
# Only these: TLB misses of stores, split locks or faults may really not happen for hours.
_NEVER_RARE = _WORK | {
    *("cache-references", "cache-misses", "branches", "branch-instructions", "branch-misses"),
    *("L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses"),
    *("dTLB-loads", "dTLB-load-misses", "iTLB-load-misses"),
}


Counted = tuple[Hashable, Mapping[int, Sum]]
"""A CPU or a cgroup, and the counts of each group there, by the group's index; at least one group."""


class Member(NamedTuple):
    """An event of a group, by the indices of both."""

    group: int
    event: int


class _Mark(NamedTuple):
    """A count and the amount of work when it last changed."""

    value: float
    work: float


class Zeros:
    """Finds counts of CPUs and cgroups that don't change during work."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._work = _members(groups, _WORK)
        self._never_rare = _members(groups, _NEVER_RARE)
        self._marks: dict[tuple[Hashable, Member], _Mark] = {}

    def find(self, cpus: Iterable[Counted], cgroups: Iterable[Counted]) -> set[Member]:
        """Return the members that are stuck on at least one of these CPUs or cgroups.

        Members that count again are removed.
        """
        before, self._marks = self._marks, {}
        found: set[Member] = set()
        for target, sums in cpus:
            found |= self._standing(target, sums, self._counted_work(sums), before)
        for target, sums in cgroups:
            ran = max(total.running for total in sums.values()) * _MIN_CYCLES
            found |= self._standing(target, sums, max(self._counted_work(sums), ran), before)
        return found

    def _counted_work(self, sums: Mapping[int, Sum]) -> float:
        """Instructions or cycles so far, of the group with the most: all groups saw the same work."""
        counted = (sums[group].values[event] for group, event in self._work if group in sums)
        return max((value for value in counted if value is not None), default=0.0)

    def _standing(
        self, target: Hashable, sums: Mapping[int, Sum], work: float, before: Mapping[tuple[Hashable, Member], _Mark]
    ) -> set[Member]:
        found = set()
        for member in self._never_rare:
            total = sums.get(member.group)
            value = total.values[member.event] if total else None
            if total is None or value is None:
                continue
            mark = before.get((target, member))
            if mark is None or mark.value != value:
                mark = _Mark(value, work)
            self._marks[target, member] = mark
            # It could count only the work during its turns; it had at least one, because there is a value.
            if (work - mark.work) * total.running >= MIN_WORK * total.enabled:
                found.add(member)
        return found


def _members(groups: Sequence[Group], names: frozenset[str]) -> list[Member]:
    return [
        Member(place, index)
        for place, group in enumerate(groups)
        for index, event in enumerate(group.events)
        if event.name in names
    ]
