"""A slow source read in the background, on an interval of its own, so that no scrape waits for it."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Callable, Generic, TypeVar

from virtscope.toolkit.sources import Cost, SourceTimeout, SourceUnavailable, reason_of

T = TypeVar("T")

OLDEST = 3  # rounds: an older value is not served
REST = 3.0  # seconds between two reads at least, however often wake() asks
FIRST = 20.0  # seconds that the first read may take before scrapes report that it hangs


class _Value(Generic[T]):
    """What a read gave, when it began, and until when that is served; both are time.monotonic() values."""

    def __init__(self, value: T, begun: float, expires: float) -> None:
        self.value = value
        self.begun = begun
        self.expires = expires


class Background(Generic[T]):
    """Reads a source again and again in a thread of its own, from start() to close(), and keeps what it gave.

    For what takes seconds and changes rarely, such as what a toolstack tells of its guests. A read that fails leaves
    the figures of the one before until they are too old.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        interval: float,
        programs_cpu_seconds: Callable[[], float] | None = None,
        *,
        takes: float = 0.0,
    ) -> None:
        """Have `read` called each `interval` seconds; it raises SourceError where it can name what is wrong.

        `programs_cpu_seconds` tells the CPU time of all programs that `read` has run so far, to be added to its cost.
        `takes`: seconds that a read takes by design, such as those for which it samples.
        """
        self.cost = Cost(0, 0.0, 0.0)
        self.failures = {"timeout": 0, "error": 0, "rubbish": 0}  # reads that failed, by reason
        self._read = read
        self._interval = interval
        self._programs_cpu_seconds = programs_cpu_seconds or (lambda: 0.0)
        self._lock = threading.Lock()  # over what the thread and the scrapes share
        self._takes = takes
        self._value: _Value[T] | None = None
        self._failure: Exception | None = None  # of the last read, if it failed
        self._traceback: TracebackType | None = None  # of that
        self._begun_at = time.monotonic()  # the last read, finished or not
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, name=f"background {name}", daemon=True)

    def start(self) -> None:
        """Begin the first read, and return at once."""
        self._thread.start()

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
            failure, traceback, waited = self._failure, self._traceback, time.monotonic() - self._begun_at
            first = self.cost.reads == 0
        if first and waited < FIRST + self._takes:
            raise SourceUnavailable("not read yet; it is being read now")
        if failure is None:
            raise SourceTimeout(f"no answer for {waited:.0f} s; still waiting for it")
        raise failure.with_traceback(traceback)  # raised again and again, it would gather tracebacks

    def peek(self) -> T | None:
        """Return what latest() returns, and None where that raises."""
        with self._lock:
            if self._value and time.monotonic() < self._value.expires:
                return self._value.value
        return None

    def age(self) -> float | None:
        """Return how many seconds ago the read began that gave the figures; None if none has succeeded yet."""
        with self._lock:
            return time.monotonic() - self._value.begun if self._value else None

    def _keep_reading(self) -> None:
        while not self._closed.is_set():
            self._woken.clear()  # before the read: what is new while it goes on may not be in it
            begun, spent = time.monotonic(), self._spent()
            with self._lock:
                self._begun_at = begun
            value: _Value[T] | None = None
            failure: Exception | None = None
            traceback: TracebackType | None = None
            try:
                value = _Value(self._read(), begun, self._expiry(begun))
            except Exception as error:  # kept, and raised in the scrapes when the figures have become too old
                failure = error
                traceback = error.__traceback__
            with self._lock:
                self._value = value or self._value
                self._failure, self._traceback = failure, traceback
                self.cost = Cost(
                    self.cost.reads + 1,
                    self.cost.seconds + time.monotonic() - begun,
                    self.cost.cpu_seconds + self._spent() - spent,
                )
                if failure and not isinstance(failure, SourceUnavailable):  # what isn't there has not failed
                    self.failures[reason_of(failure)] += 1
            self._closed.wait(self._rest())
            self._woken.wait(max(begun + self._interval - time.monotonic(), 0))

    def _expiry(self, begun: float) -> float:
        """Return until when a value is served whose read began at `begun` and has just ended.

        A source that takes longer than its interval is no less alive for it: it may miss as many rounds as others.
        """
        ended = time.monotonic()
        return ended + OLDEST * max(self._interval, ended - begun + self._rest())

    def _rest(self) -> float:
        return min(REST, self._interval)

    def _spent(self) -> float:
        return time.thread_time() + self._programs_cpu_seconds()
