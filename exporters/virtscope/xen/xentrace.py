"""Attributes CPU wait to running domains: one second of Xen's trace in each interval, by `xentrace`.

By hand: `xentrace -D -e 0x21000 -T 1 FILE`, then `xenalyze`.

- Xen has one trace buffer for one reader: while another program reads it, no window is taken.
- xentrace switches tracing off when it ends by itself or by SIGTERM. So it is killed only if both fail. Then Xen traces
  until the end of the next window, into a buffer that is soon full, which is harmless.
- The trace is written to memory, which is freed with its last user.
- A window is a sample for the whole interval, so the counters are estimates. It is at a random time in the interval;
  otherwise a guest's minutely cron job would be in all windows or in none.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from virtscope.toolkit.bounded import Commands, Finished, file_in_memory
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.xen.hypervisor import find_program
from virtscope.xen.model import DOM0, IDLE, REST, Toolstack, WaitEstimates
from virtscope.xen.xentrace_file import MayRun, charge, parse
from virtscope.xen.xl_domains import cpus_of
from virtscope.xen.xl_host import parse_pool_cpus

WINDOW = 1  # seconds, the minimum of xentrace's -T
MIN_INTERVAL = 10.0  # seconds
MARGIN = 5.0  # seconds of an interval reserved for the window, for xl and for a pause
MIN_TRACED = 0.25  # seconds without gaps
MAX_SIZE = 1 << 20  # bytes, 65,000 changes, a second of CPU to attribute: a window that exceeds it ends early
GRACE = 10.0  # seconds for xentrace to start and to end, in addition to the window
PATIENCE = 2.0  # seconds for xentrace to end when the exporter ends
NAMED = 8  # domains with a series per waiting domain, in addition to itself, Dom0, IDLE and REST

_MEMORY = 0.8  # weight of a window's waiting after the next window
_WORTH = 1e-3  # of a window: minimum to be named
_CLEARLY = 2  # times the weight of the lightest named domain replaces it
_FORGOTTEN = 1e-6  # of a window: lighter domains are dropped

_EVENTS = "0x21000"  # TRC_SCHED_MIN in public/trace.h: only changes of vCPUs' states
_ASKING = 10.0  # seconds for xl
_FIRST = 20.0  # seconds to wait for xl's first answers
_READERS = {b"xentrace", b"xenbaked"}  # process names of programs that read the buffer
_PROCESS = re.compile(rb"[0-9]+ \((.*)\) ([A-Z])", re.DOTALL)  # of /proc/PID/stat, proc(5)
_ENDED = {b"Z", b"X"}  # states of an ended process
_TAKEN = "another program reads Xen's trace buffer, which takes one reader alone: pgrep -l xentrace shows which"


class Xentrace:
    """Traces for a second on each read(). For one thread; any other may close its programs."""

    def __init__(self, procfs: str = "/proc") -> None:
        """`procfs` is searched for other readers."""
        self.program = ""  # xentrace's path, once found
        self.programs = Commands(WINDOW + GRACE, PATIENCE)
        self._procfs = Path(procfs)

    def read(self) -> bytes:
        """Trace now, and return xentrace's output.

        Raises SourceUnavailable without xentrace or trace buffer, or if another program reads it; other SourceErrors if
        xentrace fails or hangs.
        """
        program = self.program = find_program("xentrace") or ""
        if not program:
            raise SourceUnavailable("xentrace is not in PATH; install Xen's tools (Debian: xen-utils)")
        if self._has_reader():
            raise SourceUnavailable(_TAKEN)
        try:
            memory = file_in_memory("xentrace")
        except OSError as error:
            raise SourceError(str(error.strerror)) from None
        arguments = ("-D", "-e", _EVENTS, "-T", str(WINDOW), f"/proc/self/fd/{memory}")

        def enough() -> bool:
            return os.fstat(memory).st_size > MAX_SIZE

        try:
            finished = self.programs.run(program, *arguments, pass_fds=(memory,), enough=enough)
            if finished.status:
                raise _refusal(program, finished)
            return os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)

    def _has_reader(self) -> bool:
        for stat in self._procfs.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                process = _PROCESS.match(stat.read_bytes())
                if process and process[1] in _READERS and process[2] not in _ENDED:
                    return True
        return False


def _refusal(program: str, finished: Finished) -> SourceError:
    """Return the meaning of xentrace's messages; tools/xentrace/xentrace.c."""
    said = finished.complaints
    if b"failed to bind to VIRQ port" in said and b"File exists" in said:
        return SourceUnavailable(_TAKEN)
    if b"enable trace buffers" in said and b"Function not implemented" in said:
        return SourceUnavailable("this Xen was built without a trace buffer (CONFIG_TRACEBUFFER)")
    return SourceError(f"{program} {finished.problem()}")


