"""Whose request is answered next, and what becomes of those that can't be."""

from __future__ import annotations

import threading
import time
from collections import Counter
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from virtscope.toolkit import answering as module
from virtscope.toolkit.answering import (
    MOST_PROBES,
    MOST_PROBES_OF_A_CLIENT,
    MOST_PROBES_OF_A_HOST,
    MOST_REQUESTS,
    MOST_REQUESTS_OF_A_CLIENT,
    Answer,
    Answering,
)


class Slow:
    """Answers once it is let; knows what it was asked, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waited: list[float] = []
        self.let = threading.Semaphore(0)

    def answer(self, head: bytes, client: str, waited: float) -> Answer:
        self.waited.append(waited)
        self.asked.append(client)
        self.let.acquire()
        if head == b"faulty":
            raise ZeroDivisionError
        return Answer((head,), keep=True)

    def refuse(self, status: HTTPStatus) -> Answer:
        return Answer((b"%d" % status,), keep=False)

    def wait_for(self, count: int) -> None:
        end = time.monotonic() + 30
        while len(self.asked) < count:
            assert time.monotonic() < end, self.asked
            time.sleep(0.005)


def never_gone(asker: int) -> bool:
    del asker
    return False


def finished(answering: Answering[int], count: int) -> dict[int, bytes]:
    """Return the contents of so many answers, by client."""
    end = time.monotonic() + 30
    answers: dict[int, bytes] = {}
    while len(answers) < count:
        assert time.monotonic() < end, answers
        answers.update({asker: b"".join(answer.parts) for asker, answer in answering.finished()})
        time.sleep(0.005)
    return answers


def test_the_limits_are_those_of_docs_security_md() -> None:
    assert (MOST_REQUESTS, MOST_REQUESTS_OF_A_CLIENT) == (40, 10)
    assert (MOST_PROBES, MOST_PROBES_OF_A_CLIENT, MOST_PROBES_OF_A_HOST) == (240, 200, 4)


def test_every_thread_has_a_name_of_its_own_and_ends_when_it_is_closed() -> None:
    answers = Slow()
    before = set(threading.enumerate())
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    for number in range(3):
        answering.ask(number, "client", b"x")
    answers.wait_for(3)
    threads = set(threading.enumerate()) - before
    assert {thread.name for thread in threads} == {"answering 0", "answering 1", "answering 2"}
    assert all(thread.daemon for thread in threads), "it would hold up the exporter's end"
    answers.let.release(3)
    answering.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_client_with_many_requests_leaves_threads_to_others() -> None:
    answers = Slow()
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    many = MOST_REQUESTS + 5
    for number in range(many):
        answering.ask(number, "greedy", b"its")
    answering.ask(many, "other", b"other's")
    answers.wait_for(MOST_REQUESTS_OF_A_CLIENT + 1)
    assert Counter(answers.asked) == {"greedy": MOST_REQUESTS_OF_A_CLIENT, "other": 1}  # whichever thread was the first
    for _ in range(many + 1):
        answers.let.release()
    assert finished(answering, many + 1) == {**dict.fromkeys(range(many), b"its"), many: b"other's"}
    answering.close()


def test_one_host_that_hangs_takes_few_places_and_one_client_not_all() -> None:
    """A client asks for one host, and for many; then others ask, and itself for another host."""
    answers = Slow()
    answering: Answering[int] = Answering(answers, lambda: None, never_gone, probes=True)
    for number in range(50):
        answering.ask(number, "greedy", b"x", "silent")
    answering.ask(50, "greedy", b"x", "good")
    answering.ask(51, "other", b"x", "silent")
    answers.wait_for(MOST_PROBES_OF_A_HOST + 2)
    assert Counter(answers.asked) == {"greedy": MOST_PROBES_OF_A_HOST + 1, "other": 1}
    for number in range(MOST_PROBES_OF_A_CLIENT):
        answering.ask(100 + number, "greedy", b"x", f"host {number}")
    answering.ask(52, "other", b"x", "good")
    answers.wait_for(MOST_PROBES_OF_A_CLIENT + 2)
    assert Counter(answers.asked) == {"greedy": MOST_PROBES_OF_A_CLIENT, "other": 2}
    answers.let.release(MOST_PROBES_OF_A_CLIENT + 53)
    assert set(finished(answering, MOST_PROBES_OF_A_CLIENT + 53)) == {*range(53), *range(100, 300)}
    answering.close()


def test_how_long_a_request_has_waited_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    answers = Slow()
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    for number in range(MOST_REQUESTS_OF_A_CLIENT + 1):
        answering.ask(number, "client", b"x")
    answers.wait_for(MOST_REQUESTS_OF_A_CLIENT)
    clock.now += 3
    answers.let.release(MOST_REQUESTS_OF_A_CLIENT + 1)
    finished(answering, MOST_REQUESTS_OF_A_CLIENT + 1)
    assert answers.waited == [0.0] * MOST_REQUESTS_OF_A_CLIENT + [3.0]
    answering.close()


def test_no_more_requests_than_that_are_answered_at_once() -> None:
    answers = Slow()
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    for number in range(MOST_REQUESTS + 3):
        answering.ask(number, f"client {number}", b"x")
    answers.wait_for(MOST_REQUESTS)
    time.sleep(0.1)
    assert len(answers.asked) == MOST_REQUESTS
    assert answering.withdraw(MOST_REQUESTS, f"client {MOST_REQUESTS}")
    assert not answering.withdraw(0, "client 0"), "it is being answered"
    assert answering.withdraw_newest(f"client {MOST_REQUESTS + 1}") == MOST_REQUESTS + 1
    assert not answering.waits("client 0")
    for _ in range(MOST_REQUESTS + 1):
        answers.let.release()
    assert set(finished(answering, MOST_REQUESTS + 1)) == {*range(MOST_REQUESTS), MOST_REQUESTS + 2}
    answering.close()


def test_who_has_gone_while_it_waited_gets_no_turn() -> None:
    answers = Slow()
    gone = {MOST_REQUESTS, MOST_REQUESTS + 1}
    answering: Answering[int] = Answering(answers, lambda: None, gone.__contains__)
    for number in range(MOST_REQUESTS + 3):
        answering.ask(number, f"client {number}", b"x")
    for _ in range(MOST_REQUESTS + 1):
        answers.let.release()
    assert set(finished(answering, MOST_REQUESTS + 1)) == {*range(MOST_REQUESTS), MOST_REQUESTS + 2}
    assert f"client {MOST_REQUESTS}" not in answers.asked
    answering.close()


def test_a_fault_costs_its_own_request_only(caplog: pytest.LogCaptureFixture) -> None:
    answers = Slow()
    answers.let.release(2)
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    answering.ask(1, "client", b"faulty")
    answering.ask(2, "client", b"good")
    assert finished(answering, 2) == {1: b"500", 2: b"good"}
    assert [record.exc_info is not None for record in caplog.records] == [True]
    answering.close()


def test_requests_wait_while_there_is_no_thread_to_be_had(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    answers = Slow()
    answers.let.release(60)
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", no_thread)
        for number in range(59):
            answering.ask(number, "client", b"x")
        assert answering.finished() == []
    assert len(caplog.records) == 1
    answering.ask(59, "client", b"x")
    assert set(finished(answering, 60)) == set(range(60))
    answering.close()


def test_each_time_that_threads_run_out_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    answers = Slow()
    answering: Answering[int] = Answering(answers, lambda: None, never_gone)
    for busy in (0, 1):  # threads that answer meanwhile
        with monkeypatch.context() as broken:
            broken.setattr(threading.Thread, "start", no_thread)
            for number in range(2):
                answering.ask(10 * busy + number, "client", b"x")
        assert len(caplog.records) == busy + 1
        answering.ask(10 * busy + 2, "client", b"x")
        answers.wait_for(3 * (busy + 1))
    answers.let.release(6)
    finished(answering, 6)
    answering.close()
