"""Windows of a fake xentrace: how it is run and ended, why there are none, and what is counted of them."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.refusals import refusal
from tests.support.waiting import wait_for
from tests.unit.xen.fake_xentrace import FakeXentrace
from tests.unit.xen.fake_xl import FakeXl
from tests.unit.xen.traced import BLOCKED, RUNNABLE, RUNNING, change, goes_on, lost, on
from virtscope.toolkit import collect
from virtscope.toolkit.collect import Background, SourceError, SourceTimeout, SourceUnavailable
from virtscope.xen import hypervisor, xentrace, xl
from virtscope.xen.model import DOM0, IDLE, REST, Toolstack, WaitEstimates
from virtscope.xen.toolstack import understand
from virtscope.xen.xentrace import NAMED, WaitCounts, Windows, Xentrace
from virtscope.xen.xl import Xl

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
REAL = (FIXTURES / "xentrace/one-cpu-three-guests.bin").read_bytes()
INTERVAL = 0.05


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXentrace:
    fake = FakeXentrace(tmp_path, REAL)
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setattr(hypervisor, "_FOLDERS", ())
    return fake


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


@pytest.fixture
def source(procfs: Path) -> Iterator[Xentrace]:
    source = Xentrace(str(procfs))
    yield source
    source.close()


def process(procfs: Path, pid: int, name: str, state: str = "S") -> None:
    (procfs / str(pid)).mkdir()
    (procfs / str(pid) / "stat").write_text(f"{pid} ({name}) {state} 1 1 1 0 -1\n")


# --- One window -------------------------------------------------------------------------------------------------------


def test_a_window_is_a_second_of_changes_of_state_and_nothing_of_it_stays_open(
    source: Xentrace, fake: FakeXentrace
) -> None:
    assert source.read() == REAL
    [asked] = fake.asked()
    assert asked.startswith("-D -e 0x21000 -T 1 /proc/self/fd/")
    assert source.program == str(fake.folder / "xentrace")
    before = len(list(Path("/proc/self/fd").iterdir()))
    fake.does('i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; cat "$folder/trace" > "$file"')
    for _ in range(3):
        source.read()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert source.cpu_seconds > 0


def test_beside_another_reader_nothing_is_traced(source: Xentrace, fake: FakeXentrace, procfs: Path) -> None:
    process(procfs, 7, "xentrace", "Z")  # it has ended, and its parent doesn't know yet
    process(procfs, 8, "xentrace_setsiz")
    process(procfs, 9, "a) (xentrace) S")
    (procfs / "10").mkdir()  # which has ended meanwhile
    (procfs / "self").mkdir()
    assert source.read() == REAL
    fake.asked_file.unlink()
    for name in ("xentrace", "xenbaked"):
        process(procfs, 4711, name)
        with pytest.raises(SourceUnavailable, match="takes one reader"):
            source.read()
        assert not fake.asked_file.exists()
        shutil.rmtree(procfs / "4711")


def test_why_nothing_was_traced(source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[tuple[str, type[SourceError], str]] = [
        ("echo 'ERROR: failed to bind to VIRQ port (17 = File exists)' >&2; exit 1", SourceUnavailable, "one reader"),
        (
            "echo 'could not enable trace buffers: Function not implemented' >&2; exit 1",
            SourceUnavailable,
            "CONFIG_TRACEBUFFER",
        ),
        ("echo 'xenctrl interface open: Permission denied' >&2; exit 1", SourceError, "status 1: .*Permission denied"),
        ("kill -9 $$", SourceError, "ended by signal 9"),
    ]
    for script, kind, words in complaints:
        fake.does(script)
        with pytest.raises(kind, match=words) as caught:
            source.read()
        assert isinstance(caught.value, SourceUnavailable) == (kind is SourceUnavailable), script
    monkeypatch.setenv("PATH", str(fake.folder.parent))
    with pytest.raises(SourceUnavailable, match="xentrace is not in PATH"):
        source.read()


def test_one_that_writes_too_much_is_asked_to_end_and_what_it_wrote_is_read(
    source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xentrace, "LARGEST", len(REAL) - 1)
    fake.writes_and_waits()
    assert source.read() == REAL
    assert fake.ended_when_asked()


def test_one_that_hangs_is_killed_with_all_that_it_started(
    source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, hours = fake.folder / "pid", count(1)

    def monotonic() -> float:
        """No time passes before it has started another, however busy the machine is."""
        return 3600.0 * next(hours) if started.exists() and started.read_text().endswith("\n") else 0.0

    monkeypatch.setattr(xentrace, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    fake.does("trap '' TERM; sleep 600 & echo $! > \"$folder/pid\"; wait")
    with pytest.raises(SourceTimeout, match="did not end within"):
        source.read()
    pid = int(started.read_text())

    def has_ended() -> bool:
        try:
            return " Z " in Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(has_ended)


def test_at_the_end_of_the_exporter_it_ends_as_it_does_by_itself(source: Xentrace, fake: FakeXentrace) -> None:
    fake.writes_and_waits()
    reading = threading.Thread(target=source.read)
    reading.start()
    wait_for(fake.waits)
    source.close()
    reading.join(60)
    assert not reading.is_alive()
    assert fake.ended_when_asked()
    with pytest.raises(SourceError, match="closed"):
        source.read()


def test_one_that_does_not_end_then_is_killed(
    source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xentrace, "PATIENCE", 0.1)
    fake.does("trap '' TERM; touch \"$folder/waits\"; sleep 600 & wait")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(refusal, SourceError, source.read)
        wait_for(fake.waits)
        source.close()
        assert str(reading.result(60)).partition("was ")[2] == "ended by signal 9"


# --- Counters ---------------------------------------------------------------------------------------------------------


def test_of_few_domains_all_are_named_from_the_beginning() -> None:
    counts = WaitCounts()
    none = dict.fromkeys((0, 1, 2, IDLE, REST), 0.0)
    counts.add({}, 60, {DOM0, 1, 2})
    assert counts.seconds == {0: none, 1: none, 2: none}
    counts.add({(1, 2): 0.25, (1, 1): 0.5, (1, IDLE): 0.125, (2, 0): 1.5}, 60, {DOM0, 1, 2})
    assert counts.seconds[1] == {1: 30.0, 0: 0.0, 2: 15.0, IDLE: 7.5, REST: 0.0}
    assert counts.seconds[2][0] == 90.0
    before = counts.seconds
    counts.add({(1, 99): 0.5, (98, 1): 0.5, (1, 98): 0.25}, 60, {DOM0, 1})
    assert counts.seconds[1][REST] == 45.0, "what is not known is nobody's waiting and the rest's running"
    assert counts.seconds.keys() == {DOM0, 1}
    assert before[1][REST] == 0.0, "a table that was given out doesn't change"


def test_of_many_those_most_in_the_way_are_named() -> None:
    counts = WaitCounts()
    many = set(range(31))
    waits = {(1, other): other / 100 for other in many}
    counts.add(waits, 10, many)
    row = counts.seconds[1]
    assert set(row) == {1, DOM0, *range(31 - NAMED, 31), IDLE, REST}
    assert row[30] == pytest.approx(3.0)
    assert sum(row.values()) == pytest.approx(10 * sum(waits.values()))
    assert counts.seconds[2].keys() == {2, DOM0, IDLE, REST}  # nobody was in its way


def test_a_name_stays_until_another_domain_is_clearly_more_in_the_way() -> None:
    counts = WaitCounts()
    many = set(range(31))
    first = {(1, other): 0.1 for other in range(2, 2 + NAMED)}
    counts.add(first, 10, many)
    before = set(counts.seconds[1])
    for _ in range(20):
        counts.add({**first, (1, 20): 0.15}, 10, many)
    assert set(counts.seconds[1]) == before
    assert counts.seconds[1][REST] == pytest.approx(20 * 1.5)
    was = dict(counts.seconds[1])
    for _ in range(20):
        counts.add({**first, (1, 20): 0.9}, 10, many)
    now = counts.seconds[1]
    assert 20 in now
    assert len(now) == NAMED + 4
    assert all(now[other] >= seconds for other, seconds in was.items() if other in now)


def test_one_that_was_in_the_way_gives_its_name_up_in_time() -> None:
    counts = WaitCounts()
    many = set(range(31))
    counts.add({(1, 5): 0.0005}, 10, many)
    assert counts.seconds[1][REST] == pytest.approx(0.005), "a little is not worth a name"
    counts.add({(1, other): 0.5 for other in range(2, 2 + NAMED)}, 10, many)
    for _ in range(30):
        counts.add({(1, 25): 0.01}, 10, many)
    assert 25 in counts.seconds[1]


def test_domains_come_and_go() -> None:
    counts = WaitCounts()
    counts.add({(1, 2): 0.5}, 10, {DOM0, 1, 2})
    counts.add({(1, 2): 0.1, (1, 3): 0.5, (3, 1): 0.2}, 10, {DOM0, 1, 3})  # d2 ended, and ran before it did
    assert counts.seconds.keys() == {DOM0, 1, 3}
    assert counts.seconds[1] == {1: 0.0, 0: 0.0, 3: 5.0, IDLE: 0.0, REST: 1.0}
    assert counts.seconds[3][1] == 2.0


# --- Windows in the background ----------------------------------------------------------------------------------------


@pytest.fixture
def toolstack(
    tmp_path: Path, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[FakeXl, Background[Toolstack]]]:
    """An xl that lists Dom0 and three guests on a host of one CPU, and what it answered."""
    answers = FakeXl(tmp_path, FIXTURES / "toolstack/xl-4.17-credit")
    answers.answer("cpupool-list -c", "Name               CPU list\nPool-0             0\n")
    monkeypatch.setenv("PATH", f"{answers.folder}:{fake.path}")
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "no-socket"))
    monkeypatch.setattr(xl, "_FOLDERS", ())
    monkeypatch.setattr(collect, "REST", INTERVAL)
    source = Xl()
    background = Background("xl", lambda: understand(source.read()), 600)
    background.start()
    yield answers, background
    background.close()
    source.close()


@pytest.fixture
def windows(toolstack: tuple[FakeXl, Background[Toolstack]], procfs: Path) -> Iterator[Windows]:
    windows = Windows(INTERVAL, toolstack[1], str(procfs))
    yield windows
    windows.close()


def ask_again(toolstack: Background[Toolstack]) -> None:
    """Have xl's answers of now, whether it was asked before they were changed or after."""
    wait_for(lambda: toolstack.cost.reads)
    known = toolstack.cost.reads
    toolstack.wake()
    wait_for(lambda: toolstack.cost.reads > known)


