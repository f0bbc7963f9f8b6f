"""Deadline and background sources that hang, fail and recover."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count

import pytest

from tests.support.clock import Clock
from tests.support.waiting import wait_for
from virtscope.toolkit import collect
from virtscope.toolkit.collect import (
    Background,
    InlineReader,
    SourceMalformed,
    SourceReader,
    SourceTimeout,
    SourceUnavailable,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(collect, "time", clock)
    monkeypatch.setattr(collect, "REST", 0.01)
    return clock


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """A hanging source waits for it; set at the end of the test at the latest."""
    event = threading.Event()
    yield event
    event.set()


class Spending:
    """A source whose reads take 5 s and 2 s of CPU time; every second one fails."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reads = 0
        self.problem = SourceUnavailable("not here")

    def read(self) -> int:
        self.clock.now += 5
        self.clock.cpu += 2
        self.reads += 1
        if self.reads % 2 == 0:
            raise self.problem
        return self.reads


def soon(seconds: float = 30) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize("kind", [SourceReader, InlineReader])
def test_what_a_source_gives_or_raises_and_what_reads_cost_failed_ones_included(
    clock: Clock, kind: type[SourceReader[int] | InlineReader[int]]
) -> None:
    spending = Spending(clock)
    reader = kind("spending", spending.read)
    assert reader.cost == (0, 0, 0)
    for outcome, cost in ((1, (1, 5, 2)), (spending.problem, (2, 10, 4)), (3, (3, 15, 6))):
        read = reader.ask()
        assert reader.answer(read, clock.now + 30) == outcome
        assert reader.cost == cost
        clock.now += 100  # between scrapes
        clock.cpu += 50
        assert reader.answer(read, clock.now - 1) == outcome, "what is there is given although the time is up"


def test_a_hanging_source_is_given_up_at_the_deadline_and_recovers(let_go: threading.Event) -> None:
    reader = SourceReader("that hangs", lambda: let_go.wait(30))
    for _ in range(5):
        outcome = reader.answer(reader.ask(), soon(0.02))
        assert isinstance(outcome, SourceTimeout)
        assert re.fullmatch(r"no answer for \d\.\d s; still waiting for it", str(outcome))
    assert len([each for each in threading.enumerate() if each.name == "source that hangs"]) == 1, "none pile up"
    let_go.set()
    assert reader.answer(reader.ask(), soon()) is True


def test_a_source_that_hangs_is_not_waited_for_as_long_as_a_scrape_would(
    monkeypatch: pytest.MonkeyPatch, let_go: threading.Event
) -> None:
    monkeypatch.setattr(collect, "HANGS", 0.2)
    monkeypatch.setattr(collect, "A_LITTLE", 0.1)
    reader, deadline = SourceReader("hanging", lambda: let_go.wait(30)), soon(60)
    for _ in range(2):  # the hanging one, and the next
        assert isinstance(reader.answer(reader.ask(), deadline), SourceTimeout)
    assert time.monotonic() < deadline - 30
    let_go.set()
    monkeypatch.setattr(collect, "HANGS", 30.0)
    assert reader.answer(reader.ask(), deadline) is True
    # One that was last read long ago doesn't hang.
    monkeypatch.setattr(collect, "HANGS", 0.05)
    monkeypatch.setattr(collect, "A_LITTLE", 0.0)
    deadline = soon(0.2)
    assert isinstance(reader.answer(Future(), deadline), SourceTimeout)
    assert time.monotonic() >= deadline


Start = Callable[..., Background[int]]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as started:

        def start_one(read: Callable[[], int], interval: float, takes: float = 0) -> Background[int]:
            background = Background("slow", read, interval, takes=takes)
            started.callback(background.close)
            background.start()
            return background

        yield start_one


@pytest.mark.parametrize(("takes", "served"), [(0, 180), (200, 600)])
def test_the_values_of_the_read_before_are_served_until_one_hangs_for_three_rounds(
    start: Start, clock: Clock, let_go: threading.Event, takes: int, served: int
) -> None:
    """A round is the source's minute, or the duration of a read if that is longer."""
    second, numbers = threading.Event(), count(1)

    def read() -> int:
        number = next(numbers)
        if number > 1:
            second.set()
            assert let_go.wait(30)
        clock.now += takes
        return number

    background = start(read, 60)
    wait_for(lambda: background.cost.reads == 1)
    background.wake()
    assert second.wait(30)
    clock.now += served - 1
    assert background.latest() == 1
    clock.now += 2
    with pytest.raises(SourceTimeout, match=f"no answer for {served + 1} s"):
        background.latest()
    let_go.set()
    wait_for(lambda: background.cost.reads > 1)
    assert background.latest() > 1


def test_the_first_read_may_take_what_it_takes_by_design(start: Start, clock: Clock, let_go: threading.Event) -> None:
    """A half-minute profile doesn't count as hanging after twenty seconds."""
    begun = threading.Event()

    def read() -> bool:
        begun.set()
        return let_go.wait(30)

    background = start(read, 60, takes=30)
    assert begun.wait(30)
    clock.now += 49
    with pytest.raises(SourceUnavailable, match="not read yet"):
        background.latest()
    assert background.age() is None
    clock.now += 2
    with pytest.raises(SourceTimeout, match="no answer for 51 s"):
        background.latest()
    let_go.set()
    wait_for(lambda: background.age() == 51)
    assert background.latest() is True


def test_a_failure_is_counted_at_once_and_reported_when_the_values_are_too_old(start: Start, clock: Clock) -> None:
    numbers = count()

    def read() -> int:
        number = next(numbers)
        if number == 1:
            return 1
        raise SourceMalformed("what is this") if number else SourceUnavailable("no such program")

    background = start(read, 60)
    background.wait_for_first(30)
    with pytest.raises(SourceUnavailable, match="no such program"):
        background.latest()
    background.wake()
    wait_for(lambda: background.cost.reads == 2)
    assert not any(background.failures.values()), "what is not there has not failed"
    background.wake()
    wait_for(lambda: background.failures["malformed"] == 1)
    assert background.latest() == 1
    clock.now += 181
    depths = set()
    for _ in range(3):
        with pytest.raises(SourceMalformed, match="what is this") as raised:
            background.latest()
        depths.add(len(raised.traceback))
    assert len(depths) == 1, "it gathers no tracebacks"


@pytest.mark.parametrize(("rest", "reads"), [(0.01, 2), (600.0, 1)])
def test_waking_it_has_it_read_early_but_not_without_a_rest(
    start: Start, monkeypatch: pytest.MonkeyPatch, rest: float, reads: int
) -> None:
    monkeypatch.setattr(collect, "REST", rest)
    background = start(lambda: 1, 600)
    wait_for(lambda: background.cost.reads == 1)
    for _ in range(50):
        background.wake()
    wait_for(lambda: background.cost.reads >= reads)
    time.sleep(0.02)  # gives forbidden events time to happen
    assert background.cost.reads == reads
