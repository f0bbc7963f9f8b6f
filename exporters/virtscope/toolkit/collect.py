"""Sources read under a deadline or in the background: what hangs or fails costs its own metrics and nothing else.

Each source has one thread of its own, for life. A hung library call can't be cancelled, so a thread per scrape would
pile up behind it; with a thread per source at most one is ever stuck, and scrapes stop waiting at their deadline.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Callable, Generic, NamedTuple, TypeVar, Union

OLDEST = 3  # an older value is not served
REST = 3.0  # seconds between two reads in the background, however often wake() asks
HANGS = 10.0  # seconds: a read that takes longer is not waited for, whatever a scrape's timeout
A_LITTLE = 0.5  # seconds that one is waited for that hangs: it may be over
FIRST = 20.0  # seconds that the first read in the background may take before scrapes report that it hangs

T = TypeVar("T")


class SourceError(Exception):
    """A source failed in a way it can name. `reason` becomes a label value, so it comes from a small fixed set."""

    reason = "error"


class SourceUnavailable(SourceError):
    """What the source reads isn't on this machine; the message says what is missing and what to do."""

    reason = "unavailable"


class SourceMalformed(SourceError):
    """The source answered with something malformed; the message holds the offending text."""

    reason = "malformed"


class SourceTimeout(SourceError):
    """The source did not answer before the scrape's deadline."""

    reason = "timeout"


def reason_of(error: Exception) -> str:
    """Return the label value for this kind of failure: timeout, unavailable, malformed or error."""
    return error.reason if isinstance(error, SourceError) else SourceError.reason


Outcome = Union[T, Exception]


class Cost(NamedTuple):
    """What reading one source has cost so far, finished reads only."""

    reads: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def _measured(read: Callable[[], T], cost: Cost, programs_cpu_seconds: Callable[[], float]) -> tuple[Outcome[T], Cost]:
    """Read, and return what that gave or raised, which is handed on whole, and the cost with that of this read."""

    def spent() -> float:
        return time.thread_time() + programs_cpu_seconds()

    begun, cpu = time.monotonic(), spent()
    outcome: Outcome[T]
    try:
        outcome = read()
    except Exception as error:
        outcome = error
    return outcome, Cost(cost.reads + 1, cost.seconds + time.monotonic() - begun, cost.cpu_seconds + spent() - cpu)


def _none() -> float:
    return 0.0


# --- Under a deadline -------------------------------------------------------------------------------------------------


class Read(Generic[T]):
    """One read of a source, that any number of scrapes wait for."""

    def __init__(self) -> None:
        self.outcome: Outcome[T] = SourceTimeout("not read yet")
        self._finished = threading.Lock()  # a bare lock as a gate: a tenth of an Event's cost, at every scrape
        self._finished.acquire()

    def finish(self, outcome: Outcome[T]) -> None:
        """Let the scrapes that wait go on with this outcome."""
        self.outcome = outcome
        self._finished.release()

    def wait(self, seconds: float) -> bool:
        """Wait for the outcome; returns False if there is none after `seconds`."""
        if not self._finished.acquire(timeout=max(seconds, 0)):
            return False
        self._finished.release()  # for the next scrape that waits
        return True


class SourceReader(Generic[T]):
    """Reads one source in a thread of its own, for scrapes that wait until a deadline, or until the source hangs.

    Scrapes that came with a long timeout would else all wait for it, and leave no thread to answer others.

    `ask` gives the first read that begins from now on; `answer` waits for it. So a scrape never gets values from
    before it came (a read that hung for a minute may return old ones), rounds of scrapes (see scrape.py) that overlap
    share one read, and at most two reads lie between asking and answering.
    """

    def __init__(self, name: str, read: Callable[[], T], hangs: float | None = None) -> None:
        """`hangs`: seconds after which a read isn't waited for any more; HANGS if None."""
        self.cost = Cost()
        self._read = read
        self._hangs = hangs
        self._lock = threading.Lock()
        self._next: Read[T] | None = None  # asked for, not begun
        self._queue: SimpleQueue[Read[T] | None] = SimpleQueue()  # holds no more than that one, and None for the end
        self._begun_at = time.monotonic()  # the last read, or this: a scrape may give up before the thread has begun
        self._reading = False
        threading.Thread(target=self._serve, name=f"source {name}", daemon=True).start()

    def ask(self) -> Read[T]:
        """Have the source read, and return the read to wait for."""
        with self._lock:
            if self._next is None:
                self._next = Read()
                self._queue.put(self._next)
            return self._next

    def answer(self, read: Read[T], deadline: float) -> Outcome[T]:
        """Return what `read` gave, or SourceTimeout at `deadline` (a time.monotonic() value) or if the source hangs."""
        min_wait = time.monotonic() + A_LITTLE
        while (now := time.monotonic()) < (until := self._patience(deadline, min_wait)):
            if read.wait(until - now):
                return read.outcome
        if read.wait(0):
            return read.outcome
        return SourceTimeout(f"no answer for {time.monotonic() - self._begun_at:.1f} s; still waiting for it")

    def close(self) -> None:
        """End its thread, once what is asked for has been read."""
        self._queue.put(None)

    def _patience(self, deadline: float, min_wait: float) -> float:
        """Return until when to wait before this is asked again."""
        with self._lock:
            begun = self._begun_at if self._reading else time.monotonic()
        return min(deadline, max(begun + (self._hangs or HANGS), min_wait))

    def _serve(self) -> None:
        while read := self._queue.get():
            with self._lock:
                self._next = None
                self._begun_at = time.monotonic()
                self._reading = True
            outcome, self.cost = _measured(self._read, self.cost, _none)
            with self._lock:
                self._reading = False
            read.finish(outcome)


