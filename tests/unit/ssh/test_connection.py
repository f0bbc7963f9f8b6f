"""Host output over ssh, with a shell instead of ssh, and ssh-exporter's reaction."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from virtscope.openvz.procfs import Unread
from virtscope.ssh import child, connection
from virtscope.ssh.child import Child, Ended, Room
from virtscope.ssh.connection import Connection, Unreachable, files_of
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout


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
    assert host.failures == {"timeout": 0, "error": 5, "malformed": 0}


def test_what_was_read_and_what_was_not() -> None:
    output = b"vz/version:2.7\nbc/1/ioacct:a: 1\nbc/1/ioacct:b\n"
    complaints = b"grep: vz/vestat: Permission denied\ngrep: vz/latency: No such file or directory\n"
    assert files_of(Finished(2, output, complaints)) == {
        "vz/version": b"2.7\n",
        "bc/1/ioacct": b"a: 1\nb\n",
        "vz/vestat": Unread("EACCES"),
    }
    # A part isn't taken for all. 141: the next command in the pipe has ended early.
    for status in (1, 127, 141):
        assert "can't be read" in str(refusal(SourceError, files_of, Finished(status, b"vz/version:2.7\n", b"")))
    refusal(SourceMalformed, files_of, Finished(0, b"2.7\n", b""))  # of no file


MIB = 1 << 20


@contextmanager
def talking(script: str, room: Room | None = None) -> Iterator[Child]:
    """A child that greets like host.sh, reads a request and runs the rest."""
    started = Child(["sh", "-c", f"echo virtscope 1; read request; {script}"], room or Room())
    try:
        started.greet(in_seconds())
        yield started
    finally:
        started.end()


def in_seconds(seconds: float = 20) -> float:
    return time.monotonic() + seconds


def asked(script: str, seconds: float = 20) -> Finished:
    with talking(script) as started:
        return started.answer("openvz", in_seconds(seconds))


def test_64_kib_may_come_before_the_greeting_and_no_more() -> None:
    line = "x" * 63
    most, more = (f"yes {line} | head -n {lines}" for lines in (1024, 1025))
    for prints, enough in (("echo; echo virtscope 2", True), (most, True), (more, False), ("yes", False)):
        started = Child(["sh", "-c", f"{prints}; echo virtscope 1; read request"], Room())
        if enough:
            started.greet(in_seconds())
        else:
            assert "does not run host.sh" in str(refusal(SourceMalformed, started.greet, in_seconds())), prints
        started.end()


def test_an_answer_is_taken_by_its_length_and_all_of_its_room_given_back_and_its_end_leaves_nothing_open() -> None:
    answer = r"openvz 30\nvz/version:1\nopenvz 0\n\n0\n0\nend\n14\na complaint:\n\n\n2\n"
    room, before = Room(MIB), set(Path("/proc/self/fd").iterdir())
    with talking(f"printf '{answer}'", room) as started:
        assert len(set(Path("/proc/self/fd").iterdir()) - before) > 2
        taken = started.answer("openvz", in_seconds())
        assert taken == Finished(2, b"vz/version:1\nopenvz 0\n\n0\n0\nend", b"a complaint:\n\n")
        assert started.received_bytes == len("virtscope 1\n" + answer.replace("\\n", "\n"))
        room.take(MIB)
        with pytest.raises(SourceError, match="all hosts together"):
            room.take(1)
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_anything_else_is_malformed() -> None:
    whole = "12345; echo 0; echo; echo 0"
    for script in (
        "yes",
        "cat /dev/zero",  # no line break
        f"echo xentop 5; echo {whole}",  # not the requested source
        f"echo openvz -5; echo {whole}",
        f"echo openvz 5 5; echo {whole}",
        f"echo openvz 0x5; echo {whole}",
        "echo openvz 10737418240; cat /dev/zero",
        "echo openvz 9000000; head -c 9000000 /dev/zero; echo; echo 0; echo; echo 0",  # more than the limit
        "echo openvz 5; echo 123456; echo 0; echo; echo 0",  # longer than announced
        "echo openvz 5; echo 1234; echo 0; echo; echo 0; cat",  # shorter
        "echo openvz 5; echo 12345; echo many; echo; echo 0",
        "echo openvz 5; echo 12345; echo 9999999; cat /dev/zero",
        "echo openvz 5; echo 12345; echo 0; echo; echo -1",
        r"printf 'openvz\0 5\n12345\n0\n\n0\n'",
        r"printf '\033]0;title\007openvz 5\n12345\n0\n\n0\n'",
        "cat /dev/zero >&2",
    ):
        refusal(SourceMalformed, asked, script)


def test_what_was_not_asked_for_is_malformed() -> None:
    answer = r"openvz 5\n12345\n0\n\n0\n"
    with talking(f"printf '{answer}{answer}'; read request; printf '{answer}'") as started:
        assert started.answer("openvz", in_seconds()).output == b"12345"
        with pytest.raises(SourceMalformed, match="unrequested data"):
            started.answer("openvz", in_seconds())


def test_why_there_is_no_answer() -> None:
    for script, kind, words in (
        ("echo openvz 5; echo 123; sleep 600", SourceTimeout, "openvz"),
        # The last line of ssh is the reason.
        ("echo first >&2; echo Connection to vz1 closed by remote host. >&2; exit 255", Ended, "closed by remote host"),
        ("echo unknown 0; echo; echo 0; echo; echo 1", SourceError, "authorized-key"),  # an older script
    ):
        with pytest.raises(kind, match=words):
            asked(script, 0.3 if kind is SourceTimeout else 20)


def test_all_hosts_share_what_may_be_received_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_ANSWER", 4 * MIB)
    much = f"echo openvz {4 * MIB}; head -c {3 * MIB} /dev/zero; sleep 600"
    small = Room(MIB)
    with talking(much, small) as one, pytest.raises(SourceError, match="all hosts together"):
        one.answer("openvz", in_seconds())
    small.take(MIB)  # everything was returned
