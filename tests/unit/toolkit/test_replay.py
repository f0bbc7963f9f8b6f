"""Playing a recording: the reading served at each time, and counters that continue over passes."""

import contextlib
import gzip
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client import Metric

from tests.support.clock import Clock
from tests.support.refusals import refusal
from virtscope.toolkit import recording
from virtscope.toolkit.collect import SourceMalformed, SourceTimeout, SourceUnavailable
from virtscope.toolkit.families import family
from virtscope.toolkit.recording import Decode, Failed, Header, Writer
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Source

Counters = dict[str, float]  # by guest


@pytest.fixture
def clock() -> Clock:
    return Clock()


HEADER = Header("test", ("guests",), 1.0, "2026-01-01", False)


def write(path: Path, readings: Sequence[tuple[float, object]], begins: float | None = None) -> Path:
    path.unlink(missing_ok=True)
    writer = Writer(path, HEADER if begins is None else HEADER._replace(begins=begins))
    for seconds, outcome in readings:
        writer.write(seconds, "guests", outcome)
    writer.close()
    return path


def write_lines(path: Path, *lines: object, **header: object) -> Path:
    """Write these lines unchanged, after a header with these changes."""
    first = {"format": recording.FORMAT, "version": 1, **HEADER._asdict(), **header}
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in (first, *lines)]
    path.write_bytes(gzip.compress(b"".join(text + b"\n" for text in texts)))
    return path


def families(counters: Counters) -> list[Metric]:
    samples = [({"guest": guest}, value) for guest, value in counters.items()]
    return [family("cpu_seconds_total", "CPU.", samples), family("guests", "Guests.", [({}, len(samples))])]


def decode(data: object) -> Counters:
    if not isinstance(data, dict):
        raise SourceMalformed("no guests")
    return {guest: recording.real(value) for guest, value in data.items()}


def playing(path: Path, clock: Clock, speed: float = 1, once: bool = False, unix_time: float = 0) -> Source:
    played = Playback(path, "test", speed, once, clock.monotonic, unix_time=partial(float, unix_time))
    return played.source("guests", "guests", decode, lambda: families)


def counters(source: Source) -> Counters:
    cpu, _ = source.read()
    return {sample.labels["guest"]: sample.value for sample in cpu.samples}


def played(source: Source, clock: Clock, count: int, every: float = 1) -> list[float]:
    """Guest a's counter, this many times."""
    seen = []
    for _ in range(count):
        seen.append(counters(source)["a"])
        clock.now += every
    return seen


def test_the_earlier_of_two_readings_is_served_until_the_later_ones_time(tmp_path: Path, clock: Clock) -> None:
    """The first requested reading is the beginning, whatever time the recording's first one has."""
    path = write(tmp_path / "r.jsonl.gz", [(5, {"a": 1}), (7, {"a": 2}), (8, {"a": 3})])
    for speed in (1, 8):
        assert played(playing(path, clock, speed), clock, 8, every=0.5 / speed) == [1, 1, 1, 1, 2, 2, 3, 3]


def test_one_that_begins_at_a_time_is_played_as_of_that_time(tmp_path: Path, clock: Clock) -> None:
    """At any time of the first scrape, with others late by less than half a reading's interval."""
    path = write(tmp_path / "r.jsonl.gz", [(t, {"a": t}) for t in range(100)], begins=5000.0)
    for first in (5000.0, 5030.0, 5030.999):
        for late in (-0.4, -0.01, 0, 0.4):
            source = playing(path, clock, unix_time=first)
            began = counters(source)["a"]
            assert began == first // 1 - 5000
            clock.now += 5 + late
            assert counters(source)["a"] == began + 5, late
            clock.now += 95 - late
            assert counters(source)["a"] == 99 + began, "it goes round as ever"
    assert counters(playing(path, clock, unix_time=4000.0)) == {"a": 0}, "until it begins, its first reading"


def test_counters_go_on_at_the_seam_and_gauges_repeat_and_a_seldom_scrape_misses_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    """1000 to 1030 in each pass of three seconds. A guest that starts in the recording starts in each pass."""
    readings = [(0, {"a": 1000}), (1, {"a": 1010, "b": 5}), (2, {"a": 1030, "b": 6})]
    source = playing(write(tmp_path / "r.jsonl.gz", readings), clock)
    seen = []
    for _ in range(7):
        cpu, guests = source.read()
        seen.append([*(sample.value for sample in cpu.samples), guests.samples[0].value])
        clock.now += 1
    assert seen == [[1000, 1], [1010, 5, 2], [1030, 6, 2], [1030, 1], [1040, 5, 2], [1060, 6, 2], [1060, 1]]
    source = playing(write(tmp_path / "r.jsonl.gz", [(t, {"a": 10 * t}) for t in range(10)]), clock)
    counters(source)
    clock.now += 14  # in the fifth second of the second pass
    assert counters(source) == {"a": 90 + 40}
    resets = write(tmp_path / "r.jsonl.gz", [(0, {"a": 100}), (1, {"a": 150}), (2, {"a": 20})])
    assert played(playing(resets, clock), clock, 6) == [100, 150, 20, 20, 70, 20], (
        "the host's own reset is one each time"
    )


def test_a_recorded_failure_is_played_and_a_recording_that_is_gone_fails_until_it_is_back(
    tmp_path: Path, clock: Clock
) -> None:
    readings = [(0, {"a": 1}), (1, Failed("timeout", "no answer for 1.0 s")), (2, {"a": 3})]
    path = write(tmp_path / "r.jsonl.gz", readings)
    source = playing(path, clock)
    counters(source)
    clock.now += 1
    with pytest.raises(SourceTimeout, match=r"no answer for 1\.0 s"):
        source.read()
    clock.now += 1
    assert counters(source) == {"a": 3}
    path.rename(tmp_path / "elsewhere")
    for _ in range(4):
        clock.now += 1
        with pytest.raises(SourceUnavailable, match="can't be read"):
            source.read()
    (tmp_path / "elsewhere").rename(path)
    clock.now += 2
    assert counters(source)["a"] >= 3


