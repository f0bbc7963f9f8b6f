"""Whose request is answered next, and what becomes of those that can't be."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from tests.support.waiting import wait_for
from virtscope.toolkit import answering as module
from virtscope.toolkit.answering import (
    MOST_PROBES_OF_A_CLIENT,
    MOST_PROBES_OF_A_HOST,
    MOST_REQUESTS,
    MOST_REQUESTS_OF_A_CLIENT,
    Answer,
    Answering,
)


class Queue:
    """Requests, numbered, each answered once it is let."""

    def __init__(self, *, probes: bool = False) -> None:
        self.asked: list[str] = []
        self.waited: list[float] = []
        self._let = threading.Semaphore(0)
        self.answering: Answering[int] = Answering(self, lambda: None, lambda _: False, probes=probes)

    def answer(self, head: bytes, client: str, waited: float) -> Answer:
        self.waited.append(waited)
        self.asked.append(client)
        self._let.acquire()
        if head == b"faulty":
            raise ZeroDivisionError
        return Answer((head,), keep=True)

    def refuse(self, status: HTTPStatus) -> Answer:
        return Answer((b"%d" % status,), keep=False)

    def ask(self, numbers: Iterable[int], client: str = "client", head: bytes = b"x", host: str = "") -> None:
        """The client and the host may have the number in them: "client {}"."""
        for number in numbers:
            self.answering.ask(number, client.format(number), head, host.format(number))

    def wait_until_asked(self, clients: dict[str, int]) -> None:
        wait_for(lambda: Counter(self.asked), until=lambda asked: asked.total() >= sum(clients.values()))
        assert Counter(self.asked) == clients

    def finished(self, count: int) -> dict[int, bytes]:
        """Let all be answered; return the contents of so many answers, by number."""
        self._let.release(1000)
        answers: dict[int, bytes] = {}

        def there() -> bool:
            answers.update({asker: b"".join(answer.parts) for asker, answer in self.answering.finished()})
            return len(answers) >= count

        wait_for(there)
        return answers

    def close(self) -> None:
        self._let.release(1000)
        self.answering.close()


def queue(*, probes: bool = False) -> closing[Queue]:
    return closing(Queue(probes=probes))


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_every_thread_has_a_name_of_its_own_and_ends_when_it_is_closed() -> None:
    before = set(threading.enumerate())
    with queue() as requests:
        requests.ask(range(3))
        requests.wait_until_asked({"client": 3})
        threads = {each for each in set(threading.enumerate()) - before if each.name.startswith("answering ")}
        assert {thread.name for thread in threads} == {"answering 0", "answering 1", "answering 2"}
        assert all(thread.daemon for thread in threads), "it would hold up the exporter's end"
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_one_host_that_hangs_takes_few_places_and_one_client_not_all() -> None:
    """A client asks for one host, and for many; then others ask, and itself for another host."""
    with queue(probes=True) as requests:
        requests.ask(range(50), "greedy", host="silent")
        requests.ask([50], "greedy", host="good")
        requests.ask([51], "other", host="silent")
        requests.wait_until_asked({"greedy": MOST_PROBES_OF_A_HOST + 1, "other": 1})
        requests.ask(range(100, 100 + MOST_PROBES_OF_A_CLIENT), "greedy", host="host {}")
        requests.ask([52], "other", host="good")
        requests.wait_until_asked({"greedy": MOST_PROBES_OF_A_CLIENT, "other": 2})
        assert set(requests.finished(MOST_PROBES_OF_A_CLIENT + 53)) == {*range(53), *range(100, 300)}


def test_how_long_a_request_has_waited_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with queue() as requests:
        requests.ask(range(MOST_REQUESTS_OF_A_CLIENT + 1))
        requests.wait_until_asked({"client": MOST_REQUESTS_OF_A_CLIENT})
        clock.now += 3
        requests.finished(MOST_REQUESTS_OF_A_CLIENT + 1)
        assert requests.waited == [0.0] * MOST_REQUESTS_OF_A_CLIENT + [3.0]


def test_no_more_requests_than_that_are_answered_at_once_and_the_others_can_be_withdrawn() -> None:
    with queue() as requests:
        requests.ask(range(MOST_REQUESTS + 3), "client {}")
        requests.wait_until_asked({f"client {number}": 1 for number in range(MOST_REQUESTS)})
        time.sleep(0.1)  # for what must not happen
        assert len(requests.asked) == MOST_REQUESTS
        waiting = requests.answering
        assert waiting.withdraw(MOST_REQUESTS, f"client {MOST_REQUESTS}")
        assert not waiting.withdraw(0, "client 0"), "it is being answered"
        assert waiting.withdraw_newest(f"client {MOST_REQUESTS + 1}") == MOST_REQUESTS + 1
        assert not waiting.waits("client 0")
        assert set(requests.finished(MOST_REQUESTS + 1)) == {*range(MOST_REQUESTS), MOST_REQUESTS + 2}


def test_a_fault_costs_its_own_request_only(caplog: pytest.LogCaptureFixture) -> None:
    with queue() as requests:
        requests.ask([1], head=b"faulty")
        requests.ask([2], head=b"good")
        assert requests.finished(2) == {1: b"500", 2: b"good"}
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_requests_wait_while_there_is_no_thread_to_be_had_which_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with queue() as requests:
        for turn in (1, 2):  # in the second, threads that answer meanwhile
            with monkeypatch.context() as broken:
                broken.setattr(threading.Thread, "start", no_thread)
                requests.ask(range(10 * turn, 10 * turn + 2))
                assert requests.answering.finished() == []
            assert len(caplog.records) == turn
            requests.ask([10 * turn + 2])
            requests.wait_until_asked({"client": 3 * turn})
        assert set(requests.finished(6)) == {10, 11, 12, 20, 21, 22}
