"""Two Prometheus that scrape at the same moment get one exposition, whichever asks first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import pytest

from tests.unit.waiting import within_a_minute
from virtscope.toolkit import moment
from virtscope.toolkit.moment import Moments
from virtscope.toolkit.pages import NotScraped, Pages


class Clock:
    """Stands still until it is set forward."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Counter:
    """An exporter whose only metric is how often it was scraped; each scrape lasts until `let` is set."""

    name = "vestat"

    def __init__(self) -> None:
        self.scrapes = 0
        self.let = threading.Event()
        self.let.set()

    def scrape(self, *_asked: Any, **_named: Any) -> bytes:
        self.scrapes += 1
        own = self.scrapes
        assert self.let.wait(30)
        return b"%d" % own


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(moment, "time", found)
    return found


def test_what_comes_a_moment_later_is_the_same(clock: Clock) -> None:
    moments, counter = Moments(), Counter()
    first = moments.exposition("page", 5, counter.scrape)
    clock.now += moment.SECONDS - 0.01
    assert moments.exposition("page", 5, counter.scrape) == first == b"1"
    assert moments.exposition("another", 5, counter.scrape) == b"2"
    clock.now += 0.02
    assert moments.exposition("page", 5, counter.scrape) == b"3"


def test_one_that_comes_while_another_is_under_way_waits_for_it(clock: Clock) -> None:
    moments, counter = Moments(), Counter()
    counter.let.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(moments.exposition, "page", 30, counter.scrape)
        within_a_minute(lambda: counter.scrapes == 1)
        clock.now += moment.SECONDS / 2
        second = pool.submit(moments.exposition, "page", 30, counter.scrape)
        assert not second.done()
        counter.let.set()
        assert (first.result(30), second.result(30)) == (b"1", b"1")


@pytest.mark.usefixtures("clock")
def test_one_that_cannot_wait_for_another_scrapes_itself() -> None:
    moments, counter = Moments(), Counter()
    counter.let.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(moments.exposition, "page", 30, counter.scrape)
        within_a_minute(lambda: counter.scrapes == 1)
        assert moments.exposition("page", 0.01, lambda: b"own") == b"own"
        counter.let.set()
        assert first.result(30) == b"1"


@pytest.mark.usefixtures("clock")
def test_what_the_first_raised_the_second_raises() -> None:
    moments = Moments()

    def refused() -> bytes:
        raise NotScraped(HTTPStatus.SERVICE_UNAVAILABLE, "503: xen1")

    for scrape in (refused, lambda: b"never asked"):
        with pytest.raises(NotScraped, match="503: xen1"):
            moments.exposition("page", 5, scrape)


def test_nothing_is_kept_longer_than_a_moment(clock: Clock) -> None:
    moments, counter = Moments(), Counter()
    for number in range(3):
        moments.exposition(number, 5, counter.scrape)
    clock.now += moment.SECONDS
    moments.exposition("page", 5, counter.scrape)
    assert list(moments._scrapes) == ["page"]


@pytest.mark.usefixtures("clock")
def test_only_what_prometheus_asks_for_is_shared() -> None:
    """Somebody with curl who looks twice sees the second look."""
    pages = Pages("/metrics", None, Counter())

    def get(*headers: str) -> bytes:
        head = "".join(f"{line}\r\n" for line in ("GET /metrics HTTP/1.1", *headers, ""))
        return b"".join(pages.answer(head.encode(), "client").parts).partition(b"\r\n\r\n")[2]

    scrape = "X-Prometheus-Scrape-Timeout-Seconds: 10"
    assert [get(scrape), get(scrape), get(), get()] == [b"1", b"1", b"2", b"3"]
    assert get(scrape, "Accept: application/openmetrics-text") == b"4"
