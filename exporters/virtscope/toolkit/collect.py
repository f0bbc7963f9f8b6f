"""Sources read under a deadline or in the background: one that hangs or fails loses only its own metrics.

Each source has one permanent thread. A hung library call can't be cancelled, and a thread per scrape would pile up
behind it. This way at most one thread per source hangs, and scrapes stop waiting at their deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Set as AbstractSet
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Callable, Generic, NamedTuple, Protocol, TypeVar, Union

OLDEST = 3  # older values are dropped
REST = 3.0  # seconds between two reads in the background, however often wake() asks
HANGS = 10.0  # seconds: scrapes don't wait longer for a read, whatever their timeout
A_LITTLE = 0.5  # seconds to wait for a read that hangs: it may end
FIRST = 20.0  # seconds until scrapes report that the first background read hangs

T = TypeVar("T")


class SourceError(Exception):
    """A known failure of a source. `reason` becomes a label value, from a small fixed set."""

    reason = "error"


class SourceUnavailable(SourceError):
    """The source doesn't exist on this machine; the message says what is missing and the remedy."""

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
    """The cost of a source's finished reads so far."""

    reads: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Runs(Protocol):
    """Runs the programs of a source; close() ends them."""

    cpu_seconds: float  # CPU time of all programs so far, if known

    def close(self) -> None: ...


def _measured(read: Callable[[], T], cost: Cost, *programs: Runs) -> tuple[Outcome[T], Cost]:
    """Read; return the result or the exception, and the updated cost."""

    def spent() -> float:
        return time.thread_time() + sum(each.cpu_seconds for each in programs)

    begun, cpu = time.monotonic(), spent()
    outcome: Outcome[T]
    try:
        outcome = read()
    except Exception as error:
        outcome = error
    return outcome, Cost(cost.reads + 1, cost.seconds + time.monotonic() - begun, cost.cpu_seconds + spent() - cpu)


# --- Under a deadline -------------------------------------------------------------------------------------------------


class SourceReader(Generic[T]):
    """Reads a source in its own thread, for scrapes that wait until their deadline or until the source hangs.

    Otherwise scrapes with a long timeout would all wait for it and occupy every thread.

    `ask` returns the next read to begin; `answer` waits for it. So a scrape never gets values older than its request (a
    read that hung for a minute may return old ones), overlapping rounds of scrapes (see scrape.py) share a read, and a
    scrape waits for at most two reads.
    """

    def __init__(self, name: str, read: Callable[[], T], hangs: float | None = None) -> None:
        """`hangs`: seconds after which scrapes stop waiting for a read; HANGS if None."""
        self.cost = Cost()
        self._read = read
        self._hangs = hangs
        self._lock = threading.Lock()
        self._next: Future[Outcome[T]] | None = None  # requested, not begun
        self._queue: SimpleQueue[Future[Outcome[T]] | None] = (
            SimpleQueue()
        )  # holds at most the requested read, or None to stop
        self._begun_at = time.monotonic()  # when the last read began; a scrape may give up before its own begins
        self._reading = False
        threading.Thread(target=self._serve, name=f"source {name}", daemon=True).start()

    def ask(self) -> Future[Outcome[T]]:
        """Request a read, and return it to wait for; any number of scrapes may."""
        with self._lock:
            if self._next is None:
                self._next = Future()
                self._queue.put(self._next)
            return self._next

    def answer(self, read: Future[Outcome[T]], deadline: float) -> Outcome[T]:
        """Return what `read` gave, or SourceTimeout at `deadline` (a time.monotonic() value) or if the source hangs."""
        min_wait = time.monotonic() + A_LITTLE
        while (now := time.monotonic()) < (until := self._patience(deadline, min_wait)):
            with suppress(futures.TimeoutError):
                return read.result(until - now)
        if read.done():
            return read.result()
        return SourceTimeout(f"no answer for {time.monotonic() - self._begun_at:.1f} s; still waiting for it")

    def close(self) -> None:
        """Stop the thread after the requested read."""
        self._queue.put(None)

    def _patience(self, deadline: float, min_wait: float) -> float:
        """Return when to stop waiting."""
        with self._lock:
            begun = self._begun_at if self._reading else time.monotonic()
        return min(deadline, max(begun + (self._hangs or HANGS), min_wait))

    def _serve(self) -> None:
        while read := self._queue.get():
            with self._lock:
                self._next = None
                self._begun_at = time.monotonic()
                self._reading = True
            outcome, self.cost = _measured(self._read, self.cost)
            with self._lock:
                self._reading = False
            read.set_result(outcome)


