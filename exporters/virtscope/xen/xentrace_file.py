"""Parses files of `xentrace -e 0x21000 FILE`, all changes of vCPUs' states, and attributes CPU wait.

The file consists of records of 32-bit words, in order for each physical CPU:

    header   number of the event, 28 bits; number of data words, 3 bits; whether a time stamp follows, 1 bit
    tsc      64 bits, optional: the CPU's time stamp counter
    data     up to seven words

    0x1f003  cpu, bytes             the next bytes are records of that CPU; written by xentrace itself
    0x1f001  lost, who, tsc (64)    the CPU's buffer was full: records were lost since that tsc
    0x21001 | old << 8 | new << 4   vcpu | domain << 16: its state changed from old to new
    0x21002  vcpu | domain << 16    the scheduler lets the vCPU continue to run

States: 0 running, 1 runnable, 2 blocked, 3 offline. In Xen's source: xen/include/public/trace.h, insert_lost_records()
in xen/common/trace.c, trace_runstate_change() and trace_continue_running() in xen/common/sched/core.c, write_buffer()
in tools/xentrace/xentrace.c. xentrace(8) has other numbers for the events.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Callable, NamedTuple, Optional

from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen.model import IDLE

RUNNING, RUNNABLE = 0, 1

_HEADER = struct.Struct("<I")
_TSC = struct.Struct("<Q")
_CPU_CHANGE, _LOST_RECORDS = 0x1F003, 0x1F001
_STATE_CHANGE, _CONTINUES = 0x21001, 0x21002
_STATES = 0x330  # the bits of both states

# tsc, physical CPU, old state, new state, domain, vCPU. If a vCPU continues to run, both states are RUNNING.
Change = tuple[int, int, int, int, int, int]
Vcpu = tuple[int, int]  # domid and the vCPU's number
MayRun = Callable[[int, int], Optional[frozenset[int]]]

_tsc = itemgetter(0)


class Trace(NamedTuple):
    changes: list[Change]  # by tsc
    gaps: list[tuple[int, int]]  # begin and end of lost records of a CPU, in tsc
    lost: int  # records


class Charged(NamedTuple):
    waits: dict[tuple[int, int], float]  # vCPUs' wait in cycles, by waiting and running domain (or IDLE)
    cycles: int  # of the trace


def parse(data: bytes) -> Trace:
    """Parse a file; raises SourceMalformed for a truncated record, or one without CPU."""
    changes: list[Change] = []
    gaps = []
    lost = at = tsc = 0
    cpu = -1
    while at < len(data):
        begun = at
        try:
            (head,) = _HEADER.unpack_from(data, at)
            at += 4
            if head >> 31:
                (tsc,) = _TSC.unpack_from(data, at)
                at += 8
            extra = head >> 28 & 7
            words = struct.unpack_from(f"<{extra}I", data, at)
        except struct.error:
            found = data[begun : begun + 40].hex(" ", 4)
            raise SourceMalformed(f"xentrace's record at byte {begun} is cut off: {found}") from None
        at += 4 * extra
        event = head & 0x0FFFFFFF
        if event & ~_STATES == _STATE_CHANGE or event == _CONTINUES:
            if cpu < 0 or not words or not head >> 31:
                found = data[begun:at].hex(" ", 4)
                raise SourceMalformed(f"xentrace's record at byte {begun} lacks CPU, vCPU or time: {found}")
            old, new = (event >> 8 & 3, event >> 4 & 3) if event != _CONTINUES else (RUNNING, RUNNING)
            changes.append((tsc, cpu, old, new, words[0] >> 16, words[0] & 0xFFFF))
        elif event == _CPU_CHANGE and words:
            cpu = words[0]
        elif event == _LOST_RECORDS and extra == 4 and head >> 31:
            lost += words[0]
            gaps.append((min(words[2] | words[3] << 32, tsc), tsc))
    changes.sort(key=_tsc)  # only by tsc: at the same tsc, the order in the file counts
    return Trace(changes, sorted(gaps), lost)


def charge(trace: Trace, may_run: MayRun) -> Charged:
    """Divide the wait of each vCPU among the vCPUs that ran meanwhile on CPUs where it may run.

    `may_run` returns these CPUs for a domid and a vCPU's number; None: any. Running vCPUs get equal parts: a waiting
    vCPU is in no CPU's queue (credit2) or can migrate to another's (credit). While one of the CPUs is idle, the vCPU
    waits only for its scheduler: IDLE. Time with lost records of a CPU doesn't count.
    """
    waits: defaultdict[tuple[int, int], float] = defaultdict(float)
    cycles = 0
    for piece in _between_gaps(trace):
        cycles += piece[-1][0] - piece[0][0]
        _Piece(piece, may_run, waits).charge()
    return Charged(dict(waits), cycles)


def _between_gaps(trace: Trace) -> Iterable[list[Change]]:
    stamps = [change[0] for change in trace.changes]
    at = 0
    for begins, ends in [*trace.gaps, (1 << 64, 1 << 64)]:
        until = bisect_left(stamps, begins, at)
        if until > at:
            yield trace.changes[at:until]
        at = max(at, bisect_left(stamps, ends, at))


class _Piece:
    """Changes in order, without lost ones."""

    def __init__(self, changes: list[Change], may_run: MayRun, waits: dict[tuple[int, int], float]) -> None:
        self._changes = changes
        self._state: dict[Vcpu, int] = {}
        self._cpu_of: dict[Vcpu, int] = {}  # of running vCPUs
        self._occupant: dict[int, Vcpu] = {}  # running vCPU by physical CPU
        self._queue_of: dict[Vcpu, _Queue] = {}  # of vCPUs that wait at some time
        self._queues_with: defaultdict[int, list[_Queue]] = defaultdict(list)  # by physical CPU
        any_cpu = frozenset(change[1] for change in changes)
        queues: dict[frozenset[int], _Queue] = {}
        for _, _, old, new, domid, number in changes:
            vcpu = domid, number
            if domid != IDLE and RUNNABLE in {old, new} and vcpu not in self._queue_of:
                allowed = may_run(domid, number)
                cpus = any_cpu if allowed is None else allowed
                if cpus not in queues:
                    queues[cpus] = _Queue(len(cpus), changes[0][0], waits)
                    for cpu in cpus:
                        self._queues_with[cpu].append(queues[cpus])
                self._queue_of[vcpu] = queues[cpus]

    def charge(self) -> None:
        """Add the wait to `waits`, by waiting and running domain."""
        begins, ends = self._changes[0][0], self._changes[-1][0]
        for _, cpu, old, _, domid, number in self._changes:
            if (domid, number) not in self._state:  # its state before the first change holds from the beginning
                self._set((domid, number), old, cpu, begins)
        for tsc, cpu, _, new, domid, number in self._changes:
            self._set((domid, number), new, cpu, tsc)
        for vcpu, state in self._state.items():
            if state == RUNNABLE and vcpu[0] != IDLE:
                self._queue_of[vcpu].wait(vcpu[0], -1, ends)

    def _set(self, vcpu: Vcpu, state: int, cpu: int, tsc: int) -> None:
        before = self._state.get(vcpu)
        self._state[vcpu] = state
        if vcpu[0] == IDLE or (before == state and (state != RUNNING or self._occupant.get(cpu) == vcpu)):
            return
        if before == RUNNABLE:
            self._queue_of[vcpu].wait(vcpu[0], -1, tsc)
        elif before == RUNNING and self._occupant.get(self._cpu_of[vcpu]) == vcpu:
            self._free(self._cpu_of[vcpu], tsc)
        if state == RUNNABLE:
            self._queue_of[vcpu].wait(vcpu[0], 1, tsc)
        elif state == RUNNING:
            self._free(cpu, tsc)
            self._occupant[cpu], self._cpu_of[vcpu] = vcpu, cpu
            for queue in self._queues_with[cpu]:
                queue.occupy(vcpu[0], 1, tsc)

    def _free(self, cpu: int, tsc: int) -> None:
        if occupant := self._occupant.pop(cpu, None):
            for queue in self._queues_with[cpu]:
                queue.occupy(occupant[0], -1, tsc)


class _Waiting(NamedTuple):
    """Number of a domain's waiting vCPUs, and its queue's counters at the last change of that number."""

    vcpus: int
    idle: int
    full: int
    ran: dict[int, int]


class _Queue:
    """A set of CPUs on which some vCPUs may run: each domain's CPUs and waiting vCPUs.

    Counts cycles with an idle CPU, cycles without, and of the latter each domain's on all its CPUs. A waiting vCPU is
    charged the difference between two moments, so the cost of a change depends on the number of domains, not on the
    number of waiting vCPUs.
    """

    def __init__(self, cpus: int, begins: int, waits: dict[tuple[int, int], float]) -> None:
        self._cpus = cpus
        self._waits = waits
        self._busy = 0
        self._now = begins
        self._idle = self._full = 0
        self._has: dict[int, int] = {}  # CPUs in use, by domain
        self._base: dict[int, int] = {}  # by domain; its run time is base + has * full
        self._waiting: dict[int, _Waiting] = {}  # by domain

    def occupy(self, domid: int, cpus: int, tsc: int) -> None:
        """Change a domain's number of CPUs by 1 or -1."""
        self._go_on(tsc)
        self._busy += cpus
        self._has[domid] = self._has.get(domid, 0) + cpus
        self._base[domid] = self._base.get(domid, 0) - cpus * self._full

    def wait(self, domid: int, more: int, tsc: int) -> None:
        """Change a domain's number of waiting vCPUs by 1 or -1."""
        self._go_on(tsc)
        before = self._waiting.pop(domid, None)
        if before:
            if self._idle > before.idle:
                self._waits[domid, IDLE] += before.vcpus * (self._idle - before.idle)
            if self._full > before.full:
                for other, cycles in self._ran().items():
                    if part := cycles - before.ran.get(other, 0):
                        self._waits[domid, other] += before.vcpus * part / self._cpus
        vcpus = more + (before.vcpus if before else 0)
        if vcpus:
            self._waiting[domid] = _Waiting(vcpus, self._idle, self._full, self._ran())

    def _go_on(self, tsc: int) -> None:
        if self._busy < self._cpus or not self._cpus:
            self._idle += tsc - self._now
        else:
            self._full += tsc - self._now
        self._now = tsc

    def _ran(self) -> dict[int, int]:
        return {domid: base + self._has[domid] * self._full for domid, base in self._base.items()}