class InlineReader(Generic[T]):
    """Reads one source in the scrape's own thread: for what only looks at what is there, and so can't hang."""

    def __init__(self, _name: str, read: Callable[[], T]) -> None:
        self.cost = Cost()
        self._read = read

    def ask(self) -> Read[T]:
        """Read the source, and return the finished read."""
        read: Read[T] = Read()
        outcome, self.cost = _measured(self._read, self.cost, _none)
        read.finish(outcome)
        return read

    def answer(self, read: Read[T], _deadline: float) -> Outcome[T]:
        """Return what `read` gave."""
        return read.outcome


# --- In the background ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)  # a NamedTuple can't be generic before Python 3.11
class _Value(Generic[T]):
    """What a read gave, when it began, and until when that is served; both are time.monotonic() values."""

    value: T
    begun: float
    expires: float


class Background(Generic[T]):
    """Reads a source again and again in a thread of its own, from start() to close(), and keeps what it gave.

    For what takes seconds and changes rarely, such as a toolstack's list of guests. A read that fails leaves the values
    of the one before until they are too old.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        interval: float,
        programs_cpu_seconds: Callable[[], float] = _none,
        *,
        takes: float = 0.0,
    ) -> None:
        """Have `read` called each `interval` seconds; it raises SourceError where it can name what is wrong.

        `programs_cpu_seconds` gives the CPU time of all programs that `read` has run so far, to be added to its cost.
        `takes`: seconds that a read takes by design, such as those for which it samples.
        """
        self.cost = Cost()
        self.failures = {"timeout": 0, "error": 0, "malformed": 0}  # reads that failed, by reason
        self._read = read
        self._interval = interval
        self._programs_cpu_seconds = programs_cpu_seconds
        self._lock = threading.Lock()  # over what the thread and the scrapes share
        self._takes = takes
        self._value: _Value[T] | None = None
        self._failure: tuple[Exception, TracebackType | None] | None = None  # of the last read, if it failed
        self._begun_at = time.monotonic()  # the last read, finished or not
        self._woken = threading.Event()
        self._first_over = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, name=f"background {name}", daemon=True)

    def start(self) -> None:
        """Begin the first read, and return at once."""
        self._thread.start()

    def wait_for_first(self, seconds: float) -> None:
        """Wait until the first read is over, whether or not it succeeded, but not longer than these seconds."""
        self._first_over.wait(seconds)

    def close(self) -> None:
        """Let no further read begin. One that hangs is left behind: it must not hold up the exporter's end."""
        self._closed.set()
        self._woken.set()

    def wake(self) -> None:
        """Have the source read early: something is new that it doesn't know yet. Any number of calls cost little."""
        self._woken.set()

    def latest(self) -> T:
        """Return what the last read gave that succeeded, at once.

        Raises what is wrong where there is nothing young enough: as the last read did, SourceTimeout when it hangs,
        SourceUnavailable before the first one has finished.
        """
        value = self.peek()
        if value is not None:
            return value
        with self._lock:
            failed, waited = self._failure, time.monotonic() - self._begun_at
        if self.cost.reads == 0 and waited < FIRST + self._takes:
            raise SourceUnavailable("not read yet; it is being read now")
        if failed is None:
            raise SourceTimeout(f"no answer for {waited:.0f} s; still waiting for it")
        failure, traceback = failed
        raise failure.with_traceback(traceback)  # raised again and again, it would gather tracebacks

    def peek(self) -> T | None:
        """Return what latest() returns, and None where that raises."""
        with self._lock:
            if self._value and time.monotonic() < self._value.expires:
                return self._value.value
        return None

    def age(self) -> float | None:
        """Return how many seconds ago the read began that gave the values; None if none has succeeded yet."""
        with self._lock:
            return time.monotonic() - self._value.begun if self._value else None

    def _keep_reading(self) -> None:
        while not self._closed.is_set():
            self._woken.clear()  # before the read: what is new while it goes on may not be in it
            begun = time.monotonic()
            with self._lock:
                self._begun_at = begun
            outcome, cost = _measured(self._read, self.cost, self._programs_cpu_seconds)
            value = None if isinstance(outcome, Exception) else _Value(outcome, begun, self._expiry(begun))
            with self._lock:
                self._value = value or self._value
                self._failure = (outcome, outcome.__traceback__) if isinstance(outcome, Exception) else None
                self.cost = cost
                # What isn't there has not failed.
                if isinstance(outcome, Exception) and not isinstance(outcome, SourceUnavailable):
                    self.failures[reason_of(outcome)] += 1
            self._first_over.set()
            self._closed.wait(min(REST, self._interval))
            self._woken.wait(max(begun + self._interval - time.monotonic(), 0))

    def _expiry(self, begun: float) -> float:
        """Return until when a value is served whose read began at `begun` and has just ended.

        A source that takes longer than its interval is no less alive for it: it may miss as many rounds as others.
        """
        ended = time.monotonic()
        return ended + OLDEST * max(self._interval, ended - begun + min(REST, self._interval))
