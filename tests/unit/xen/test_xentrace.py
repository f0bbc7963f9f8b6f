"""Windows of a fake xentrace: start and end, reasons for missing ones, and their counts."""

import random
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.waiting import wait_for
from tests.unit.xen.fake_programs import FakeXentrace, FakeXl
from tests.unit.xen.traced import BLOCKED, RUNNABLE, RUNNING, change, goes_on, lost, on
from virtscope.toolkit import bounded, collect
from virtscope.toolkit.collect import Background, SourceError, SourceTimeout, SourceUnavailable
from virtscope.xen import hypervisor, xentrace, xl
from virtscope.xen.model import DOM0, IDLE, REST, WaitEstimates
from virtscope.xen.toolstack import parse
from virtscope.xen.xentrace import NAMED, WaitCounts, Windows, Xentrace
from virtscope.xen.xl import Xl

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
REAL = (FIXTURES / "xentrace/one-cpu-three-guests.bin").read_bytes()
INTERVAL = 0.05
SECOND = 10**10  # cycles


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXentrace:
    fake = FakeXentrace(tmp_path, REAL)
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setattr(hypervisor, "_FOLDERS", ())
    return fake


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Xentrace]:
    source = Xentrace(str(tmp_path))
    yield source
    source.programs.close()


def process(procfs: Path, pid: int, name: str, state: str = "S") -> None:
    (procfs / str(pid)).mkdir()
    (procfs / str(pid) / "stat").write_text(f"{pid} ({name}) {state} 1 1 1 0 -1\n")


def test_a_window_is_a_second_of_state_changes_and_leaves_no_file_open(source: Xentrace, fake: FakeXentrace) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    fake.does('i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; cat "$folder/trace" > "$file"')
    assert [source.read() for _ in range(3)] == [REAL] * 3
    assert fake.asked()[0].startswith("-D -e 0x21000 -T 1 /proc/self/fd/")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert source.programs.cpu_seconds > 0


def test_nothing_is_traced_while_another_program_reads_the_buffer(
    source: Xentrace, fake: FakeXentrace, tmp_path: Path
) -> None:
    process(tmp_path, 7, "xentrace", "Z")  # a zombie
    process(tmp_path, 8, "xentrace_setsiz")
    process(tmp_path, 9, "a) (xentrace) S")
    (tmp_path / "10").mkdir()  # just ended
    assert source.read() == REAL
    for name in ("xentrace", "xenbaked"):
        process(tmp_path, 4711, name)
        with pytest.raises(SourceUnavailable, match="takes one reader"):
            source.read()
        shutil.rmtree(tmp_path / "4711")
    assert len(fake.asked()) == 1


def test_failures_of_xentrace(source: Xentrace, fake: FakeXentrace) -> None:
    for script, kind, words in (
        ("echo 'ERROR: failed to bind to VIRQ port (17 = File exists)' >&2", SourceUnavailable, "one reader"),
        ("echo 'could not enable trace buffers: Function not implemented' >&2", SourceUnavailable, "TRACEBUFFER"),
        ("echo 'xenctrl interface open: Permission denied' >&2", SourceError, "status 1: .*Permission denied"),
        ("kill -9 $$", SourceError, "ended by signal 9"),
    ):
        fake.does(f"{script}; exit 1")
        with pytest.raises(kind, match=words) as caught:
            source.read()
        assert type(caught.value) is kind


def test_xentrace_that_writes_too_much_is_asked_to_end(
    source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xentrace, "MAX_SIZE", len(REAL) - 1)
    # Like the real one, it ends by itself or, even before it writes, on SIGTERM, and only then stops tracing.
    ends = "trap 'echo ended > \"$folder/ended\"; exit 0' TERM"
    fake.does(f'{ends}; cat "$folder/trace" > "$file"; while :; do sleep 0.02; done')
    assert source.read() == REAL
    assert (fake.folder / "ended").exists()


