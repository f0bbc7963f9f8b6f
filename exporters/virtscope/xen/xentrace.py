"""Who ran while a domain waited for a CPU: one second of Xen's trace in each interval, by `xentrace`.

By hand: `xentrace -D -e 0x21000 -T 1 FILE`, and `xenalyze` to read it.

- Xen has one trace buffer, which takes one reader: beside another one, no window is taken.
- xentrace switches tracing off when it ends by itself or by SIGTERM. So it is killed only if it ends by neither, and
  Xen goes on tracing then until the next window ends: into a buffer that is soon full, which does no harm.
- What it writes goes to memory that ends with its last user.
- A window is a sample: what it shows is taken for the whole interval, so the counters are estimates. It is at any time
  of the interval, as what a guest's cron does each minute would else be in all windows or in none.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from virtscope.toolkit.bounded import Commands, Finished, kill_group
from virtscope.toolkit.collect import Background, SourceError, SourceTimeout, SourceUnavailable
from virtscope.toolkit.memory import file_in_memory
from virtscope.xen.hypervisor import find_program
from virtscope.xen.model import DOM0, IDLE, REST, Toolstack, WaitEstimates
from virtscope.xen.xentrace_file import MayRun, charge, parse
from virtscope.xen.xl_domains import cpus_of
from virtscope.xen.xl_host import parse_pool_cpus

WINDOW = 1  # seconds, the minimum of xentrace's -T
MIN_INTERVAL = 10.0  # seconds
MARGIN = 5.0  # seconds that are left of an interval for the window, for xl and for a rest
MIN_TRACED = 0.25  # seconds without gaps
MAX_SIZE = 1 << 20  # bytes, 65,000 changes, which take a second of CPU to charge: a window that exceeds it ends early
GRACE = 10.0  # seconds for xentrace to start and to end, beside the window
PATIENCE = 2.0  # seconds that it has to end at the exporter's end
NAMED = 8  # domains that have a series for each one that waits, beside itself, Dom0, IDLE and REST

_MEMORY = 0.8  # what a window's waiting still weighs after the next one
_WORTH = 1e-3  # of a window: less is not worth a name
_CLEARLY = 2  # times the weight of the lightest that is named takes its place
_FORGOTTEN = 1e-6  # of a window

_EVENTS = "0x21000"  # TRC_SCHED_MIN in public/trace.h: changes of vCPUs' states, and no more
_POLL = 0.05  # seconds
_ASKING = 10.0  # seconds for xl
_FIRST = 20.0  # seconds that xl's first answers are waited for
_READERS = {b"xentrace", b"xenbaked"}  # programs that read the buffer, by the names of their processes
_PROCESS = re.compile(rb"[0-9]+ \((.*)\) ([A-Z])", re.DOTALL)  # of /proc/PID/stat, proc(5)
_ENDED = {b"Z", b"X"}  # states of a process that is no more
_TAKEN = "another program reads Xen's trace buffer, which takes one reader alone: pgrep -l xentrace shows which"


class Xentrace:
    """Traces for a second whenever it is asked; for one thread, any other may close()."""

    def __init__(self, procfs: str = "/proc") -> None:
        """`procfs` is where other readers are looked for."""
        self.program = ""  # the path of xentrace, once it was found
        self.cpu_seconds = 0.0  # CPU time of all its runs so far
        self._procfs = Path(procfs)
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._closed = False

    def read(self) -> bytes:
        """Trace now, and return what xentrace wrote.

        Raises SourceUnavailable where there is no xentrace or trace buffer, or another reader of it; other SourceErrors
        where xentrace fails or hangs.
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
        try:
            self._trace(program, memory)
            return os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)

    def close(self) -> None:
        """End what is running, and run nothing any more."""
        with self._lock:
            self._closed = True
            running = self._running
            if running:
                _ask_to_end(running)
        if running and not self._over.wait(PATIENCE):
            with self._lock:
                if self._running:
                    kill_group(running)

    def _has_reader(self) -> bool:
        for stat in self._procfs.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                process = _PROCESS.match(stat.read_bytes())
                if process and process[1] in _READERS and process[2] not in _ENDED:
                    return True
        return False

    def _trace(self, program: str, memory: int) -> None:
        with self._lock:
            if self._closed:
                raise SourceError("closed")
            try:
                child = self._running = subprocess.Popen(
                    [program, "-D", "-e", _EVENTS, "-T", str(WINDOW), f"/proc/self/fd/{memory}"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(memory,),
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,  # a process group of its own, as Debian's xentrace is a script
                )
            except OSError as error:
                raise SourceError(f"{program} can't be started: {error.strerror}") from error
            self._over.clear()
        deadline, asked = time.monotonic() + WINDOW + GRACE, False
        try:
            while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() >= deadline:
                    raise SourceTimeout(f"{program} did not end within {WINDOW + GRACE:.0f} s and was killed")
                if not asked and os.fstat(memory).st_size > MAX_SIZE:
                    asked = True
                    _ask_to_end(child)
                time.sleep(_POLL)
        finally:
            status, said = self._reap(child)
        if status:
            raise _refusal(program, status, said)

    def _reap(self, child: subprocess.Popen[bytes]) -> tuple[int, bytes]:
        """Kill what is left of it, add its cost, and return its status and what it said at last."""
        assert child.stderr
        with self._lock:
            self._running = None  # close() must not kill what may soon be another process's id
            kill_group(child)
        os.set_blocking(child.stderr.fileno(), False)
        said = child.stderr.read(65536) or b""
        child.stderr.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds += usage.ru_utime + usage.ru_stime
        self._over.set()
        return child.returncode, said


def _ask_to_end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)


