"""A source that hangs, raises or answers late, and what a scrape makes of it."""

from __future__ import annotations

import threading
import time

import pytest

from virtscope.toolkit.sources import (
    SourceError,
    SourceReader,
    SourceRubbish,
    SourceTimeout,
    SourceUnavailable,
    reason_of,
)


def soon(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def test_an_answer_and_its_cost() -> None:
    reader = SourceReader("quick", lambda: 42)
    assert reader.answer(reader.ask(), soon()) == 42
    assert reader.cost.reads == 1


def test_what_a_source_raises_is_the_outcome() -> None:
    problem = SourceUnavailable("not here")

    def read() -> int:
        raise problem

    reader = SourceReader("broken", read)
    assert reader.answer(reader.ask(), soon()) is problem


def test_a_hanging_source_is_given_up_at_the_deadline_and_recovers() -> None:
    let_go = threading.Event()

    def read() -> str:
        assert let_go.wait(30)
        return "figures"

    reader = SourceReader("hanging", read)
    for _ in range(3):
        assert isinstance(reader.answer(reader.ask(), soon(0.02)), SourceTimeout)
    let_go.set()
    assert reader.answer(reader.ask(), soon()) == "figures"


def test_no_thread_piles_up_behind_a_hanging_source() -> None:
    let_go = threading.Event()
    reader = SourceReader("hanging", lambda: let_go.wait(30))
    threads = threading.active_count()
    for _ in range(10):
        reader.answer(reader.ask(), soon(0.01))
    assert threading.active_count() == threads
    let_go.set()


def test_a_scrape_never_gets_figures_from_before_it_came() -> None:
    """The first read hangs from before the second scrape until after it: its figures are old by then."""
    reads = iter(range(10))
    begun, let_go = threading.Event(), threading.Event()

    def read() -> int:
        number = next(reads)
        begun.set()
        assert let_go.wait(30)
        return number

    reader = SourceReader("slow", read)
    first = reader.ask()
    assert begun.wait(30)
    second = reader.ask()
    let_go.set()
    assert reader.answer(second, soon()) == 1
    assert first is not second


def test_scrapes_that_wait_together_share_one_read() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def read() -> None:
        begun.set()
        assert let_go.wait(30)

    reader = SourceReader("shared", read)
    reader.ask()
    assert begun.wait(30)
    waiting = {reader.ask() for _ in range(5)}
    let_go.set()
    assert len(waiting) == 1
    reader.answer(waiting.pop(), soon())
    assert reader.cost.reads == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SourceTimeout(), "timeout"),
        (SourceUnavailable(), "unavailable"),
        (SourceRubbish(), "rubbish"),
        (SourceError(), "error"),
        (ZeroDivisionError(), "error"),
    ],
)
def test_reasons(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
