"""Sources read under a deadline: one that hangs, raises or gives rubbish costs its own metrics and nothing else.

Each source has one thread of its own, for life. A hung library call can't be cancelled, so a thread per scrape would
pile up behind it; with a thread per source at most one is ever stuck, and scrapes stop waiting at their deadline.
"""

from __future__ import annotations

import threading
import time
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


class SourceReader(Generic[T]):
    """Reads one source in a thread of its own, for scrapes that wait until a deadline.

    `ask` names the first read that begins from now on; `answer` waits for that one. So a scrape never gets figures from
    before it came (a read that hung for a minute may return old ones), scrapes that come together share one read, and
    at most two reads lie between asking and answering.
    """

    def __init__(self, name: str, read: Callable[[], T]) -> None:
        self.name = name
        self._read = read
        self._changed = threading.Condition()
        self._asked = 0  # the newest read that a scrape waits for
        self._begun = 0
        self._begun_at = 0.0
        self._finished = 0
        self._outcome: Outcome[T] = SourceTimeout("not read yet")
        self._cost = Cost(0, 0.0, 0.0)
        threading.Thread(target=self._serve, name=f"source {name}", daemon=True).start()

    def ask(self) -> int:
        """Have the source read, and return the number of the read to wait for."""
        with self._changed:
            self._asked = self._begun + 1
            self._changed.notify_all()
            return self._asked

    def answer(self, number: int, deadline: float) -> Outcome[T]:
        """Return what read `number` (or a later one) gave, or SourceTimeout at `deadline` (time.monotonic())."""
        with self._changed:
            while self._finished < number:
                left = deadline - time.monotonic()
                if left <= 0:
                    return self._timeout()
                self._changed.wait(left)
            return self._outcome

    def cost(self) -> Cost:
        """Return what finished reads have cost."""
        with self._changed:
            return self._cost

    def _timeout(self) -> SourceTimeout:
        hanging = time.monotonic() - self._begun_at
        return SourceTimeout(f"no answer for {hanging:.1f} s; still waiting for it")

    def _serve(self) -> None:
        while True:
            with self._changed:
                while self._asked <= self._begun:
                    self._changed.wait()
                self._begun += 1
                self._begun_at = time.monotonic()
            cpu = time.thread_time()
            outcome: Outcome[T]
            try:
                outcome = self._read()
            except Exception as error:  # handed on whole: counted, logged, shown as down
                outcome = error
            with self._changed:
                self._cost = Cost(
                    self._cost.reads + 1,
                    self._cost.seconds + time.monotonic() - self._begun_at,
                    self._cost.cpu_seconds + time.thread_time() - cpu,
                )
                self._outcome = outcome
                self._finished = self._begun
                self._changed.notify_all()


def reason_of(error: Exception) -> str:
    """Return the label value that tells what kind of failure this is: timeout, unavailable, rubbish or error."""
    return error.reason if isinstance(error, SourceError) else SourceError.reason
