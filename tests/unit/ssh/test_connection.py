"""What ssh-exporter logs of a host that it can't connect to: each reason once, however long each try took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from virtscope.ssh import connection
from virtscope.ssh.child import Room
from virtscope.ssh.connection import Connection, Unreachable


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
