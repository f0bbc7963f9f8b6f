"""What ssh-exporter logs of a host that it can't connect to, and a host's files from grep's output."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from tests.support.refusals import refusal
from virtscope.openvz.procfs import Unread
from virtscope.ssh import connection
from virtscope.ssh.child import Room
from virtscope.ssh.connection import Connection, Unreachable, files_of
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceMalformed


def unreachable(why: str) -> Callable[..., None]:
    def answer(*_arguments: object) -> None:
        raise Unreachable(why)

    return answer


def test_a_reason_is_logged_once_whatever_its_numbers_and_again_after_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = Connection("xen1", ["ssh"], Room())
    monkeypatch.setattr(connection.Failure, "check", lambda _failure: None)  # no pauses
    refused = "connect to host 192.0.2.7 port 22: refused"
    with caplog.at_level(logging.INFO, "virtscope.ssh.connection"):
        for why in ("no connection for 10 s", "no connection for 9 s", refused, refused, "no connection for 10 s"):
            monkeypatch.setattr(host, "_answer", unreachable(why))
            with pytest.raises(Unreachable, match=why):
                host.ask("xl list", time.monotonic() + 60)
    assert [str(vars(record)["fields"]["err"]) for record in caplog.records] == [
        "no connection for 10 s",
        refused,
        "no connection for 10 s",
    ]
    assert {record.getMessage() for record in caplog.records} == {"host can't be reached"}
    assert host.account().failures == {"timeout": 0, "error": 5, "malformed": 0}


def test_what_was_read_and_what_was_not() -> None:
    output = b"vz/version:2.7\nbc/1/ioacct:a: 1\nbc/1/ioacct:b\n"
    complaints = b"grep: vz/vestat: Permission denied\ngrep: vz/latency: No such file or directory\n"
    assert files_of(Finished(2, output, complaints)) == {
        "vz/version": b"2.7\n",
        "bc/1/ioacct": b"a: 1\nb\n",
        "vz/vestat": Unread("EACCES"),
    }


def test_a_part_is_not_taken_for_all() -> None:
    """141: what follows in the pipe has ended before, as one that mistakes how much it is to pass on."""
    for status in (1, 127, 141):
        assert "can't be read" in str(refusal(SourceError, files_of, Finished(status, b"vz/version:2.7\n", b"")))
    refusal(SourceMalformed, files_of, Finished(0, b"2.7\n", b""))  # of no file
