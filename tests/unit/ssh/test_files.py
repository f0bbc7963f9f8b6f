"""A host's files from grep's output."""

from __future__ import annotations

from tests.support.refusals import refusal
from virtscope.openvz.procfs import Unread
from virtscope.ssh.files import files
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceMalformed


def test_what_was_read_and_what_was_not() -> None:
    output = b"vz/version:2.7\nbc/1/ioacct:a: 1\nbc/1/ioacct:b\n"
    complaints = b"grep: vz/vestat: Permission denied\ngrep: vz/latency: No such file or directory\n"
    assert files(Finished(2, output, complaints)) == {
        "vz/version": b"2.7\n",
        "bc/1/ioacct": b"a: 1\nb\n",
        "vz/vestat": Unread("EACCES"),
    }


def test_a_part_is_not_taken_for_all() -> None:
    """141: what follows in the pipe has ended before, as one that mistakes how much it is to pass on."""
    for status in (1, 127, 141):
        assert "can't be read" in str(refusal(SourceError, files, Finished(status, b"vz/version:2.7\n", b"")))
    refusal(SourceMalformed, files, Finished(0, b"2.7\n", b""))  # of no file
