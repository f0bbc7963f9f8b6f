"""One exposition for those that scrape at the same moment, as the two Prometheus of a pair may.

A store that has the samples of both orders them by their times, which are those at which scrapes began. Of two that
begin at nearly the same time the first may arrive last, and read a counter later: between their samples it would go
backwards, which rate() takes for a reset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Callable, NamedTuple

SECONDS = 0.25  # by which one of them may arrive later than it began


class _Scrape(NamedTuple):
    begun: float
    exposition: Future[bytes]


class Moments:
    """The scrapes of the last moment, by what they ask for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scrapes: dict[Hashable, _Scrape] = {}

    def exposition(self, asked: Hashable, seconds: float, scrape: Callable[[], bytes]) -> bytes:
        """Return what `scrape` does, or did for another that asked for the same at this moment; raise what it raises.

        It waits for another no longer than `seconds`, and then scrapes itself.
        """
        own: Future[bytes] = Future()
        now = time.monotonic()
        with self._lock:
            for over in [each for each, known in self._scrapes.items() if now - known.begun >= SECONDS]:
                del self._scrapes[over]  # an exposition may be large
            first = self._scrapes.setdefault(asked, _Scrape(now, own)).exposition
        if first is not own:
            try:
                return first.result(seconds)
            except FutureTimeoutError:
                return scrape()
        try:
            own.set_result(scrape())
        except BaseException as error:
            own.set_exception(error)
            raise
        return own.result()