def _refusal(program: str, status: int, said: bytes) -> SourceError:
    """Return what xentrace's words mean; tools/xentrace/xentrace.c."""
    if b"failed to bind to VIRQ port" in said and b"File exists" in said:
        return SourceUnavailable(_TAKEN)
    if b"enable trace buffers" in said and b"Function not implemented" in said:
        return SourceUnavailable("this Xen was built without a trace buffer (CONFIG_TRACEBUFFER)")
    return SourceError(f"{program} {Finished(status, b'', said).problem()}")


class WaitCounts:
    """How long each domain waited while which ran, in counters that only grow, and few of them.

    Each that waits has a counter for itself, for Dom0, for IDLE, for at most NAMED other domains, and REST for what all
    else ran. A domain is named until it ends, or until another one is clearly more in the way.
    """

    def __init__(self) -> None:
        self.seconds: dict[int, dict[int, float]] = {}  # by the domain that waited and the one that ran, never changed
        self._weights: dict[int, dict[int, float]] = {}  # likewise: how much it was in the way in the last windows

    def add(self, waits: Mapping[tuple[int, int], float], seconds: float, domids: AbstractSet[int]) -> None:
        """Add a window, which stands for so many seconds: who waited while who ran, as parts of it.

        `domids` are the domains that there are. What others waited is left out, and what they ran is REST.
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
            # Of few all are named, whether in the way or not: to a rate, what a series begins with is no growth.
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
    """Return who is named from now on, of those that are and of those with the greatest weights."""
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
    """Takes a window each interval in the background, from start() to close(). One that fails adds nothing."""

    def __init__(self, interval: float, toolstack: Background[Toolstack], procfs: str = "/proc") -> None:
        """Take one each `interval` seconds; what the toolstack answers says where vCPUs may run."""
        self._interval = interval
        self._toolstack = toolstack
        self._xentrace = Xentrace(procfs)
        self._xl = Commands(_ASKING)
        self._counts = WaitCounts()
        self._windows = 0
        self._lost = 0
        self._closed = threading.Event()
        self.background = Background(
            "xentrace",
            self._take,
            interval,
            lambda: self._xentrace.cpu_seconds + self._xl.cpu_seconds,
            takes=WINDOW,
        )

    def start(self) -> None:
        """Begin with a window now."""
        self.background.start()

    def close(self) -> None:
        """Take no more windows, and end what is running."""
        self._closed.set()
        self.background.close()
        self._xentrace.close()
        self._xl.close()

    def origin(self) -> str:
        """Return the path of xentrace."""
        return self._xentrace.program

    def _take(self) -> WaitEstimates:
        """Return the estimates with one window more; raises SourceError where none can be had."""
        self._toolstack.wait_for_first(_FIRST)
        self._toolstack.latest()  # without it, nothing could be made of a window
        if self._windows:
            self._closed.wait(random.uniform(0, max(self._interval - MARGIN, 0)))  # noqa: S311  no secret
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
        # It stands for the time since the window before. The first adds nothing, so that counters begin at 0.
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
    """Return on which CPUs a vCPU may run: those of its CPU pool that are in its hard affinity."""
    only = next(iter(pools.values())) if len(pools) == 1 else None

    def cpus(domid: int, vcpu: int) -> frozenset[int] | None:
        guest = toolstack.guests.get(domid)
        if guest is None:
            return only
        pool = pools.get(guest.cpupool, only)
        hard = cpus_of(guest.placements[vcpu].hard) if vcpu in guest.placements else None
        return pool if hard is None else hard if pool is None else hard & pool

    return cpus
