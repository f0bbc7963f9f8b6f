"""XenStore's wire protocol, with a fake daemon: values, missing values, refusals, silence, malformed answers."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable
from virtscope.xen import xenstore
from virtscope.xen.xenstore import read_values

Start = Callable[[Callable[[int, str], bytes]], None]


def message(kind: int, request: int, body: bytes) -> bytes:
    return struct.pack("=IIII", kind, request, 0, len(body)) + body


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a daemon whose answers are computed from a request's number and path."""
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "socket"))
    listener = socket.socket(socket.AF_UNIX)

    def start(answer: Callable[[int, str], bytes]) -> None:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        threading.Thread(target=serve, args=(answer,), daemon=True).start()

    def serve(answer: Callable[[int, str], bytes]) -> None:
        connection, _ = listener.accept()
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as requests:
            while header := requests.read(16):
                kind, request, transaction, length = struct.unpack("=IIII", header)
                assert (kind, transaction) == (2, 0)
                connection.sendall(answer(request, requests.read(length).rstrip(b"\0").decode()))

    yield start
    listener.close()


def test_values_of_any_size_and_none(daemon: Start) -> None:
    store = {"/a": b"x" * 4096, "/c": b""}
    absent = b"ENOENT\0"
    daemon(lambda request, path: message(2, request, store[path]) if path in store else message(16, request, absent))
    assert read_values(["/a", "/b", "/c"]) == [b"x" * 4096, None, b""]


@pytest.mark.parametrize(
    ("answer", "problem", "words"),
    [
        (message(16, 1, b"EACCES\0"), SourceError, "refuses /a: EACCES"),
        (b"", SourceTimeout, ""),
        (message(2, 77, b"x"), SourceMalformed, ""),
        (message(9, 1, b"x"), SourceMalformed, ""),
        (struct.pack("=IIII", 2, 1, 0, 4097), SourceMalformed, ""),
    ],
    ids=["refusal", "silence", "of another request", "of another kind", "too long"],
)
def test_failures_of_the_daemon(
    daemon: Start, monkeypatch: pytest.MonkeyPatch, answer: bytes, problem: type[SourceError], words: str
) -> None:
    monkeypatch.setattr(xenstore, "TIMEOUT", 30 if answer else 0.1)
    daemon(lambda _request, _path: answer)
    assert words in str(refusal(problem, read_values, ["/a"]))


def test_an_unreachable_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "socket"))
    refusal(SourceUnavailable, read_values, ["/a"])
