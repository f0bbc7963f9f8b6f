"""External text in `make up`, `make status` and `make logs` moves no cursor and forges no line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import StackError, health, stack, supervision
from deploy.programs import CHECKOUT
from tests.support import Exposition
from tests.support.refusals import assert_refused

RUDE = "\x1b[2J\x1b]0;title\x07 \u202edone\r\n"


def assert_harmless(printed: str, lines: int) -> None:
    assert all(line.isprintable() for line in printed.split("\n"))
    assert r"\x1b[2J" in printed
    assert printed.count("\n") == lines


def test_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program's log contains its clients' input; not all of it is UTF-8."""
    (tmp_path / "telegraf.log").write_bytes(f"E! {RUDE}".encode() + b"\xff\tat\n")
    monkeypatch.setattr(supervision, "LOG", tmp_path)
    stack.logs("telegraf", follow=False)
    assert_harmless(capsys.readouterr().out, lines=2)


def test_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as a reason given by a download site."""

    def refused() -> None:
        raise StackError(f"mirror.example.org answers 403 {RUDE}")

    monkeypatch.setattr(stack, "up", refused)
    monkeypatch.setattr("sys.argv", ["stack", "up"])
    assert stack.main() == 1
    assert_harmless(capsys.readouterr().err, lines=1)


def test_a_reader_who_has_enough_is_no_error() -> None:
    """Example: make status | head."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "deploy.stack", "status"]
        done = subprocess.run(command, cwd=CHECKOUT, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(writer)
    assert done.stderr == b""


def test_another_program_in_prometheus_s_place_is_named() -> None:
    for answer in ("", "<html>", "[]", "[" * 100_000, '{"data": {"result": 1}}'):
        with Exposition(answer) as squatter:
            port = int(squatter.address.rpartition(":")[2])
            for ask in (health.targets, health.left_out, health.seconds_since_stored):
                assert_refused(StackError, "no Prometheus", ask, port)