class InlineReader(Generic[T]):
    """Reads a source in the scrape's own thread: for sources in memory, which can't hang."""

    def __init__(self, _name: str, read: Callable[[], T]) -> None:
        self.cost = Cost()
        self._read = read

    def ask(self) -> Future[Outcome[T]]:
        """Read the source; returns the finished read."""
        read: Future[Outcome[T]] = Future()
        outcome, self.cost = _measured(self._read, self.cost)
        read.set_result(outcome)
        return read

    def answer(self, read: Future[Outcome[T]], _deadline: float) -> Outcome[T]:
        """Return what `read` gave."""
        return read.result()


# --- In the background ------------------------------------------------------------------------------------------------


class Background(Generic[T]):
    """Polls a source in its own thread, from start() to close() or in a `with`, and keeps the last result.

    For slow sources that change rarely, such as a toolstack's list of guests. After a failed read the previous values
    are kept until they are too old.
    """

    def __init__(self, name: str, read: Callable[[], T], interval: float, *programs: Runs, takes: float = 0.0) -> None:
        """Call `read` each `interval` seconds; it raises SourceError for known failures.

        The CPU time of its `programs` is added to its cost, and close() ends them. `takes`: seconds that a read takes
        by design, such as a sampling time.
        """
        self.name = name
        self.cost = Cost()
        self.failures = {"timeout": 0, "error": 0, "malformed": 0}  # reads that failed, by reason
        self._read = read
        self._interval = interval
        self._programs = programs
        self._lock = threading.Lock()  # guards the state shared by thread and scrapes
        self._takes = takes
        # What the last successful read gave, when it began, and when it expires, by time.monotonic().
        self._value: tuple[T, float, float] | None = None
        self._failure: tuple[Exception, TracebackType | None] | None = None  # of the last read, if it failed
        self._begun_at = time.monotonic()  # the last read, finished or not
        self._woken = threading.Event()
        self._woken_for: AbstractSet[object] = frozenset()
        self._first_over = threading.Event()
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, name=f"background {name}", daemon=True)

    def start(self) -> None:
        """Begin the first read, and return at once."""
        self._thread.start()

    def wait_for_first(self, seconds: float) -> None:
        """Wait until the first read has ended, successful or not, or these seconds have passed."""
        self._first_over.wait(seconds)

    def close(self) -> None:
        """Begin no further read, and end its programs.

        Does not wait for a hanging read, which would delay the exporter's exit.
        """
        self.closed.set()
        self._woken.set()
        for each in self._programs:
            each.close()

    def __enter__(self) -> Background[T]:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wake(self) -> None:
        """Read early. Extra calls are cheap."""
        self._woken.set()

    def wake_for(self, strangers: AbstractSet[object]) -> None:
        """Read early for guests that the latest values lack, once for each: a source may never know some."""
        if strangers - self._woken_for:
            self.wake()
        self._woken_for = strangers

    def latest(self) -> T:
        """Return the result of the last successful read, at once.

        If that is too old, raises the last read's exception, SourceTimeout if it hangs, or SourceUnavailable before the
        first read has finished.
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
        raise failure.with_traceback(traceback)  # raising the same exception again would accumulate tracebacks

    def peek(self) -> T | None:
        """Return latest(), or None if it raises."""
        with self._lock:
            if self._value and time.monotonic() < self._value[2]:
                return self._value[0]
        return None

    def age(self) -> float | None:
        """Return the values' age in seconds, since their read began; None before the first success."""
        with self._lock:
            return time.monotonic() - self._value[1] if self._value else None

    def _keep_reading(self) -> None:
        while not self.closed.is_set():
            self._woken.clear()  # before the read, which may miss what changes meanwhile
            begun = time.monotonic()
            with self._lock:
                self._begun_at = begun
            outcome, cost = _measured(self._read, self.cost, *self._programs)
            value = None if isinstance(outcome, Exception) else (outcome, begun, self._expiry(begun))
            with self._lock:
                self._value = value or self._value
                self._failure = (outcome, outcome.__traceback__) if isinstance(outcome, Exception) else None
                self.cost = cost
                # An absent source has not failed.
                if isinstance(outcome, Exception) and not isinstance(outcome, SourceUnavailable):
                    self.failures[reason_of(outcome)] += 1
            self._first_over.set()
            self.closed.wait(min(REST, self._interval))
            self._woken.wait(max(begun + self._interval - time.monotonic(), 0))

    def _expiry(self, begun: float) -> float:
        """Return when the value of a read that began at `begun` and has just ended expires.

        A slow source may miss as many rounds as others, so the read's duration counts too.
        """
        ended = time.monotonic()
        return ended + OLDEST * max(self._interval, ended - begun + min(REST, self._interval))
