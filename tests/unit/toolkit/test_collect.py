"""Sources under a deadline and in the background, against sources that hang, fail and come back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace

import pytest

from tests.unit.waiting import within_a_minute
from virtscope.toolkit import collect
from virtscope.toolkit.collect import (
    Background,
    InlineReader,
    Read,
    SourceError,
    SourceMalformed,
    SourceReader,
    SourceTimeout,
    SourceUnavailable,
    reason_of,
)

# --- Under a deadline -------------------------------------------------------------------------------------------------


def soon(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def test_an_answer_and_its_cost() -> None:
    reader = SourceReader("quick", lambda: 42)
    assert reader.answer(reader.ask(), soon()) == 42
    assert reader.cost.reads == 1


class Spending:
    """A source whose reads take 5 s and 2 s of CPU time, by clocks of its own; each second one fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.cpu = 1000.0, 100.0
        self.reads = 0
        clocks = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.cpu)
        monkeypatch.setattr(collect, "time", clocks)

    def read(self) -> int:
        self.now += 5
        self.cpu += 2
        self.reads += 1
        if self.reads % 2 == 0:
            raise SourceUnavailable("not here")
        return self.reads


@pytest.mark.parametrize("kind", [SourceReader, InlineReader])
def test_what_reads_take_is_their_cost_failed_ones_included(
    monkeypatch: pytest.MonkeyPatch, kind: type[SourceReader[int] | InlineReader[int]]
) -> None:
    spending = Spending(monkeypatch)
    reader = kind("spending", spending.read)
    assert reader.cost == (0, 0, 0)
    for cost in ((1, 5, 2), (2, 10, 4), (3, 15, 6)):
        reader.answer(reader.ask(), spending.now + 30)
        assert reader.cost == cost
        spending.now += 100  # between scrapes
        spending.cpu += 50


def test_what_reads_in_the_background_take_is_their_cost_that_of_programs_included(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spending = Spending(monkeypatch)
    background = Background("spending", spending.read, 0, lambda: 10.0 * spending.reads)
    assert background.cost == (0, 0, 0)
    background.start()
    within_a_minute(lambda: spending.reads >= 3)
    background.close()
    background._thread.join(30)
    reads = spending.reads
    assert background.cost == (reads, 5 * reads, (2 + 10) * reads)


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
        return "values"

    reader = SourceReader("hanging", read)
    for _ in range(3):
        assert isinstance(reader.answer(reader.ask(), soon(0.02)), SourceTimeout)
    let_go.set()
    assert reader.answer(reader.ask(), soon()) == "values"


def test_a_source_that_hangs_is_not_waited_for_as_long_as_a_scrape_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "HANGS", 0.2)
    monkeypatch.setattr(collect, "A_LITTLE", 0.1)
    let_go = threading.Event()
    reader = SourceReader("hanging", lambda: let_go.wait(30))
    deadline = time.monotonic() + 60
    for _ in range(2):  # the one that hangs, and the next
        outcome = reader.answer(reader.ask(), deadline)
        assert isinstance(outcome, SourceTimeout)
    assert time.monotonic() < deadline - 30
    let_go.set()
    monkeypatch.setattr(collect, "HANGS", 30.0)
    assert reader.answer(reader.ask(), deadline) is True


def test_how_long_a_source_is_waited_for_is_as_docs_security_md_says() -> None:
    assert (collect.HANGS, collect.A_LITTLE) == (10, 0.5)


def test_what_is_there_is_given_although_the_time_is_up() -> None:
    reader = SourceReader("quick", lambda: 42)
    read = reader.ask()
    assert reader.answer(read, soon()) == 42
    assert reader.answer(read, time.monotonic() - 1) == 42


def test_for_how_long_there_has_been_no_answer_is_said() -> None:
    let_go = threading.Event()
    reader = SourceReader("hanging", lambda: let_go.wait(30))
    outcome = reader.answer(reader.ask(), time.monotonic() + 0.2)
    assert re.fullmatch(r"no answer for \d\.\d s; still waiting for it", str(outcome))
    let_go.set()


