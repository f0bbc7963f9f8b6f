"""Requests answered in threads: some at a time, and of one client fewer than that, so that others get their turn."""

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

MOST_REQUESTS = 40  # answered at once, as node_exporter's --web.max-requests; the others wait
MOST_REQUESTS_OF_A_CLIENT = 10
MOST_PROBES = 240
MOST_PROBES_OF_A_CLIENT = 200  # a Prometheus may have so many hosts that hang
MOST_PROBES_OF_A_HOST = 4  # of a client: a pair of Prometheus behind one address, each at both modules

T = TypeVar("T")


class _Request(Generic[T]):
    def __init__(self, asker: T, head: bytes, host: str) -> None:
        self.asker = asker
        self.head = head
        self.host = host
        self.came = time.monotonic()


class Answering(Generic[T]):
    """Threads that answer requests, and the queue before them. All but the threads themselves is one thread's.

    Each request comes with a T, usually its connection, which is what the answer is returned with. The next request is
    one of the client that has the fewest being answered. Threads are started when first needed.
    """

    def __init__(
        self, pages: Pages, wake_up: Callable[[], None], has_gone: Callable[[T], bool], *, probes: bool = False
    ) -> None:
        """`wake_up` is called, by any thread, whenever `finished` has something to return.

        `has_gone` is asked of those that had to wait: with True the request is forgotten.
        `probes`: requests are for other hosts, and most of the time wait for them.
        """
        self._most = MOST_PROBES if probes else MOST_REQUESTS
        self._most_of_a_client = MOST_PROBES_OF_A_CLIENT if probes else MOST_REQUESTS_OF_A_CLIENT
        self._most_of_a_host = MOST_PROBES_OF_A_HOST if probes else MOST_REQUESTS_OF_A_CLIENT
        self._pages = pages
        self._wake_up = wake_up
        self._has_gone = has_gone
        self._waiting: dict[str, deque[_Request[T]]] = {}  # by client, only those that have a request
        self._being_answered: Counter[str] = Counter()  # by client
        self._of_host: Counter[tuple[str, str]] = Counter()  # likewise, by client and host
        self._requests: SimpleQueue[tuple[str, _Request[T]] | None] = SimpleQueue()
        self._finished: deque[tuple[str, _Request[T], Answer]] = deque()
        self._threads = 0
        self._no_thread = False  # the last thread couldn't be started

    def ask(self, asker: T, client: str, head: bytes, host: str = "") -> None:
        """Have a request, which may be for a host, answered as soon as it is its turn."""
        self._waiting.setdefault(client, deque()).append(_Request(asker, head, host))
        self._hand_out(waited=False)

    def withdraw(self, asker: T, client: str) -> bool:
        """Take a request back that still waits; returns False if it is being answered."""
        found = next((request for request in self._waiting.get(client, ()) if request.asker is asker), None)
        if found is None:
            return False
        self._take(client, found)
        return True

    def waits(self, client: str) -> bool:
        """Say whether a request of this client waits for its turn."""
        return client in self._waiting

    def withdraw_newest(self, client: str) -> T:
        """Take the client's request back that would wait longest; returns its asker. One must wait."""
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
        self._being_answered = +self._being_answered  # without clients that have none
        self._of_host = +self._of_host
        self._hand_out(waited=True)
        return done

    def close(self) -> None:
        """End the threads, each once it has answered."""
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
        """Return the client with the fewest being answered that may have one more, and its request."""
        for client in sorted(self._waiting, key=self._being_answered.__getitem__):
            if self._being_answered[client] >= self._most_of_a_client:
                break
            for request in self._waiting[client]:
                if self._of_host[client, request.host] < self._most_of_a_host:
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
            except Exception:  # a fault of ours: say where, and go on with the next request
                log.exception("request failed", extra={"fields": {"client": client}})
                answer = self._pages.refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
            self._finished.append((client, request, answer))
            self._wake_up()
