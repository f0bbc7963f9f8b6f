"""Recorded sources, and pseudonyms: different from names, unique, of the same shape."""

import os
import re
import signal
import string
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.toolkit.record import Recordable, StandIns, record
from virtscope.toolkit.recording import Header, Reader, Reading

pytestmark = pytest.mark.usefixtures("same_stand_ins")


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)


def script(*outcomes: object) -> Callable[[], object]:
    """A source that returns these readings in turn, and sends the signal that ends the recording with the last one."""
    left = list(outcomes)

    def read() -> object:
        outcome = left.pop(0) if left else outcomes[-1]
        if not left:
            os.kill(os.getpid(), signal.SIGTERM if len(outcomes) % 2 else signal.SIGINT)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return read


def recorded(
    file: Path, *read: Callable[[], object], anonymise: bool = False, seconds: float = 600, interval: float = 0.001
) -> list[Reading]:
    """Record sources a, b, ... and return their readings."""
    sources = [
        Recordable(name, f"the text of {name}", each, lambda text, stand_ins: stand_ins(text.encode()).decode())
        for name, each in zip("abc", read, strict=False)
    ]
    record("x", sources, Namespace(file=file, seconds=seconds, interval=interval, anonymise=anonymise))
    reader = Reader(file)
    assert reader.header == Header(
        "x", tuple(each.name for each in sources), interval, reader.header.recorded, anonymise
    )
    return list(reader.readings())


def test_each_reading_is_written_and_the_same_one_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "host.jsonl.gz"
    again = "second"
    readings = recorded(file, script("first", again, again, again, "third"), lambda: again)
    assert [each.data for each in readings if each.source == "a"] == ["first", "second", "third"]
    assert [each.data for each in readings if each.source == "b"] == ["second"], "it hides no other"
    assert [each.t for each in readings] == sorted(each.t for each in readings)
    said = capsys.readouterr().out
    assert f"x-exporter: 4 readings (0 failed), {file.stat().st_size} bytes in {file}\n" in said
    assert "Names and addresses are not replaced; use --anonymise for that.\n" in said


def test_a_failure_is_written_each_time_and_logged_when_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    failing = script("web", *(SourceUnavailable("no web") for _ in range(4)), SourceError("odd"), "web")
    readings = recorded(tmp_path / "host.jsonl.gz", failing)
    reasons = [each.failed and each.failed.failed for each in readings]
    assert reasons == [None, *["unavailable"] * 4, "error", None]
    assert [each.failed.message for each in readings if each.failed] == [*["no web"] * 4, "odd"]
    assert caplog.messages == ["source failed"] * 2
    assert " 7 readings (5 failed), " in capsys.readouterr().out


def test_anonymised_it_holds_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "host.jsonl.gz"
    readings = recorded(file, script("web", SourceUnavailable("no web"), "web "), anonymise=True)
    assert len(readings) == 3
    assert not any("web" in str(each) for each in readings)
    assert re.fullmatch("[a-z]{3}", str(readings[0].data))
    assert readings[1].failed
    assert readings[1].failed[:2] == ("unavailable", "left out")
    assert "Names, UUIDs and addresses are replaced by pseudonyms" in capsys.readouterr().out


def test_a_source_that_hangs_holds_up_no_other_and_a_slow_one_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtscope.toolkit.record.PATIENCE_SECONDS", 1.0)
    never = threading.Event()
    readings = recorded(tmp_path / "host.jsonl.gz", never.wait, script("first", "second"))
    never.set()
    assert [each.data for each in readings if each.source == "b"] == ["first", "second"]
    assert {each.failed.failed for each in readings if each.source == "a" and each.failed} == {"timeout"}
    in_order, slow = script("first", "late"), threading.Event()
    readings = recorded(tmp_path / "slow.jsonl.gz", lambda: slow.wait(0.2) or in_order(), interval=1.1)
    assert [each.data for each in readings] == ["first", "late"]


def test_without_a_reading_it_fails_and_a_file_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "mine.gz"
    file.write_text("mine")
    for path, outcome, said in (
        ("host.jsonl.gz", SourceUnavailable("no Xen"), "nothing could be read; the log says why"),
        ("mine.gz", "text", "exists already; choose another file"),
        ("nowhere/host.jsonl.gz", "text", "can't be written: No such file or directory"),
    ):
        with pytest.raises(SystemExit, match=said):
            recorded(tmp_path / path, script(outcome))
    assert file.read_text() == "mine"


@given(st.sets(st.binary(max_size=12)))
def test_one_for_each_name_and_no_two_alike(names: set[bytes]) -> None:
    stand_ins = StandIns()
    given_first = {name: stand_ins(name) for name in names}
    assert len(set(given_first.values())) == len(names)
    assert {name: stand_ins(name) for name in names} == given_first
    short = StandIns()
    assert {len(short(b"%d" % number)) for number in range(8)} == {1}
    # A hex digit's pseudonym is one of six letters, most of which are taken.
    letters = [bytes([letter]) for letter in b"ghijklmnopqrstuvwxyzabcdef"]
    assert len({short(letter) for letter in letters}) == 26


def test_a_stand_in_has_the_shape_of_its_name() -> None:
    shapes = {
        b"web01.example.org": rb"[a-z]{3}[0-9]{2}\.[a-z]{7}\.[a-z]{3}",
        b"  two  Blanks ": rb"  [a-z]{3}  [A-Z][a-z]{5} ",
        b"4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11": rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        b"192.0.2.17": rb"[0-9]{3}\.[0-9]\.[0-9]\.[0-9]{2}",
        b"2001:db8::9": rb"[0-9]{4}:[a-f]{2}[0-9]::[0-9]",
        b"cut \xc3": rb"[a-z]{3} [\xf8-\xff]",
        b"\x80": rb"[\xf8-\xff]",
        b"\x7f x": rb"\x7f [a-z]",
        b"\x7f": rb"\x7f",
        b"--": rb"--",
    }
    for name, shape in shapes.items():
        stand_in = StandIns()(name)
        assert re.fullmatch(shape, stand_in), name
        assert stand_in != name or not re.search(rb"[0-9A-Za-z\x80-\xff]", name)
    for name, letters in ((b"web", string.ascii_lowercase), (b"0 ", string.digits + " "), (b"a", "abcdef")):
        assert set(StandIns()(name * 1000).decode()) == set(letters), name
    beyond = "\x80\u00e4\u07ff\u0800\u65e5\uffff\U00010000\U0001f600\U0010ffff"
    lengths = [[len(letter.encode()) for letter in text] for text in (beyond, StandIns()(beyond.encode()).decode())]
    assert lengths[0] == lengths[1], "letters beyond ASCII are others of as many bytes"