def test_a_source_that_was_last_read_long_ago_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "HANGS", 0.05)
    monkeypatch.setattr(collect, "A_LITTLE", 0.0)
    reader = SourceReader("idle", lambda: None)
    assert reader.ask().wait(30)
    begun = time.monotonic()
    not_begun: Read[None] = Read()
    assert isinstance(reader.answer(not_begun, begun + 0.2), SourceTimeout)
    assert time.monotonic() >= begun + 0.2


def test_no_thread_piles_up_behind_a_hanging_source() -> None:
    let_go = threading.Event()
    reader = SourceReader("hanging", lambda: let_go.wait(30))
    threads = threading.active_count()
    for _ in range(10):
        reader.answer(reader.ask(), soon(0.01))
    assert threading.active_count() == threads
    let_go.set()


def test_a_scrape_never_gets_values_from_before_it_came() -> None:
    """The first read hangs from before the second scrape until after it: its values are old by then."""
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
        (SourceMalformed(), "malformed"),
        (SourceError(), "error"),
        (ZeroDivisionError(), "error"),
    ],
)
def test_reasons(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


# --- In the background ------------------------------------------------------------------------------------------------


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], int], float], Background[int]]]:
    started: list[Background[int]] = []

    def start_one(read: Callable[[], int], interval: float) -> Background[int]:
        background = Background("slow", read, interval)
        started.append(background)
        background.start()
        return background

    yield start_one
    for background in started:
        background.close()


Start = Callable[[Callable[[], int], float], Background[int]]


def test_it_reads_on_its_interval_whoever_asks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "OLDEST", 6000)  # rounds, of 10 ms
    numbers = count(1)
    background = start(lambda: next(numbers), 0.01)
    within_a_minute(lambda: background.cost.reads >= 3)
    assert background.latest() >= 3
    assert background.age() is not None


def test_the_first_read_can_be_waited_for_whether_or_not_it_succeeds(start: Start) -> None:
    begun = threading.Event()

    def fail() -> int:
        begun.wait(30)
        raise SourceUnavailable("gone")

    background = start(fail, 600)
    background.wait_for_first(0)
    assert background.cost.reads == 0
    begun.set()
    background.wait_for_first(30)
    with pytest.raises(SourceUnavailable, match="gone"):
        background.latest()


def test_a_read_that_hangs_blocks_no_scrape_and_leaves_the_values_of_the_one_before(start: Start) -> None:
    let_go, numbers = threading.Event(), count(1)

    def read() -> int:
        number = next(numbers)
        assert number == 1 or let_go.wait(30)
        return number

    background = start(read, 0.3)
    within_a_minute(lambda: background.cost.reads == 1)
    assert background.latest() == 1
    with pytest.raises(SourceTimeout):  # after three intervals
        within_a_minute(lambda: background.latest() != 1)
    let_go.set()
    within_a_minute(lambda: background.cost.reads > 1)
    assert background.latest() > 1