class WaitCounts:
    """CPU wait by victim and by running domain, in monotonic counters of bounded number.

    Each waiting domain has counters for itself, Dom0, IDLE, at most NAMED other domains, and REST for all others. A
    domain stays named until it ends, or until another one causes clearly more wait.
    """

    def __init__(self) -> None:
        self.seconds: dict[int, dict[int, float]] = {}  # by waiting and running domain; replaced, not modified
        self._weights: dict[int, dict[int, float]] = {}  # by the same: decaying wait of the last windows

    def add(self, waits: Mapping[tuple[int, int], float], seconds: float, domids: AbstractSet[int]) -> None:
        """Add a window that represents `seconds`; `waits` are fractions of the window, by waiting and running domain.

        `domids` are the existing domains. Others' waiting is dropped, and others' running counts as REST.
        """
        parts: dict[int, dict[int, float]] = {domid: {} for domid in domids}
        for (domid, other), part in waits.items():
            if domid in domids:
                who = other if other == IDLE or other in domids else REST
                parts[domid][who] = parts[domid].get(who, 0.0) + part
        weights, counted, self._weights, self.seconds = self._weights, self.seconds, {}, {}
        for domid, row in parts.items():
            others, before = domids - {domid, DOM0}, counted.get(domid, {})
            self._weights[domid] = _weighed(weights.get(domid, {}), row, others)
            named = [other for other in before if other in others]
            # Few domains are all named, even without wait: a rate ignores the first value of a new series.
            named = sorted(others) if len(others) <= NAMED else _chosen(named, self._weights[domid])
            counts = {other: before.get(other, 0.0) for other in dict.fromkeys((domid, DOM0, *named, IDLE, REST))}
            for other, part in row.items():
                counts[other if other in counts else REST] += part * seconds
            self.seconds[domid] = counts


def _weighed(before: Mapping[int, float], parts: Mapping[int, float], others: AbstractSet[int]) -> dict[int, float]:
    return {
        other: weight
        for other in (before.keys() | parts.keys()) & others
        if (weight := before.get(other, 0.0) * _MEMORY + parts.get(other, 0.0)) > _FORGOTTEN
    }


def _chosen(named: list[int], weights: Mapping[int, float]) -> list[int]:
    """Return the domains to name from now on, chosen from the named ones and the ones with the greatest weights."""
    chosen = list(named)
    strangers = [other for other, weight in weights.items() if other not in chosen and weight >= _WORTH]
    for stranger in sorted(strangers, key=lambda other: (-weights[other], other)):
        if len(chosen) >= NAMED:
            lightest = min(chosen, key=lambda other: weights.get(other, 0.0))
            if weights[stranger] < _CLEARLY * weights.get(lightest, 0.0):
                break
            chosen.remove(lightest)
        chosen.append(stranger)
    return chosen


class Windows:
    """Takes a window each interval in the background. A failed one adds nothing."""

    def __init__(self, interval: float, toolstack: Background[Toolstack], procfs: str = "/proc") -> None:
        """Take one every `interval` seconds; the toolstack has the vCPUs' affinities."""
        self._interval = interval
        self._toolstack = toolstack
        self._xentrace = Xentrace(procfs)
        self._xl = Commands(_ASKING)
        self._counts = WaitCounts()
        self._windows = 0
        self._lost = 0
        self.background = Background("xentrace", self._take, interval, self._xentrace.programs, self._xl, takes=WINDOW)

    def origin(self) -> str:
        """Return the path of xentrace."""
        return self._xentrace.program

    def _take(self) -> WaitEstimates:
        """Take a window and return the new estimates; raises SourceError."""
        self._toolstack.wait_for_first(_FIRST)
        self._toolstack.latest()  # raises: a window is useless without it
        if self._windows:
            self.background.closed.wait(random.uniform(0, max(self._interval - MARGIN, 0)))  # noqa: S311  no secret
        trace = parse(self._xentrace.read())
        toolstack = self._toolstack.latest()
        charged = charge(trace, _may_run(toolstack, self._pools(toolstack)))
        hertz = toolstack.host.cpu_hertz or 1
        if charged.cycles < MIN_TRACED * hertz:
            raise SourceError(
                f"of a second, xentrace recorded {charged.cycles / hertz:.3f} s without gaps, in {len(trace.changes)} "
                f"changes of state, and lost {trace.lost}: too little to estimate from"
            )
        parts = {pair: cycles / charged.cycles for pair, cycles in charged.waits.items()}
        # It represents the time since the previous window. The first adds nothing, so that counters start at 0.
        self._counts.add(parts, self._interval if self._windows else 0.0, toolstack.guests.keys())
        if {change[4] for change in trace.changes} - toolstack.guests.keys() - {IDLE}:
            self._toolstack.wake()  # for the next window
        self._windows += 1
        self._lost += trace.lost
        return WaitEstimates(self._counts.seconds, self._windows, self._lost)

    def _pools(self, toolstack: Toolstack) -> dict[str, frozenset[int]]:
        """Return the CPUs of each CPU pool."""
        if Path(toolstack.program).name != "xl":
            raise SourceUnavailable(f"{toolstack.program} doesn't tell which CPUs a CPU pool has; xl would")
        listed = self._xl.run(toolstack.program, "cpupool-list", "-c")
        pools = parse_pool_cpus(listed.output, [pool.name for pool in toolstack.pools])
        if listed.status or not pools:
            raise SourceError(f"xl cpupool-list -c {listed.problem() or f'shows no CPU pool: {listed.output[:200]!r}'}")
        return pools


def _may_run(toolstack: Toolstack, pools: Mapping[str, frozenset[int]]) -> MayRun:
    """Return a function for the CPUs that a vCPU may run on: its CPU pool's, restricted to its hard affinity."""
    only = next(iter(pools.values())) if len(pools) == 1 else None

    def cpus(domid: int, vcpu: int) -> frozenset[int] | None:
        guest = toolstack.guests.get(domid)
        if guest is None:
            return only
        pool = pools.get(guest.cpupool, only)
        hard = cpus_of(guest.placements[vcpu].hard) if vcpu in guest.placements else None
        return pool if hard is None else hard if pool is None else hard & pool

    return cpus
