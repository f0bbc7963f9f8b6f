"""Requests answered in threads: some at a time, and of one client fewer than that, so that others get their turn."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from http import HTTPStatus
from queue import SimpleQueue
from typing import Callable, Generic, NamedTuple, Protocol, TypeVar

log = logging.getLogger(__name__)

MOST_REQUESTS = 40  # answered at once, as node_exporter's --web.max-requests; the others wait
MOST_REQUESTS_OF_A_CLIENT = 10

T = TypeVar("T")


class Answer(NamedTuple):
    """A whole HTTP response in parts, and whether the connection stays open behind it.

    Answers may have a part in common: where many scrapes share a page, it is in memory once.
    """

    parts: tuple[bytes, ...]
    keep: bool


class Answers(Protocol):
    """What answers requests; see virtscope.toolkit.pages.Pages."""

    def answer(self, head: bytes, client: str) -> Answer:
        """Return the answer to a client's request with this head; called in any thread."""
        ...

    def refuse(self, status: HTTPStatus) -> Answer:
        """Return an answer that says no more than its status and ends the connection."""
        ...


class Answering(Generic[T]):
    """Threads that answer requests, and the queue before them. All but the threads themselves is one thread's.

    Each request comes with a T, usually its connection, which is what the answer is returned with. The next request is
    one of the client that has the fewest being answered. Threads are started when first needed.
    """

    def __init__(
        self,
        answers: Answers,
        wake_up: Callable[[], None],
        has_gone: Callable[[T], bool],
        most_of_a_client: int | None = None,
    ) -> None:
        """`wake_up` is called, by any thread, whenever `finished` has something to return.

        `has_gone` is asked of those that had to wait: with True the request is forgotten.
        With `most_of_a_client`, that many are answered at once, of one client too.
        """
        self._most = most_of_a_client or MOST_REQUESTS
        self._most_of_a_client = most_of_a_client or MOST_REQUESTS_OF_A_CLIENT
        self._answers = answers
        self._wake_up = wake_up
        self._has_gone = has_gone
        self._waiting: dict[str, deque[tuple[T, bytes]]] = {}  # by client, only those that have a request
        self._being_answered: Counter[str] = Counter()  # by client
        self._requests: SimpleQueue[tuple[T, str, bytes] | None] = SimpleQueue()
        self._finished: deque[tuple[T, str, Answer]] = deque()
        self._threads = 0
        self._no_thread = False  # the last thread couldn't be started

    def ask(self, asker: T, client: str, head: bytes) -> None:
        """Have a request answered as soon as it is its turn."""
        self._waiting.setdefault(client, deque()).append((asker, head))
        self._hand_out(waited=False)

    def withdraw(self, asker: T, client: str) -> bool:
        """Take a request back that still waits; returns False if it is being answered."""
        waiting = self._waiting.get(client, deque())
        found = next((request for request in waiting if request[0] is asker), None)
        if found is None:
            return False
        waiting.remove(found)
        self._took_one(client)
        return True

    def waits(self, client: str) -> bool:
        """Say whether a request of this client waits for its turn."""
        return client in self._waiting

    def withdraw_newest(self, client: str) -> T:
        """Take the client's request back that would wait longest; returns its asker. One must wait."""
        asker, _ = self._waiting[client].pop()
        self._took_one(client)
        return asker

    def finished(self) -> list[tuple[T, Answer]]:
        """Return the answers given since the last call."""
        done = []
        while self._finished:
            asker, client, answer = self._finished.popleft()
            self._being_answered[client] -= 1
            done.append((asker, answer))
        self._being_answered = +self._being_answered  # without clients that have none
        self._hand_out(waited=True)
        return done

    def close(self) -> None:
        """End the threads, each once it has answered."""
        for _ in range(self._threads):
            self._requests.put(None)

    def _hand_out(self, *, waited: bool) -> None:
        while self._waiting and (answered := sum(self._being_answered.values())) < self._most:
            client = min(self._waiting, key=self._being_answered.__getitem__)
            if self._being_answered[client] >= self._most_of_a_client:
                return
            if answered >= self._threads and not self._start_thread():
                return  # a later request tries again
            asker, head = self._waiting[client].popleft()
            self._took_one(client)
            if waited and self._has_gone(asker):
                continue
            self._being_answered[client] += 1
            self._requests.put((asker, client, head))

    def _took_one(self, client: str) -> None:
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
        while request := self._requests.get():
            asker, client, head = request
            try:
                answer = self._answers.answer(head, client)
            except Exception:  # a fault of ours: say where, and go on with the next request
                log.exception("request failed", extra={"fields": {"client": client}})
                answer = self._answers.refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
            self._finished.append((asker, client, answer))
            self._wake_up()
