"""Files and programs within their bounds."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from virtscope.toolkit import bounded
from virtscope.toolkit.bounded import Commands
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable

# --- Files ------------------------------------------------------------------------------------------------------------


LARGEST_FILE = bounded.LARGEST_FILE


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_file_comes_whole(tmp_path: Path, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)
    assert bounded.read_bytes(tmp_path / "file") == content


def test_one_byte_more_than_the_bound_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(200_001))
    with pytest.raises(OSError, match="File too large") as raised:
        bounded.read_bytes(tmp_path / "file")
    assert raised.value.errno == errno.EFBIG


def test_64_mib_of_a_file_are_read_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_FILE", LARGEST_FILE)
    for size in (64 << 20, (64 << 20) + 1):
        with (tmp_path / "file").open("wb") as file:
            file.truncate(size)
        if size > 64 << 20:
            with pytest.raises(OSError, match="File too large"):
                bounded.read_bytes(tmp_path / "file")
        else:
            assert len(bounded.read_bytes(tmp_path / "file")) == size


def test_the_kernels_own_files_come_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no size, and come in pieces."""
    monkeypatch.setattr(bounded, "LARGEST_FILE", 64 << 20)
    assert Path("/proc/self/smaps").stat().st_size == 0
    assert bounded.read_text(Path("/proc/self/smaps")).count("VmFlags:") > 10


# --- Programs ---------------------------------------------------------------------------------------------------------


def script(folder: Path, *lines: str) -> str:
    program = folder / "program"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)
    return str(program)


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return not Path(f"/proc/{pid}").exists()


def test_what_it_says_and_how_it_ends(tmp_path: Path) -> None:
    program = script(tmp_path, 'echo "$1 $LC_ALL"', "echo first >&2", "echo last >&2", "exit 3")
    finished = Commands(30).run(program, "hello")
    assert (finished.status, finished.output, finished.complaints) == (3, b"hello C\n", b"first\nlast\n")
    assert finished.problem() == "ended with status 3: last"


def test_one_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    program = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid", "wait")
    with pytest.raises(SourceTimeout, match="did not end within"):
        Commands(2).run(program)
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_one_that_closes_its_output_and_goes_on_is_killed_too(tmp_path: Path) -> None:
    program = script(tmp_path, f"echo $$ > {tmp_path}/pid", "exec sleep 600 >&- 2>&-")
    with pytest.raises(SourceTimeout):
        Commands(2).run(program)
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_one_that_writes_without_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_OUTPUT", 1000)
    with pytest.raises(SourceMalformed, match="wrote more than"):
        Commands(30).run(script(tmp_path, "exec yes"))


def test_8_mib_of_output_are_read_and_no_more(tmp_path: Path) -> None:
    program = script(tmp_path, "exec head -c $1 /dev/zero")
    assert len(Commands(60).run(program, str(8 << 20)).output) == 8 << 20
    with pytest.raises(SourceMalformed, match="wrote more than 8 MiB"):
        Commands(60).run(program, str((8 << 20) + 1))


def test_it_is_found_in_path_first_and_then_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path, elsewhere = tmp_path / "path", tmp_path / "elsewhere"
    for folder in (in_path, elsewhere):
        folder.mkdir()
        script(folder)
    monkeypatch.setenv("PATH", str(in_path))
    assert Commands(1).find("program", [str(elsewhere)]) == str(in_path / "program")
    (in_path / "program").unlink()
    assert Commands(1).find("program", [str(elsewhere)]) == str(elsewhere / "program")
    assert Commands(1).find("program") == ""


def test_the_last_line_that_says_something_is_cut_after_300_characters() -> None:
    assert bounded.last_line(b"first\n  last \xff \n \n") == "last \\xff"
    assert bounded.last_line(b"x" * 400) == "x" * 300
    assert bounded.last_line(b" \n") == ""


def test_one_that_is_not_there() -> None:
    with pytest.raises(SourceUnavailable, match="is not there"):
        Commands(30).run("/no/such/program")


def test_one_that_may_not_be_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("no program")
    with pytest.raises(SourceError, match="can't be started: Permission denied"):
        Commands(30).run(str(program))


def test_closing_ends_what_is_running(tmp_path: Path) -> None:
    running = Commands(600)
    program = script(tmp_path, f"echo $$ > {tmp_path}/pid", "exec sleep 600")
    thread = threading.Thread(target=lambda: running.run(program))
    thread.start()
    end = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < end:
        time.sleep(0.01)
    running.close()
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(SourceError, match="closed"):
        running.run(program)


def test_what_programs_cost_is_known(tmp_path: Path) -> None:
    program = script(tmp_path, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    run = Commands(60)
    before = os.times()
    run.run(program)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    assert run.cpu_seconds == pytest.approx(used, abs=0.02)
    assert run.cpu_seconds > 0