def test_xentrace_that_hangs_is_killed_with_its_children(
    source: Xentrace, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, hours = fake.folder / "pid", count(1)

    def monotonic() -> float:
        """Return 0 until it has started a child, even on a busy machine."""
        return 3600.0 * next(hours) if started.exists() and started.read_text().endswith("\n") else 0.0

    monkeypatch.setattr(bounded, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    fake.does("trap '' TERM; sleep 600 & echo $! > \"$folder/pid\"; wait")
    with pytest.raises(SourceTimeout, match="did not end within"):
        source.read()
    stat = Path(f"/proc/{int(started.read_text())}/stat")
    wait_for(lambda: not stat.exists() or " Z " in stat.read_text(), not_yet=(OSError,))


def test_all_of_a_few_domains_are_named_and_unknown_ones_are_the_rest() -> None:
    counts = WaitCounts()
    counts.add({}, 60, {DOM0, 1, 2})
    assert counts.seconds == dict.fromkeys((0, 1, 2), dict.fromkeys((0, 1, 2, IDLE, REST), 0.0))
    counts.add({(1, 2): 0.25, (1, 1): 0.5, (1, IDLE): 0.125, (2, 0): 1.5}, 60, {DOM0, 1, 2})
    assert counts.seconds[1] == {1: 30.0, 0: 0.0, 2: 15.0, IDLE: 7.5, REST: 0.0}
    assert counts.seconds[2][0] == 90.0
    before = counts.seconds
    counts.add({(1, 99): 0.5, (98, 1): 0.5, (1, 3): 0.25, (3, 1): 0.2}, 60, {DOM0, 1, 3})  # domain 2 has ended
    assert counts.seconds[1] == {1: 30.0, 0: 0.0, 3: 15.0, IDLE: 7.5, REST: 30.0}
    assert counts.seconds[3][1] == 12.0
    assert counts.seconds.keys() == {DOM0, 1, 3}
    assert before[1][REST] == 0.0, "a table that was given out doesn't change"


def test_of_many_domains_those_most_in_the_way_are_named_until_others_clearly_are() -> None:
    counts, many = WaitCounts(), set(range(31))

    def row(times: int, waits: dict[tuple[int, int], float], of: int = 1) -> dict[int, float]:
        for _ in range(times):
            counts.add(waits, 10, many)
        return counts.seconds[of]

    waits = {(2, other): other / 100 for other in many}
    most = row(1, waits, of=2)
    assert set(most) == {2, DOM0, *range(31 - NAMED, 31), IDLE, REST}
    assert (most[30], sum(most.values())) == pytest.approx((3.0, 10 * sum(waits.values())))
    assert counts.seconds[3].keys() == {3, DOM0, IDLE, REST}  # nobody delayed it
    assert row(1, {(1, 5): 0.0005})[REST] == pytest.approx(0.005), "a little is not worth a name"
    named = {(1, other): 0.1 for other in range(2, 2 + NAMED)}
    before = row(1, named)
    was = row(20, {**named, (1, 20): 0.15})
    assert was.keys() == before.keys()
    assert was[REST] - before[REST] == pytest.approx(20 * 1.5)
    now = row(20, {**named, (1, 20): 0.9})
    assert (20 in now, len(now)) == (True, NAMED + 4)
    assert all(now[other] >= seconds for other, seconds in was.items() if other in now)
    assert 25 in row(60, {(1, 25): 0.01}), "the others give theirs up in time"


class Dom0:
    """Windows of the fake xentrace, and an xl that lists Dom0 and three guests on a host with one CPU."""

    def __init__(self, folder: Path, xentrace: FakeXentrace) -> None:
        self.xentrace = xentrace
        self.xl = FakeXl(folder, FIXTURES / "toolstack/xl-4.17-credit")
        self.pool_has("0")
        source = Xl()
        self.toolstack = Background("xl", lambda: parse(source.read()), 600, source.programs)
        self.windows = Windows(INTERVAL, self.toolstack, str(folder))

    def pool_has(self, cpus: str) -> None:
        self.xl.answer("cpupool-list -c", f"Name               CPU list\nPool-0             {cpus}\n")

    def start(self) -> None:
        self.toolstack.start()
        self.windows.background.start()

    def close(self) -> None:
        self.windows.background.close()
        self.toolstack.close()

    def estimates(self) -> WaitEstimates:
        self.start()
        wait_for(lambda: (found := self.windows.background.peek()) and found.windows >= 3)
        return self.windows.background.latest()

    def failure(self) -> SourceError:
        self.start()
        wait_for(lambda: self.windows.background.cost.reads)
        with pytest.raises(SourceError) as caught:
            self.windows.background.latest()
        return caught.value


@pytest.fixture
def dom0(tmp_path: Path, fake: FakeXentrace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dom0]:
    monkeypatch.setenv("PATH", f"{tmp_path}/fake-xl:{fake.path}")
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "no-socket"))
    monkeypatch.setattr(xl, "_FOLDERS", ())
    monkeypatch.setattr(collect, "REST", INTERVAL)
    dom0 = Dom0(tmp_path, fake)
    yield dom0
    dom0.close()


