"""What `make up`, `make status` and `make logs` print of what others have said moves no cursor and forges no line."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.endpoints import QuietHandler, http_server
from tools import StackError, health, stack, supervision
from tools.programs import CHECKOUT

RUDE = "\x1b[2J\x1b]0;title\x07 \u202edone\r\n"


def assert_harmless(printed: str) -> None:
    assert all(line.isprintable() for line in printed.split("\n"))
    assert r"\x1b[2J" in printed


def test_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program's log has what its clients sent; not all of it is UTF-8."""
    (tmp_path / "telegraf.log").write_bytes(f"E! {RUDE}".encode() + b"\xff\tat\n")
    monkeypatch.setattr(supervision, "LOG", tmp_path)
    stack.logs("telegraf", follow=False)
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert printed.count("\n") == 2


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    stack.print_table([("PART", "WHY"), ("grafana", RUDE)])
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert printed.count("\n") == 2


def test_a_reader_who_has_enough_is_no_error() -> None:
    """As in: make status | head."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "tools.stack", "status"]
        done = subprocess.run(command, cwd=CHECKOUT, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(writer)
    assert done.stderr == b""


def test_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as what the site of a download gives as its reason."""

    def refused() -> None:
        raise StackError(f"mirror.example.org answers 403 {RUDE}")

    monkeypatch.setattr(stack, "up", refused)
    monkeypatch.setattr("sys.argv", ["stack", "up"])
    assert stack.main() == 1
    printed = capsys.readouterr().err
    assert_harmless(printed)
    assert printed.count("\n") == 1


@pytest.fixture
def squatter(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a program that answers everything with these bytes."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server calls it)
            self.send_response(http.HTTPStatus.OK)
            self.end_headers()
            self.wfile.write(request.param)

    server = http_server(Handler)
    yield int(server.address.rpartition(":")[2])
    server.close()


@pytest.mark.parametrize("squatter", [b"", b"<html>", b"[]", b"[" * 100_000, b'{"data": {"result": 1}}'], indirect=True)
def test_another_program_in_prometheus_s_place_is_named(squatter: int) -> None:
    for ask in (health.targets, health.left_out, health.seconds_since_stored):
        with pytest.raises(StackError, match="no Prometheus"):
            ask(squatter)
