"""xentop's child process and its failures, within the exporter's own process."""

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from virtscope.toolkit.collect import SourceError, SourceMalformed
from virtscope.xen import hypervisor, xentop, xentop_text
from virtscope.xen.xentop import Xentop

FAKE = Path(__file__).resolve().parents[2] / "e2e/fake_xentop.py"


class Pauses(threading.Event):
    """An Event that records the requested waits, and waits a hundredth of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0)
        return super().wait((timeout or 0) / 100)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A xentop, the only one installed."""
    program = tmp_path / "4.17/xentop"
    program.parent.mkdir()
    program.write_text(FAKE.read_text().replace("/usr/bin/env python3", sys.executable, 1))
    program.chmod(0o755)
    (program.parent / "says").write_text("counts")
    monkeypatch.setattr(hypervisor, "_FOLDERS", (f"{tmp_path}/4.*",))
    monkeypatch.setenv("PATH", str(tmp_path))
    return program


@pytest.fixture
def child(program: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Xentop]:
    caplog.set_level("INFO")
    child = Xentop(str(program))
    child._closed = Pauses()
    yield child
    child.close()


def failure(child: Xentop) -> SourceError:
    with pytest.raises(SourceError) as caught:
        child.read()
    return caught.value


def test_of_a_program_that_dies_starts_get_rare_and_its_last_words_are_logged_once(
    child: Xentop, program: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (program.parent / "says").write_text("dies")
    child.start()
    pauses = child._closed
    assert isinstance(pauses, Pauses)
    wait_for(lambda: len(pauses.seconds) >= 8)
    assert pauses.seconds[:8] == [1, 2, 4, 8, 16, 20, 20, 20]
    assert caplog.messages == ["xentop ended"]
    assert str(failure(child)).endswith("status 1: ERROR: Can't find hypervisor information in sysfs!")


def test_a_xentop_without_full_names(child: Xentop, program: Path) -> None:
    (program.parent / "says").write_text("old")
    child.start()
    wait_for(child.read, not_yet=(SourceError,))
    starts = (program.parent / "children").read_text().splitlines()
    assert [start.partition(" ")[2] for start in starts] == ["-b -f -n -x -v -d 1", "-b -n -x -v -d 1"]


def test_an_internal_error_ends_a_child_and_not_its_keeper(child: Xentop, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [ValueError("a fault of ours")]

    def faulty(printed: bytes) -> tuple[list[bytes], bytes]:
        if faults:
            raise faults.pop()
        return xentop_text.whole_iterations(printed)

    monkeypatch.setattr(xentop, "whole_iterations", faulty)
    child.start()
    assert wait_for(child.read, not_yet=(SourceError,)).starts == 2


def test_a_xentop_that_moved_is_found_again(child: Xentop, program: Path, tmp_path: Path) -> None:
    """Debian moves it from /usr/lib/xen-4.17 to the next release's folder."""
    program.parent.rename(tmp_path / "4.19")
    child.start()
    wait_for(child.read, not_yet=(SourceError,))
    assert child.origin() == str(tmp_path / "4.19/xentop")


def test_a_process_that_a_wrapper_leaves_behind_holds_up_nobody(child: Xentop, program: Path) -> None:
    program.write_text(f"#!/bin/sh\n{sys.executable} -c 'import time; time.sleep(600)' >/dev/null &\nexit 7\n")
    child.start()
    wait_for(lambda: str(failure(child)).endswith("ended with status 7"))


CUT = r"a header that is not whole, .*MAXMEM\(%\) VCPUS'; let nothing cut or wrap its lines"


@pytest.mark.parametrize(("says", "said"), [("cut", CUT), ("repeats", "more headers than iterations.*drop -r")])
def test_partial_iterations_are_refused(
    child: Xentop, program: Path, monkeypatch: pytest.MonkeyPatch, says: str, said: str
) -> None:
    monkeypatch.setattr(xentop, "HUNG", 2.0)
    monkeypatch.setattr(xentop, "INTERVAL", 60)  # so that none ends, even on a busy machine
    (program.parent / "says").write_text(says)
    child.start()
    wait_for(lambda: isinstance(failure(child), SourceMalformed))
    assert re.search(said, str(failure(child)))
    assert child._latest == b"", "a part passed for the whole"
