"""Events that read 0 although instructions run: a counter that the kernel or the hypervisor grants, and that stands.

Some virtual PMUs count an event only once on each CPU: a second counter of it has the hardware all the time and stays
at 0, as that of a second `perf stat` does. Nothing computes for long without cycles, branches or misses, so such a 0 is
no measurement.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from virtscope.perf.groups import Group
from virtscope.perf.scaling import Sum

# While 10^10 instructions or cycles ran, some seconds of a busy CPU. Even a loop that fits into every cache is
# interrupted hundreds of times meanwhile.
MIN_WORK = 1e10
# Of what runs in a cgroup, whose time says that it does: a processor at 100 MHz.
_MIN_CYCLES = 0.1  # a nanosecond

_WORK = frozenset({"instructions", "cycles", "cpu-cycles"})
# No others: a store that misses the TLB, a split lock or a fault may really not happen for hours.
_NEVER_RARE = _WORK | {
    *("cache-references", "cache-misses", "branches", "branch-instructions", "branch-misses"),
    *("L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses"),
    *("dTLB-loads", "dTLB-load-misses", "iTLB-load-misses"),
}


Counted = tuple[Hashable, Mapping[int, Sum]]
"""A CPU or a cgroup, and what each group has counted there, by the group's place; there is one group at least."""


class Member(NamedTuple):
    """An event of a group, by the places of both."""

    group: int
    event: int


class _Mark(NamedTuple):
    """Where a count stood, and how much work there had been, when it last moved."""

    value: float
    work: float


class Zeros:
    """Follows the counts of each CPU and of each cgroup: which have stood still while there was work."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._work = _members(groups, _WORK)
        self._never_rare = _members(groups, _NEVER_RARE)
        self._marks: dict[tuple[Hashable, Member], _Mark] = {}

    def find(self, cpus: Iterable[Counted], cgroups: Iterable[Counted]) -> set[Member]:
        """Return the members that stand still on one of these CPUs, or in one of these cgroups, at least.

        One that moves again is no longer among them.
        """
        marks: dict[tuple[Hashable, Member], _Mark] = {}
        found: set[Member] = set()
        for target, sums in cpus:
            found |= self._standing(target, sums, self._counted_work(sums), marks)
        for target, sums in cgroups:
            ran = max(total.running for total in sums.values()) * _MIN_CYCLES
            found |= self._standing(target, sums, max(self._counted_work(sums), ran), marks)
        self._marks = marks
        return found

    def _counted_work(self, sums: Mapping[int, Sum]) -> float:
        """Instructions or cycles so far, by the group that has counted most: the same ran for all."""
        counted = (sums[group].values[event] for group, event in self._work if group in sums)
        return max((value for value in counted if value is not None), default=0.0)

    def _standing(
        self, target: Hashable, sums: Mapping[int, Sum], work: float, marks: dict[tuple[Hashable, Member], _Mark]
    ) -> set[Member]:
        found = set()
        for member in self._never_rare:
            total = sums.get(member.group)
            value = total.values[member.event] if total else None
            if total is None or value is None:
                continue
            mark = self._marks.get((target, member))
            if mark is None or mark.value != value:
                mark = _Mark(value, work)
            marks[target, member] = mark
            # Of the work, it could count as much as there was in its turns; it has had one, as there is a value.
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
