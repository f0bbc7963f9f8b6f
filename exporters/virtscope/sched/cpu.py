"""Run-queue wait by pairs of cgroups: the BPF program cpu.bpf.c, attached to sched_switch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.sched.libbpf import Object
from virtscope.sched.names import REST
from virtscope.sched.pairs import Pair, Waited
from virtscope.sched.reasons import Machine

OBJECT = Path(__file__).with_name("cpu.bpf.o")

# Pseudo ids from cpu.bpf.c.
IDLE, OTHER, THROTTLED, STOLEN = 0, 2**64 - 1, 2**64 - 2, 2**64 - 3

NOBODY = {IDLE: "(idle)", OTHER: REST, THROTTLED: "(cap)", STOLEN: "(stolen)"}

MAX_PAIRS = 8192  # size of the kernel's map


class Totals(NamedTuple):
    """The first fields of struct cpu, summed over CPUs, since the program was loaded."""

    switches: int
    waited: int  # attributed ns
    run_delay: int  # ns of wait by the kernel's own count; 0 if it has none
    lost: int  # ns not attributed because the map of pairs was full


class Waits:
    """The loaded program, until close()."""

    def __init__(self, version: int, machine: Machine, open_library: Callable[..., Any] = ctypes.CDLL) -> None:
        """Load and attach it, for cgroups of this version. Raises like Object."""
        self.loaded = Object(OBJECT, [[version]], [b"on_switch"], machine, open_library)
        self._pairs, self._rests, self._cpus = map(self.loaded.table, (b"pairs", b"rests", b"cpus"))
        self.close = self.loaded.close

    def pairs(self) -> dict[Pair, Waited]:
        """Return the totals of each pair, OTHER including pairs that didn't fit; raises SourceError."""
        found = {(waiting, running): Waited(ns, waits) for (waiting, running), (ns, waits) in self._pairs.entries()}
        for (waiting,), (ns, waits) in self._rests.entries():
            known = found.get((waiting, OTHER), Waited(0, 0))
            found[waiting, OTHER] = Waited(known.ns + ns, known.waits + waits)
        return found

    def totals(self) -> Totals:
        """Return the totals of all CPUs; raises SourceError."""
        return Totals(*self._cpus.element(0)[: len(Totals._fields)])

    def forget(self, pairs: Iterable[Pair]) -> None:
        """Delete these pairs from the map; raises SourceError."""
        for waiting, running in pairs:
            self._pairs.delete((waiting, running))
            if running == OTHER:
                self._rests.delete((waiting,))
