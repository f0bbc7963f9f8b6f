"""Reading files and running programs within limits."""

import errno
import threading
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.support.waiting import wait_for
from virtscope.toolkit import bounded
from virtscope.toolkit.bounded import Commands
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable


def test_a_file_comes_whole_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounded.read_text(Path("/proc/self/smaps")).count("VmFlags:") > 10, "the kernel's own come in pieces"
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)
    for size in (0, 1, 65_535, 65_536, 65_537, 200_000):
        content = bytes(number % 251 for number in range(size))
        (tmp_path / "file").write_bytes(content)
        assert bounded.read_bytes(tmp_path / "file") == content
    (tmp_path / "file").write_bytes(bytes(200_001))
    with pytest.raises(OSError, match="File too large") as raised:
        bounded.read_bytes(tmp_path / "file")
    assert raised.value.errno == errno.EFBIG


def script(folder: Path, *lines: str) -> str:
    program = folder / "program"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)
    return str(program)


def test_what_it_says_and_how_it_ends(tmp_path: Path) -> None:
    program = script(tmp_path, 'echo "$1 $LC_ALL"', "echo first >&2", "echo last >&2", "exit 3")
    finished = Commands(30).run(program, "hello")
    assert (finished.status, finished.output, finished.complaints) == (3, b"hello C\n", b"first\nlast\n")
    assert finished.problem() == "ended with status 3: last"
    lines = {b"first\n  last \xff \n \n": "last \\xff", b"x" * 400: "x" * 300, b" \n": ""}
    assert {output: bounded.last_line(output) for output in lines} == lines


def started(folder: Path) -> bool:
    return (folder / "pid").exists() and (folder / "pid").read_text().endswith("\n")


def wait_until_gone(folder: Path) -> None:
    pid = int((folder / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30)


@pytest.mark.parametrize(
    "lines",
    [("sleep 600 & echo $! > $1", "wait"), ("echo $$ > $1", "exec sleep 600 >&- 2>&-")],
    ids=["with all it started", "one that closed its output"],
)
def test_one_that_hangs_is_killed(tmp_path: Path, lines: tuple[str, str]) -> None:
    program = script(tmp_path, *lines)
    for seconds in (1, 10, 60):  # the time may be over before it starts
        problem = refusal(SourceTimeout, Commands(seconds).run, program, str(tmp_path / "pid"))
        assert f"did not end within {seconds} s" in str(problem)
        if started(tmp_path):
            break
    wait_until_gone(tmp_path)


@pytest.mark.parametrize(
    ("patience", "trap"),
    [(0.0, ""), (0.1, "trap '' TERM"), (600.0, "trap 'touch $1-asked; exit' TERM")],
    ids=["at once", "one that doesn't end when it is asked", "one that does"],
)
def test_closing_ends_what_is_running(tmp_path: Path, patience: float, trap: str) -> None:
    running = Commands(600, patience)
    program = script(tmp_path, trap, "echo $$ > $1", "while :; do sleep 0.02; done")
    thread = threading.Thread(target=running.run, args=(program, str(tmp_path / "pid")))
    thread.start()
    wait_for(lambda: started(tmp_path), 60)
    running.close()
    thread.join(30)
    assert not thread.is_alive()
    wait_until_gone(tmp_path)
    assert (tmp_path / "pid-asked").exists() == (patience == 600)
    with pytest.raises(SourceError, match="closed"):
        running.run(program)


def test_output_is_read_up_to_8_mib(tmp_path: Path) -> None:
    program = script(tmp_path, "exec head -c $1 /dev/zero")
    assert len(Commands(60).run(program, str(8 << 20)).output) == 8 << 20
    for endless in (program, script(tmp_path, "exec yes")):
        with pytest.raises(SourceMalformed, match="wrote more than 8 MiB"):
            Commands(60).run(endless, str((8 << 20) + 1))


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
    with pytest.raises(SourceUnavailable, match="is not there"):
        Commands(30).run("/no/such/program")
    (elsewhere / "program").chmod(0o644)
    with pytest.raises(SourceError, match="can't be started: Permission denied"):
        Commands(30).run(str(elsewhere / "program"))
