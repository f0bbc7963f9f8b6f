"""A recording played: what is served when, and how counters go on from one pass to the next."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric

from virtscope.toolkit import recording
from virtscope.toolkit.collect import SourceMalformed, SourceTimeout, SourceUnavailable
from virtscope.toolkit.families import family
from virtscope.toolkit.recording import Failed, Header, Writer
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Source

Counters = dict[str, float]  # by guest


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def header(interval: float = 1.0) -> Header:
    return Header("test", ("guests",), interval, "2026-01-01", False)


def write(path: Path, readings: Sequence[tuple[float, object]]) -> Path:
    path.unlink(missing_ok=True)
    writer = Writer(path, header())
    for seconds, outcome in readings:
        writer.write(seconds, "guests", outcome)
    writer.close()
    return path


def families(counters: Counters) -> list[Metric]:
    samples = [({"guest": guest}, value) for guest, value in counters.items()]
    return [family("cpu_seconds_total", "CPU.", samples), family("guests", "Guests.", [({}, len(samples))])]


def decode(data: object) -> Counters:
    if not isinstance(data, dict):
        raise SourceMalformed("no guests")
    return {guest: recording.real(value) for guest, value in data.items()}


def playing(path: Path, clock: Clock, speed: float = 1, once: bool = False) -> Source:
    return Playback(path, "test", speed, once, clock).source("guests", "guests", decode, lambda: families)


def counters(source: Source) -> Counters:
    cpu, _ = source.read()
    return {sample.labels["guest"]: sample.value for sample in cpu.samples}


def test_the_earlier_of_two_readings_is_served_until_the_later_ones_time(tmp_path: Path, clock: Clock) -> None:
    """The first reading asked for is the beginning, whatever time the recording's first one has."""
    source = playing(write(tmp_path / "r.jsonl.gz", [(5, {"a": 1}), (7, {"a": 2}), (8, {"a": 3})]), clock)
    seen = []
    for _ in range(8):
        seen.append(counters(source)["a"])
        clock.now += 0.5
    assert seen == [1, 1, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("late", [-0.4, -0.01, 0, 0.01, 0.4])
def test_one_that_begins_at_a_time_is_played_as_of_that_time(tmp_path: Path, clock: Clock, late: float) -> None:
    """Whenever the first scrape is, and however late the others are by less than half a reading's time."""
    writer = Writer(tmp_path / "r.jsonl.gz", header()._replace(begins=5000.0))
    for t in range(100):
        writer.write(t, "guests", {"a": t})
    writer.close()
    for first in (5000.0, 5030.0, 5030.25, 5030.999):
        played = Playback(tmp_path / "r.jsonl.gz", "test", 1, False, clock, unix_time=partial(float, first))
        source = played.source("guests", "guests", decode, lambda: families)
        began = counters(source)["a"]
        assert began == first // 1 - 5000
        clock.now += 5 + late
        assert counters(source)["a"] == began + 5
        clock.now += 95 - late
        assert counters(source)["a"] == 99 + began, "it goes round as ever"


def test_one_that_begins_later_waits_with_its_first_reading(tmp_path: Path, clock: Clock) -> None:
    writer = Writer(tmp_path / "r.jsonl.gz", header()._replace(begins=5000.0))
    writer.write(0, "guests", {"a": 7})
    writer.close()
    played = Playback(tmp_path / "r.jsonl.gz", "test", 1, False, clock, unix_time=lambda: 4000.0)
    assert counters(played.source("guests", "guests", decode, lambda: families)) == {"a": 7}


def test_speed(tmp_path: Path, clock: Clock) -> None:
    source = playing(write(tmp_path / "r.jsonl.gz", [(t, {"a": t}) for t in range(100)]), clock, speed=10)
    counters(source)
    clock.now += 4
    assert counters(source) == {"a": 40}


def test_every_series_is_marked_with_the_recordings_name(tmp_path: Path, clock: Clock) -> None:
    source = playing(write(tmp_path / "lab.4.jsonl.gz", [(0, {"a": 1, "b": 2})]), clock)
    labels = [sample.labels for metric in source.read() for sample in metric.samples]
    assert labels == [{"guest": "a", "replayed": "lab.4"}, {"guest": "b", "replayed": "lab.4"}, {"replayed": "lab.4"}]
    assert source.origin() == f"replay:{tmp_path}/lab.4.jsonl.gz"


def test_counters_go_on_at_the_seam_and_gauges_repeat(tmp_path: Path, clock: Clock) -> None:
    """1000 to 1030 in each pass of three seconds. A guest that is started in it is started in each pass."""
    readings = [(0, {"a": 1000}), (1, {"a": 1010, "b": 5}), (2, {"a": 1030, "b": 6})]
    source = playing(write(tmp_path / "r.jsonl.gz", readings), clock)
    seen = []
    for _ in range(7):
        cpu, guests = source.read()
        seen.append(({sample.labels["guest"]: sample.value for sample in cpu.samples}, guests.samples[0].value))
        clock.now += 1
    assert seen == [
        ({"a": 1000}, 1),
        ({"a": 1010, "b": 5}, 2),
        ({"a": 1030, "b": 6}, 2),
        ({"a": 1030}, 1),
        ({"a": 1040, "b": 5}, 2),
        ({"a": 1060, "b": 6}, 2),
        ({"a": 1060}, 1),
    ]


def test_a_seldom_scrape_misses_nothing_of_a_pass(tmp_path: Path, clock: Clock) -> None:
    """The ends of a pass count also without a scrape at that moment."""
    source = playing(write(tmp_path / "r.jsonl.gz", [(t, {"a": 10 * t}) for t in range(10)]), clock)
    counters(source)
    clock.now += 14  # in the fifth second of the second pass
    assert counters(source) == {"a": 90 + 40}


def test_a_reset_in_the_recording_stays_one(tmp_path: Path, clock: Clock) -> None:
    source = playing(write(tmp_path / "r.jsonl.gz", [(0, {"a": 100}), (1, {"a": 3}), (2, {"a": 5})]), clock)
    seen = []
    for _ in range(6):
        seen.append(counters(source)["a"])
        clock.now += 1
    assert seen == [100, 3, 5, 5, 3, 5]


recordings = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64 - 1) | st.floats(0, 1e15), max_size=3), min_size=1
)


