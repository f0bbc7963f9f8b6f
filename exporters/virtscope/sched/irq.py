"""CPU time that interrupts take, by pairs of cgroups: the BPF programs of irq.bpf.c, attached to interrupts' events."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.sched.libbpf import Object
from virtscope.sched.names import HOST, REST, Found, Name
from virtscope.sched.pairs import Pair, Waited
from virtscope.sched.reasons import Machine

OBJECT = Path(__file__).with_name("irq.bpf.o")

# Pseudo ids from irq.bpf.c, and the flag of ids that are of cgroup v1's controller blkio.
OF_HOST, OTHER, BLKIO = 0, 2**64 - 1, 2**62

NOBODY = {OF_HOST: HOST, OTHER: REST}

MAX_PAIRS = 8192  # size of the kernel's map

# Kinds of interrupts, as irq.bpf.c counts them: softirqs by their numbers (include/linux/interrupt.h), then hard ones.
_KINDS = ("other", "timer", "net_tx", "net_rx", "block", "other", "other", "sched", "timer", "rcu", "hard")

# An exit without entry is ignored; an entry without exit would last until the next exit. So exits are attached first.
_PROGRAMS = (
    b"on_irq_exit",
    b"on_softirq_exit",
    b"on_irq_entry",
    b"on_softirq_entry",
    b"on_send",
    b"on_receive",
    b"on_complete",
)


class Totals(NamedTuple):
    """Time in interrupts of all CPUs, since the programs were loaded."""

    kinds: dict[str, int]  # ns by kind
    charged: int  # ns taken from tasks
    lost: int  # of that, ns not attributed because the map of pairs was full


class Interrupts:
    """The loaded programs, until close()."""

    def __init__(self, version: int, machine: Machine, open_library: Callable[..., Any] = ctypes.CDLL) -> None:
        """Load and attach them, for cgroups of this version. Raises like Object."""
        self.loaded = Object(OBJECT, [[version]], _PROGRAMS, machine, open_library)
        self._pairs, self._cpus = map(self.loaded.table, (b"pairs", b"cpus"))
        self.close = self.loaded.close

    def pairs(self) -> dict[Pair, Waited]:
        """Return the time taken from each cgroup, by whose packets or requests were handled; raises SourceError."""
        return {(victim, owner): Waited(ns, 0) for (victim, owner), (ns,) in self._pairs.entries()}

    def totals(self) -> Totals:
        """Return the totals of all CPUs; raises SourceError."""
        return totals(self._cpus.element(0))

    def forget(self, pairs: Iterable[Pair]) -> None:
        """Delete these pairs from the map; raises SourceError."""
        for pair in pairs:
            self._pairs.delete(pair)


def totals(words: list[int]) -> Totals:
    """Return the first fields of struct cpu, summed over CPUs."""
    kinds = dict.fromkeys(_KINDS, 0)
    for kind, ns in zip(_KINDS, words):
        kinds[kind] += ns
    charged, lost = words[len(_KINDS) : len(_KINDS) + 2]
    return Totals(kinds, charged, lost)


def with_disks(found: Found, names: Mapping[int, Name]) -> Found:
    """Return the cgroups with those of cgroup v1's controller blkio as causes, which have ids of their own."""
    causes = {inode | BLKIO: name for inode, name in names.items()}
    return found._replace(names={**found.names, **causes}, running=found.running | {n.running for n in causes.values()})