def test_a_cut_off_file_plays_up_to_its_last_whole_reading(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "r.jsonl.gz", [(t, {"a": t}) for t in range(50)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    source = playing(path, clock, once=True)
    seen = []
    with contextlib.suppress(SourceUnavailable):
        for _ in range(50):
            seen += played(source, clock, 1)
    assert 10 < len(seen) < 50
    assert seen == list(range(len(seen)))
    assert ["cut off" in line.message for line in caplog.records].count(True) == 1

    whole = write(path, [(0, {"a": 1}), (1, {"a": 2})]).read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        with contextlib.suppress(SourceMalformed):  # a refused recording is fine
            assert counters(playing(path, clock)) == {"a": 1}, kept


def test_a_malformed_line_ends_the_replay_with_its_number(tmp_path: Path, clock: Clock) -> None:
    good = [{"t": t, "source": "guests", "data": {"a": t}} for t in (0, 4)]
    malformed: list[tuple[object, str]] = [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        ({"t": 3, "source": "guests", "data": {}}, '"t" goes back from 4 to 3'),
        ({"t": -1, "source": "guests", "data": {}}, "'-1' for a number"),
        ({"t": float("nan"), "source": "guests", "data": {}}, "'nan' for a number"),
        ({"t": 5, "source": 5, "data": {}}, "'5' for a word"),
        ({"t": 5, "source": "guests"}, 'neither "data" nor "failed"'),
        ({"t": 5, "source": "guests", "failed": "tired"}, "'tired' for one of"),
    ]
    for line, complaint in malformed:
        source = playing(write_lines(tmp_path / "r.jsonl.gz", *good, line), clock)
        assert counters(source) == {"a": 0}
        clock.now += 4
        for _ in range(2):
            with pytest.raises(SourceMalformed, match=r"4 of .*r\.jsonl\.gz") as caught:
                source.read()
            assert complaint in str(caught.value)


def test_what_is_no_recording_of_this_exporter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with pytest.raises(SourceUnavailable, match="can't be read: No such file"):
        Playback(path, "test", 1, False)
    with pytest.MonkeyPatch.context() as bounded:
        bounded.setattr(recording, "LONGEST_LINE", 1 << 20)
        write_lines(path, b" " * (8 << 20))
        with pytest.raises(SourceMalformed, match=r"line 2 of .*: longer than 1 MiB"):
            Playback(path, "test", 1, False)
    path.write_text("a text\n")
    with pytest.raises(SourceMalformed, match="is no recording"):
        Playback(path, "test", 1, False)
    complaints: dict[str, list[dict[str, object]]] = {
        "is no recording": [{"format": "something"}],
        "of version 2; this exporter reads version 1": [{"version": 2}],
        "names of its sources, and an interval above 0": [{"interval": 0}, {"sources": []}],
        "for a number": [{"interval": None}, {"begins": "now"}, {"begins": -1}],
        "'None' for a word": [{"exporter": None}],
        "of xentop-exporter, not of test-exporter": [{"exporter": "xentop"}],
    }
    for complaint, header in ((complaint, each) for complaint, some in complaints.items() for each in some):
        write_lines(path, {"t": 0, "source": "guests", "data": {}}, **header)
        assert complaint in str(refusal(SourceMalformed, Playback, path, "test", 1, False))


def test_of_a_newer_recording_the_known_sources_play(tmp_path: Path, clock: Clock) -> None:
    lines = [
        {"t": 0, "source": "later", "data": 7},
        {"t": 0, "source": "guests", "data": {"a": 1}, "of_later": 1},
        {"t": 1, "source": "later", "data": 8},
    ]
    path = write_lines(tmp_path / "newer.jsonl.gz", *lines, sources=["guests", "later"], of_later={})
    assert counters(playing(path, clock)) == {"a": 1}


class Guest(NamedTuple):
    name: bytes
    seconds: float = 0.5


GUEST = recording.record(Guest, name=recording.text, seconds=recording.real)


DECODED: list[tuple[Decode[object], list[tuple[object, object]], list[object]]] = [
    (recording.whole, [(number, number) for number in (0, 2**64 - 1, True)], [-1, 2**64, 1.0, "1", None]),
    (recording.real, [(0, 0), (1.5, 1.5)], [-0.5, 2.0**64, True, "1", None, float("nan")]),
    (recording.text, [("k\udcffse", b"k\xffse")], [1, None, "\ud800"]),
    (recording.word, [("käse", "käse")], [1, None]),
    (recording.optional(recording.whole), [(None, None), (7, 7)], [-1, ""]),
    (recording.many(recording.whole), [([], ()), ([1, 2], (1, 2))], [{}, "12", [1, -1], None]),
    (
        recording.or_failed(recording.whole),
        [({"failed": "timeout"}, Failed("timeout", "")), (3, 3)],
        [{"failed": "hard"}, {}, -1],
    ),
    (
        GUEST,
        [
            ({"name": "web", "seconds": 2, "of a newer exporter": 1}, Guest(b"web", 2)),
            ({"name": "of an older exporter"}, Guest(b"of an older exporter", 0.5)),
        ],
        [[], {"seconds": 1}, {"name": 1}, {"name": "", "seconds": -1}],
    ),
]


def test_what_is_well_formed_and_what_is_not() -> None:
    for decode, well_formed, malformed in DECODED:
        for value, decoded in well_formed:
            assert decode(value) == decoded, value
        for value in malformed:
            refusal(SourceMalformed, decode, value)