@given(recordings)
def test_whatever_the_recording_no_counter_falls_at_a_seam(
    tmp_path_factory: pytest.TempPathFactory, readings: list[Counters]
) -> None:
    """Nor elsewhere, unless the recording's own does or is that of a guest which is started later."""
    path = tmp_path_factory.getbasetemp() / "any.jsonl.gz"
    clock = Clock()
    source = playing(write(path, list(enumerate(readings))), clock)
    recorded_last: Counters = {}
    shown_last: Counters = {}
    for _ in range(3):
        for recorded in readings:
            shown = counters(source)
            assert shown.keys() == recorded.keys()
            for guest in shown:
                started = guest not in recorded_last and guest not in readings[0]
                reset = started or recorded[guest] < recorded_last.get(guest, 0)
                assert shown[guest] >= (0 if reset else shown_last.get(guest, 0))
            recorded_last.update(recorded)
            shown_last.update(shown)
            clock.now += 1
        recorded_last.clear()  # the seam: the recording starts over


@given(st.integers(1, 9), st.lists(st.integers(0, 2**64), min_size=1).map(sorted), st.lists(st.floats(0, 9)))
def test_a_counter_that_never_falls_in_the_recording_never_falls(
    tmp_path_factory: pytest.TempPathFactory, speed: int, values: list[int], pauses: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "rising.jsonl.gz"
    clock = Clock()
    readings = [(t, {"a": min(value, 2**64 - 1)}) for t, value in enumerate(values)]
    source = playing(write(path, readings), clock, speed)
    before = 0.0
    for pause in [0, *pauses]:
        clock.now += pause
        now = counters(source)["a"]
        assert now >= before
        before = now


def test_once_ends_in_a_clear_failure(tmp_path: Path, clock: Clock) -> None:
    source = playing(write(tmp_path / "r.jsonl.gz", [(0, {"a": 1}), (1, {"a": 2})]), clock, once=True)
    counters(source)
    clock.now += 1.9
    assert counters(source) == {"a": 2}
    clock.now += 0.1
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match=r"is over after 2 s; start the exporter again"):
            source.read()


def test_a_recorded_failure_is_played_as_one(tmp_path: Path, clock: Clock) -> None:
    readings = [(0, {"a": 1}), (1, Failed("timeout", "no answer for 1.0 s")), (2, {"a": 3})]
    source = playing(write(tmp_path / "r.jsonl.gz", readings), clock)
    counters(source)
    clock.now += 1
    with pytest.raises(SourceTimeout, match=r"no answer for 1\.0 s"):
        source.read()
    clock.now += 1
    assert counters(source) == {"a": 3}


def test_a_recording_of_another_exporter_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl.gz", [(0, {})])
    with pytest.raises(SourceMalformed, match="of test-exporter, not of xentop-exporter"):
        Playback(path, "xentop", 1, False)


def test_a_recording_that_is_gone_at_the_seam_fails_until_it_is_back(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "r.jsonl.gz", [(0, {"a": 1}), (1, {"a": 2})])
    source = playing(path, clock)
    counters(source)
    clock.now += 1
    counters(source)
    path.rename(tmp_path / "elsewhere")
    for _ in range(4):
        clock.now += 1
        with pytest.raises(SourceUnavailable, match="can't be read"):
            source.read()
    (tmp_path / "elsewhere").rename(path)
    assert counters(source)["a"] >= 2


