"""A thread pool for requests, with limits in total and per client, so that no client starves the others."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from http import HTTPStatus
from queue import SimpleQueue
from typing import Callable, Generic, TypeVar

from virtscope.toolkit.pages import Answer, Pages

log = logging.getLogger(__name__)

MAX_REQUESTS = 40  # concurrent, like node_exporter's --web.max-requests; further requests wait
MAX_REQUESTS_OF_A_CLIENT = 10
MAX_PROBES = 240
MAX_PROBES_OF_A_CLIENT = 200  # one Prometheus may probe this many hanging hosts
MAX_PROBES_OF_A_HOST = 4  # per client: two Prometheus servers behind one address, two modules each

T = TypeVar("T")


class _Request(Generic[T]):
    def __init__(self, asker: T, head: bytes, host: str) -> None:
        self.asker = asker
        self.head = head
        self.host = host
        self.came = time.monotonic()


class Answering(Generic[T]):
    """Worker threads and their queue. Only one thread may call the methods.

    Each request carries a T, usually its connection, which is returned with the answer. The client with the fewest
    running requests is served next. Threads start when first needed.
    """

    def __init__(
        self, pages: Pages, wake_up: Callable[[], None], has_gone: Callable[[T], bool], *, probes: bool = False
    ) -> None:
        """Any thread calls `wake_up` when `finished` has something to return.

        A queued request is dropped if `has_gone` returns True. `probes`: requests go to other hosts and mostly wait for
        these.
        """
        self._most = MAX_PROBES if probes else MAX_REQUESTS
        self._max_of_a_client = MAX_PROBES_OF_A_CLIENT if probes else MAX_REQUESTS_OF_A_CLIENT
        self._max_of_a_host = MAX_PROBES_OF_A_HOST if probes else MAX_REQUESTS_OF_A_CLIENT
        self._pages = pages
        self._wake_up = wake_up
        self._has_gone = has_gone
        self._waiting: dict[str, deque[_Request[T]]] = {}  # by client, without empty queues
        self._being_answered: Counter[str] = Counter()  # by client
        self._of_host: Counter[tuple[str, str]] = Counter()  # by client and host
        self._requests: SimpleQueue[tuple[str, _Request[T]] | None] = SimpleQueue()
        self._finished: deque[tuple[str, _Request[T], Answer]] = deque()
        self._threads = 0
        self._no_thread = False  # could not start the last thread

    def ask(self, asker: T, client: str, head: bytes, host: str = "") -> None:
        """Queue a request; `host` is the probed host, if any."""
        self._waiting.setdefault(client, deque()).append(_Request(asker, head, host))
        self._hand_out(waited=False)

    def withdraw(self, asker: T, client: str) -> bool:
        """Cancel a queued request; returns False if it is already running."""
        found = next((request for request in self._waiting.get(client, ()) if request.asker is asker), None)
        if found is None:
            return False
        self._take(client, found)
        return True

    def waits(self, client: str) -> bool:
        """Whether a request of this client is queued."""
        return client in self._waiting

    def withdraw_newest(self, client: str) -> T:
        """Cancel the client's newest queued request and return its T; one must be queued."""
        newest = self._waiting[client][-1]
        self._take(client, newest)
        return newest.asker

    def finished(self) -> list[tuple[T, Answer]]:
        """Return the answers given since the last call."""
        done = []
        while self._finished:
            client, request, answer = self._finished.popleft()
            self._being_answered[client] -= 1
            self._of_host[client, request.host] -= 1
            done.append((request.asker, answer))
        self._being_answered = +self._being_answered  # drop zero counts
        self._of_host = +self._of_host
        self._hand_out(waited=True)
        return done

    def close(self) -> None:
        """Stop each thread after its current request."""
        for _ in range(self._threads):
            self._requests.put(None)

    def _hand_out(self, *, waited: bool) -> None:
        while (answered := sum(self._being_answered.values())) < self._most and (found := self._next()):
            if answered >= self._threads and not self._start_thread():
                return  # a later request tries again
            client, request = found
            self._take(client, request)
            if waited and self._has_gone(request.asker):
                continue
            self._being_answered[client] += 1
            self._of_host[client, request.host] += 1
            self._requests.put(found)

    def _next(self) -> tuple[str, _Request[T]] | None:
        """Return the next request and its client: the one with the fewest running requests, below its limit."""
        for client in sorted(self._waiting, key=self._being_answered.__getitem__):
            if self._being_answered[client] >= self._max_of_a_client:
                break
            for request in self._waiting[client]:
                if self._of_host[client, request.host] < self._max_of_a_host:
                    return client, request
        return None

    def _take(self, client: str, request: _Request[T]) -> None:
        self._waiting[client].remove(request)
        if not self._waiting[client]:
            del self._waiting[client]

    def _start_thread(self) -> bool:
        try:
            threading.Thread(target=self._work, name=f"answering {self._threads}", daemon=True).start()
        except RuntimeError as error:
            if not self._no_thread:
                log.error("no thread to answer requests; raise TasksMax", extra={"fields": {"err": error}})
            self._no_thread = True
            return False
        self._threads += 1
        self._no_thread = False
        return True

    def _work(self) -> None:
        while found := self._requests.get():
            client, request = found
            try:
                answer = self._pages.answer(request.head, client, time.monotonic() - request.came)
            except Exception:  # a bug: log the traceback, serve the next request
                log.exception("request failed", extra={"fields": {"client": client}})
                answer = self._pages.refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
            self._finished.append((client, request, answer))
            self._wake_up()