class Clock:
    """In the place of the module `time` in background.py."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("virtscope.toolkit.collect.time", clock)
    monkeypatch.setattr("virtscope.toolkit.collect.REST", 0.01)
    return clock


def test_a_read_slower_than_its_interval_is_served_until_it_hangs(start: Start, clock: Clock) -> None:
    """Each takes 200 s, every minute is asked for: the value of the first stands while two more could have ended."""
    second, let_go, numbers = threading.Event(), threading.Event(), count(1)

    def read() -> int:
        number = next(numbers)
        if number > 1:
            second.set()
            assert let_go.wait(30)
        clock.now += 200
        return number

    background = start(read, 60)
    within_a_minute(lambda: background.cost.reads == 1)
    assert background.latest() == 1
    assert second.wait(30)
    clock.now += 400
    assert background.latest() == 1
    clock.now += 300
    with pytest.raises(SourceTimeout, match="no answer for 700 s"):
        background.latest()
    let_go.set()
    within_a_minute(lambda: background.cost.reads > 1)
    assert background.latest() > 1


def test_the_first_read_may_take_what_it_takes_by_design(clock: Clock) -> None:
    """A profile of half a minute is no hang after twenty seconds."""
    begun, let_go = threading.Event(), threading.Event()

    def read() -> bool:
        begun.set()
        return let_go.wait(30)

    background = Background("first", read, 60, takes=30)
    background.start()
    assert begun.wait(30)
    clock.now += 49
    with pytest.raises(SourceUnavailable, match="not read yet"):
        background.latest()
    clock.now += 2
    with pytest.raises(SourceTimeout, match="no answer for 51 s"):
        background.latest()
    let_go.set()
    background.close()


def test_before_the_first_read_is_done_there_is_nothing_and_no_failure(start: Start) -> None:
    let_go = threading.Event()
    background = start(lambda: int(let_go.wait(30)), 60)
    with pytest.raises(SourceUnavailable, match="not read yet"):
        background.latest()
    assert background.age() is None
    let_go.set()
    within_a_minute(lambda: background.age() is not None)
    assert background.latest() == 1


def test_a_failure_is_counted_at_once_and_reported_when_the_values_are_too_old(start: Start) -> None:
    numbers = count(1)

    def read() -> int:
        if next(numbers) == 1:
            return 1
        raise SourceMalformed("what is this")

    background = start(read, 0.5)
    within_a_minute(lambda: background.failures["malformed"] >= 1)
    assert background.latest() == 1
    with pytest.raises(SourceMalformed, match="what is this"):
        within_a_minute(lambda: background.latest() != 1)


def test_what_is_not_there_is_no_failure_and_is_looked_for_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "OLDEST", 6000)  # rounds, of 10 ms
    numbers = count(1)

    def read() -> int:
        if next(numbers) < 3:
            raise SourceUnavailable("no such program")
        return 42

    background = start(read, 0.01)
    within_a_minute(lambda: background.age() is not None)
    assert background.latest() == 42
    assert not any(background.failures.values())


def test_a_fault_of_ours_reaches_the_scrape_and_gathers_no_tracebacks(start: Start) -> None:
    def read() -> int:
        raise ZeroDivisionError

    background = start(read, 60)
    within_a_minute(lambda: background.failures["error"] == 1)
    depths = set()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as raised:
            background.latest()
        depths.add(len(raised.traceback))
    assert len(depths) == 1


def test_waking_it_has_it_read_early(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("virtscope.toolkit.collect.REST", 0.01)
    background = start(lambda: 1, 600)
    within_a_minute(lambda: background.cost.reads == 1)
    background.wake()
    within_a_minute(lambda: background.cost.reads == 2)


def test_waking_it_again_and_again_does_not_have_it_read_without_a_rest(start: Start) -> None:
    background = start(lambda: 1, 600)
    within_a_minute(lambda: background.cost.reads == 1)
    for _ in range(50):
        background.wake()
        time.sleep(0.001)
    assert background.cost.reads == 1


def test_the_programs_it_runs_are_in_its_cost() -> None:
    spent = iter(range(0, 1000, 5))
    background = Background("slow", lambda: 1, 600, programs_cpu_seconds=lambda: next(spent))
    background.start()
    within_a_minute(lambda: background.cost.reads == 1)
    background.close()
    assert background.cost.cpu_seconds >= 5


def test_no_read_begins_after_its_end(start: Start) -> None:
    background = start(lambda: 1, 0.01)
    within_a_minute(lambda: background.cost.reads > 0)
    background.close()
    within_a_minute(lambda: not any(thread.name == "background slow" for thread in threading.enumerate()))


def test_errors_it_can_name_keep_their_words(start: Start) -> None:
    def read() -> int:
        raise SourceError("xl ended with status 1: permission denied")

    background = start(read, 60)
    within_a_minute(lambda: background.failures["error"] == 1)
    with pytest.raises(SourceError, match="permission denied"):
        background.latest()