def test_a_cut_off_file_plays_up_to_its_last_whole_reading(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    whole = write(tmp_path / "r.jsonl.gz", [(t, {"a": t}) for t in range(50)]).read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    source = playing(cut, clock, once=True)
    seen = []
    with contextlib.suppress(SourceUnavailable):
        for _ in range(50):
            seen.append(counters(source)["a"])
            clock.now += 1
    assert 10 < len(seen) < 50
    assert seen == list(range(len(seen)))
    (said,) = [line for line in caplog.records if "cut off" in line.message]
    assert said.__dict__["fields"]["seconds"] == seen[-1]


@pytest.mark.parametrize("kept", range(0, 400, 7))
def test_wherever_it_is_cut_it_plays_or_says_why_not(tmp_path: Path, clock: Clock, kept: int) -> None:
    path = write(tmp_path / "r.jsonl.gz", [(0, {"a": 1}), (1, {"a": 2})])
    path.write_bytes(path.read_bytes()[:kept])
    with contextlib.suppress(SourceMalformed):
        assert counters(playing(path, clock)) == {"a": 1}


def lines(*objects: object) -> Iterator[bytes]:
    yield json.dumps({"format": "virtscope recording", "version": 1, **header()._asdict()}).encode()
    for each in objects:
        yield each if isinstance(each, bytes) else json.dumps(each).encode()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        ({"t": 3, "source": "guests", "data": {}}, '"t" goes back from 4.0 to 3.0'),
        ({"t": -1, "source": "guests", "data": {}}, '"t" must be'),
        ({"t": float("nan"), "source": "guests", "data": {}}, '"t" must be'),
        ({"t": 5, "source": 5, "data": {}}, '"source" a name'),
        ({"t": 5, "source": "guests"}, 'neither "data" nor "failed"'),
        ({"t": 5, "source": "guests", "failed": "tired"}, "'tired' for one of"),
    ],
)
def test_a_malformed_line_ends_the_replay_with_its_number(
    tmp_path: Path, clock: Clock, line: object, complaint: str
) -> None:
    path = tmp_path / "r.jsonl.gz"
    good = [{"t": t, "source": "guests", "data": {"a": t}} for t in (0, 4)]
    path.write_bytes(gzip.compress(b"\n".join(lines(*good, line)) + b"\n"))
    source = playing(path, clock)
    assert counters(source) == {"a": 0}
    clock.now += 4
    for _ in range(2):
        with pytest.raises(SourceMalformed, match=r"4 of .*r\.jsonl\.gz") as caught:
            source.read()
        assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "something"}, "is no recording"),
        ({"version": 2}, "of version 2; this exporter reads version 1"),
        ({"interval": 0}, '"interval" must be'),
        ({"interval": None}, '"interval" must be'),
        ({"begins": "now"}, '"begins" must be'),
        ({"begins": -1}, '"begins" must be'),
        ({"sources": []}, '"sources" must be'),
        ({"exporter": None}, '"exporter" and'),
    ],
)
def test_a_malformed_header(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "r.jsonl.gz"
    first = {**json.loads(next(lines())), **change}
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n"))
    with pytest.raises(SourceMalformed, match=complaint):
        Playback(path, "test", 1, False)


def test_no_recording_at_all(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="can't be read: No such file"):
        Playback(tmp_path / "r.jsonl.gz", "test", 1, False)
    (tmp_path / "text").write_text("a text\n")
    with pytest.raises(SourceMalformed, match="is no recording"):
        Playback(tmp_path / "text", "test", 1, False)


def test_a_decompression_bomb_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines(b" " * (8 << 20)))))
    with pytest.raises(SourceMalformed, match=r"line 2 of .*: longer than 1 MiB"):
        Playback(path, "test", 1, False)


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl.gz").write_text("mine")
    with pytest.raises(FileExistsError):
        Writer(tmp_path / "r.jsonl.gz", header())
    assert (tmp_path / "r.jsonl.gz").read_text() == "mine"


def test_of_a_newer_recording_the_known_sources_play(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "newer.jsonl.gz"
    lines = [
        {
            **header()._asdict(),
            "format": recording.FORMAT,
            "version": 1,
            "sources": ["guests", "later"],
            "of_later": {},
        },
        {"t": 0, "source": "later", "data": 7},
        {"t": 0, "source": "guests", "data": {"a": 1}, "of_later": 1},
        {"t": 1, "source": "later", "data": 8},
    ]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    assert counters(playing(path, clock)) == {"a": 1}


def test_a_recording_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({**header()._asdict(), "format": recording.FORMAT, "version": 2}) + "\n")
    with pytest.raises(SourceMalformed, match="of version 2; this exporter reads version 1"):
        Playback(path, "test", 1, False)