def test_each_window_but_the_first_counts_for_its_interval_and_begins_at_random(
    dom0: Dom0, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        bounds.append((least, most))
        return least

    monkeypatch.setattr(xentrace, "MARGIN", 0.02)
    monkeypatch.setattr(random, "uniform", uniform)
    found = dom0.estimates()
    intervals = (found.windows - 1) * INTERVAL
    assert found.seconds[1][3] == pytest.approx(intervals * 0.1809 / 0.9874, rel=0.01)
    assert found.seconds[1][DOM0] == pytest.approx(intervals * 0.02295 / 0.9874, rel=0.01)
    assert found.seconds.keys() == {0, 1, 2, 3}
    assert found.lost_records == 0
    assert dom0.windows.background.cost.cpu_seconds > 0
    assert set(bounds) == {(0, INTERVAL - 0.02)}
    assert len(bounds) >= found.windows - 1


def test_closing_waits_for_no_window(dom0: Dom0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda _least, _most: 600.0)
    dom0.start()
    wait_for(lambda: dom0.windows.background.cost.reads)
    dom0.windows.background.close()
    wait_for(lambda: not any(each.name == "background xentrace" for each in threading.enumerate()))


def test_affinity_narrows_the_pool_and_lost_records_are_counted(dom0: Dom0) -> None:
    dom0.pool_has("0,1,2")
    listed = (dom0.xl.answers / "vcpu-list").read_text().splitlines(keepends=True)
    pinned = [line.replace("all / all", "1-3 / all") if line.startswith("web01") else line for line in listed]
    dom0.xl.answer("vcpu-list", "".join(pinned))
    dom0.xentrace.writes(
        on(0, change(0, 3, BLOCKED, RUNNING), goes_on(SECOND, 3))
        + on(1, change(0, 2, BLOCKED, RUNNING), change(0, 1, BLOCKED, RUNNABLE), goes_on(SECOND, 2))
        + on(2, change(0, 0, BLOCKED, RUNNING), goes_on(SECOND, 0), lost(2 * SECOND, 7, since=SECOND + 1))
    )
    found = dom0.estimates()
    row = found.seconds[1]
    assert row[2] == row[0] > 0
    assert row[3] == row[IDLE] == 0
    assert found.lost_records == 7 * found.windows


def test_a_trace_that_is_too_short_is_refused(dom0: Dom0) -> None:
    changes = change(0, 1, BLOCKED, RUNNING), change(90, 2, BLOCKED, RUNNABLE)
    dom0.xentrace.writes(on(0, *changes, lost(SECOND, 123, since=100)))
    assert "0.000 s without gaps, in 2 changes of state, and lost 123" in str(dom0.failure())


def test_xl_is_asked_again_for_a_new_domain(dom0: Dom0) -> None:
    dom0.xentrace.writes(on(0, change(0, 9, BLOCKED, RUNNING), change(0, 1, BLOCKED, RUNNABLE), goes_on(SECOND, 9)))
    assert dom0.estimates().seconds[1][REST] > 0
    wait_for(lambda: dom0.toolstack.cost.reads > 1)


def test_without_pools_nothing_is_estimated(dom0: Dom0) -> None:
    dom0.xl.answer("cpupool-list -c", "nothing of the kind\n")
    assert "shows no CPU pool: b'nothing of the kind" in str(dom0.failure())


def test_without_a_toolstack_nothing_is_traced(dom0: Dom0) -> None:
    dom0.xl.complain("list -v -c", "Permission denied\n")
    (dom0.xl.answers / "list -v").unlink()
    assert "Permission denied" in str(dom0.failure())
    assert dom0.xentrace.asked() == []