def latest(windows: Windows) -> WaitEstimates:
    """What they show, once there are three."""
    wait_for(lambda: (found := windows.background.peek()) and found.windows >= 3)
    return windows.background.latest()


def failure(windows: Windows) -> SourceError:
    wait_for(lambda: windows.background.cost.reads)
    with pytest.raises(SourceError) as caught:
        windows.background.latest()
    return caught.value


def test_each_window_but_the_first_is_taken_for_its_interval(windows: Windows) -> None:
    windows.start()
    found = latest(windows)
    intervals = (found.windows - 1) * INTERVAL
    assert found.seconds[1][3] == pytest.approx(intervals * 0.1809 / 0.9874, rel=0.01)
    assert found.seconds[1][DOM0] == pytest.approx(intervals * 0.02295 / 0.9874, rel=0.01)
    assert found.seconds.keys() == {0, 1, 2, 3}
    assert found.lost_records == 0
    assert windows.origin().endswith("/xentrace")
    assert windows.background.cost.cpu_seconds > 0


def test_windows_are_at_any_time_of_their_intervals(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the first, which is at once."""
    bounds: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        bounds.append((least, most))
        return least

    monkeypatch.setattr(xentrace, "MARGIN", 0.02)
    monkeypatch.setattr(random, "uniform", uniform)
    windows.start()
    found = latest(windows)
    assert set(bounds) == {(0, INTERVAL - 0.02)}
    assert len(bounds) >= found.windows - 1


def test_closing_waits_for_no_window(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda _least, _most: 600.0)
    windows.start()
    wait_for(lambda: windows.background.cost.reads)
    windows.close()
    wait_for(lambda: not any(each.name == "background xentrace" for each in threading.enumerate()))


def test_a_pools_cpu_that_does_nothing_is_idle(
    windows: Windows, toolstack: tuple[FakeXl, Background[Toolstack]]
) -> None:
    answers, background = toolstack
    answers.answer("cpupool-list -c", "Name               CPU list\nPool-0             0,1\n")
    ask_again(background)
    windows.start()
    row = latest(windows).seconds[1]
    assert row[IDLE] > 0
    assert {other for other, seconds in row.items() if seconds} == {IDLE}


def test_affinity_narrows_the_pool(
    windows: Windows, fake: FakeXentrace, toolstack: tuple[FakeXl, Background[Toolstack]]
) -> None:
    answers, background = toolstack
    answers.answer("cpupool-list -c", "Name               CPU list\nPool-0             0,1,2\n")
    listed = (answers.answers / "vcpu-list").read_text()
    pinned = [
        line.replace("all / all", "1-2 / all") if line.startswith("web01") else line for line in listed.split("\n")
    ]
    answers.answer("vcpu-list", "\n".join(pinned))
    ask_again(background)
    second = 10**10
    fake.writes(
        on(0, change(0, 3, BLOCKED, RUNNING), goes_on(second, 3))
        + on(1, change(0, 2, BLOCKED, RUNNING), change(0, 1, BLOCKED, RUNNABLE), goes_on(second, 2))
        + on(2, change(0, 0, BLOCKED, RUNNING), goes_on(second, 0))
    )
    windows.start()
    row = latest(windows).seconds[1]
    assert row[2] == row[DOM0] > 0
    assert row[3] == row[IDLE] == 0


def test_lost_records_are_counted(windows: Windows, fake: FakeXentrace) -> None:
    second = 10**10
    fake.writes(on(0, change(0, 1, BLOCKED, RUNNING), goes_on(second, 1), lost(2 * second, 7, since=second + 1)))
    windows.start()
    found = latest(windows)
    assert found.lost_records == 7 * found.windows


def test_too_little_to_estimate_from(windows: Windows, fake: FakeXentrace) -> None:
    fake.writes(on(0, change(0, 1, BLOCKED, RUNNING), change(90, 2, BLOCKED, RUNNABLE), lost(10**10, 123, since=100)))
    windows.start()
    assert "0.000 s without gaps, in 2 changes of state, and lost 123" in str(failure(windows))


def test_a_new_domain_has_xl_asked_again(
    windows: Windows, fake: FakeXentrace, toolstack: tuple[FakeXl, Background[Toolstack]]
) -> None:
    second = 10**10
    fake.writes(on(0, change(0, 9, BLOCKED, RUNNING), change(0, 1, BLOCKED, RUNNABLE), goes_on(second, 9)))
    windows.start()
    row = latest(windows).seconds[1]
    assert row[REST] > 0
    wait_for(lambda: toolstack[1].cost.reads > 1)


def test_beside_another_reader_the_reason_is_shown(windows: Windows, procfs: Path) -> None:
    process(procfs, 4711, "xentrace")
    windows.start()
    assert "takes one reader" in str(failure(windows))
    assert isinstance(failure(windows), SourceUnavailable)
    assert not any(windows.background.failures.values()), "what is left off has not failed"


def test_pools_that_cannot_be_listed(windows: Windows, toolstack: tuple[FakeXl, Background[Toolstack]]) -> None:
    toolstack[0].answer("cpupool-list -c", "nothing of the kind\n")
    windows.start()
    assert "shows no CPU pool: b'nothing of the kind" in str(failure(windows))


def test_without_a_toolstack_nothing_is_traced(procfs: Path, fake: FakeXentrace) -> None:
    def refuse() -> Toolstack:
        raise SourceUnavailable("neither xl nor xm is in PATH")

    background = Background("xl", refuse, 600)
    background.start()
    windows = Windows(INTERVAL, background, str(procfs))
    windows.start()
    assert "neither xl nor xm" in str(failure(windows))
    windows.close()
    background.close()
    assert not fake.asked_file.exists()
