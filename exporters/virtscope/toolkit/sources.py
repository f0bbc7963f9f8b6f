"""Sources read under a deadline: one that hangs, raises or gives rubbish costs its own metrics and nothing else.

Each source has one thread of its own, for life. A hung library call can't be cancelled, so a thread per scrape would
pile up behind it; with a thread per source at most one is ever stuck, and scrapes stop waiting at their deadline.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import Callable, Generic, NamedTuple, TypeVar, Union

T = TypeVar("T")


class SourceError(Exception):
    """A source failed in a way it can name. `reason` becomes a label value, so it comes from a small fixed set."""

    reason = "error"


class SourceUnavailable(SourceError):
    """What the source reads isn't on this machine; the message says what is missing and what to do."""

    reason = "unavailable"


class SourceRubbish(SourceError):
    """The source answered with something that can't be understood; the message holds the offending text."""

    reason = "rubbish"


class SourceTimeout(SourceError):
    """The source did not answer before the scrape's deadline."""

    reason = "timeout"


class Cost(NamedTuple):
    """What reading one source has cost so far, finished reads only."""

    reads: int
    seconds: float
    cpu_seconds: float


Outcome = Union[T, Exception]


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
        self._finished.release()  # for the next one who waits
        return True


class SourceReader(Generic[T]):
    """Reads one source in a thread of its own, for scrapes that wait until a deadline.

    `ask` gives the first read that begins from now on; `answer` waits for it. So a scrape never gets figures from
    before it came (a read that hung for a minute may return old ones), scrapes that come together share one read, and
    at most two reads lie between asking and answering.
    """

    def __init__(self, name: str, read: Callable[[], T]) -> None:
        self.name = name
        self.cost = Cost(0, 0.0, 0.0)
        self._read = read
        self._lock = threading.Lock()
        self._next: Read[T] | None = None  # asked for, not begun
        self._queue: SimpleQueue[Read[T]] = SimpleQueue()  # holds no more than that one
        self._begun_at = 0.0
        threading.Thread(target=self._serve, name=f"source {name}", daemon=True).start()

    def ask(self) -> Read[T]:
        """Have the source read, and return the read to wait for."""
        with self._lock:
            if self._next is None:
                self._next = Read()
                self._queue.put(self._next)
            return self._next

    def answer(self, read: Read[T], deadline: float) -> Outcome[T]:
        """Return what `read` gave, or SourceTimeout at `deadline` (a time.monotonic() value)."""
        if read.wait(deadline - time.monotonic()):
            return read.outcome
        return SourceTimeout(f"no answer for {time.monotonic() - self._begun_at:.1f} s; still waiting for it")

    def _serve(self) -> None:
        while True:
            read = self._queue.get()
            with self._lock:
                self._next = None
                self._begun_at = time.monotonic()
            cpu = time.thread_time()
            outcome: Outcome[T]
            try:
                outcome = self._read()
            except Exception as error:  # handed on whole: counted, logged, shown as down
                outcome = error
            self.cost = Cost(
                self.cost.reads + 1,
                self.cost.seconds + time.monotonic() - self._begun_at,
                self.cost.cpu_seconds + time.thread_time() - cpu,
            )
            read.finish(outcome)


def reason_of(error: Exception) -> str:
    """Return the label value that tells what kind of failure this is: timeout, unavailable, rubbish or error."""
    return error.reason if isinstance(error, SourceError) else SourceError.reason
