"""Evicted pages by pairs of cgroups, and the time of reclaim: the BPF programs of memory.bpf.c, in the page reclaim."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.sched.libbpf import Object
from virtscope.sched.names import REST
from virtscope.sched.pairs import Pair, Row, Waited
from virtscope.sched.reasons import Machine

OBJECT = Path(__file__).with_name("memory.bpf.o")

OTHER, KSWAPD = 2**64 - 1, 2**64 - 2  # from memory.bpf.c
# Those of this reader: what a task reclaimed for.
LIMIT, MACHINE = 2**64 - 3, 2**64 - 4

BY_KSWAPD = "(kswapd)"
NOBODY = {KSWAPD: BY_KSWAPD, OTHER: REST}
RECLAIM = {LIMIT: "limit", MACHINE: "machine"}

MAX_PAIRS = 8192  # size of the kernel's map
MAX_RECLAIMS = 2 * 4096  # a LIMIT and a MACHINE for each entry of the kernel's map
MIN_PAGES = 512  # evicted by another cgroup before it is named

_PROGRAMS = (
    b"on_delete",
    b"on_write_folio",
    b"on_writepage",
    b"on_limit_begin",
    b"on_limit_end",
    b"on_machine_begin",
    b"on_machine_end",
)
# Kernels have one of these hooks of swap. Those that have neither count files' pages only.
_OF_SWAP = (b"on_write_folio", b"on_writepage")
_WITHOUT = (_OF_SWAP[1:], _OF_SWAP[:1], _OF_SWAP)


class Totals(NamedTuple):
    """The first fields of struct cpu, summed over CPUs, since the programs were loaded."""

    pages: int  # evicted
    lost: int  # of these, pages that no pair has because the map was full


class Rows(NamedTuple):
    """What is exposed of each container, by its name."""

    stalls: Mapping[str, Row]  # estimated ns, by who evicted its pages
    evicted: Mapping[str, Row]  # pages, by who evicted them
    reclaimed: Mapping[str, Row]  # ns, by RECLAIM's names


class Evictions:
    """The loaded programs, until close()."""

    def __init__(self, version: int, machine: Machine, open_library: Callable[..., Any] = ctypes.CDLL) -> None:
        """Load and attach them, for cgroups of this version. Raises like Object."""
        self.loaded = Object(OBJECT, [[version]], _PROGRAMS, machine, open_library, without=_WITHOUT)
        self._pairs, self._reclaims, self._cpus = map(self.loaded.table, (b"pairs", b"reclaims", b"cpus"))
        self.close = self.loaded.close

    @property
    def sees_swap(self) -> bool:
        """Whether pages written to swap are counted."""
        return self.loaded.without != _OF_SWAP

    def pairs(self) -> dict[Pair, Waited]:
        """Return the evicted pages of each victim and evictor; raises SourceError."""
        return {(victim, evictor): Waited(pages, 0) for (victim, evictor), (pages,) in self._pairs.entries()}

    def reclaims(self) -> dict[Pair, Waited]:
        """Return the time that each cgroup's tasks reclaimed, for LIMIT and for MACHINE; raises SourceError."""
        found = {}
        for (cgroup,), (limit, limits, machine, machines) in self._reclaims.entries():
            found[cgroup, LIMIT] = Waited(limit, limits)
            found[cgroup, MACHINE] = Waited(machine, machines)
        return found

    def totals(self) -> Totals:
        """Return the totals; raises SourceError."""
        return Totals(*self._cpus.element(0)[: len(Totals._fields)])

    def forget(self, pairs: Iterable[Pair]) -> None:
        """Delete these pairs of victim and evictor; raises SourceError."""
        for pair in pairs:
            self._pairs.delete(pair)

    def forget_reclaims(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Delete the reclaim of cgroups of which both pairs are given, and return these; raises SourceError."""
        given = set(pairs)
        whole = [cgroup for cgroup, full in given if full == LIMIT and (cgroup, MACHINE) in given]
        for cgroup in whole:
            self._reclaims.delete((cgroup,))
        return [(cgroup, full) for cgroup in whole for full in RECLAIM]
