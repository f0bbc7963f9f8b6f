"""fleet/prometheus.sh: a Prometheus that was there before writes nothing to the store until its records are whole."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.parts import STARTER
from tests.support.waiting import wait_for

# Notes by which configuration it was started, and which one it was to read later.
PROGRAM = """
import os, pathlib, signal, time
link = pathlib.Path("running/p.yml")
signal.signal(signal.SIGHUP, lambda *_: pathlib.Path("reloaded").write_text(str(link.readlink())))
pathlib.Path("started").write_text(f"{os.getpid()} {link.readlink()}")
time.sleep(120)
"""
WHOLE, STARTING = "../prometheus/p.yml", "../starting/p.yml"


def _folder_of(pid: str) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:  # it has just ended
        return None


class Started:
    """The program, started in a folder; so many seconds of what it records are too low."""

    def __init__(self, folder: Path, seconds: int) -> None:
        self.folder = folder
        (folder / "running").mkdir(exist_ok=True)
        (folder / "started").unlink(missing_ok=True)
        command = ["sh", str(STARTER), "p", "data/p", str(seconds), sys.executable, "-c", PROGRAM]
        self.process = subprocess.Popen(command, cwd=folder)
        wait_for(lambda: (folder / "started").exists() and (folder / "started").read_text())

    def configuration(self) -> str:
        pid, link = (self.folder / "started").read_text().split()
        assert int(pid) == self.process.pid  # whoever ends what was started ends the program
        return link

    def segment(self, number: int, text: str) -> None:
        wal = self.folder / "data/p/wal"
        wal.mkdir(parents=True, exist_ok=True)
        (wal / f"{number:08}").write_text(text)

    def link(self) -> str:
        return str((self.folder / "running/p.yml").readlink())

    def waits(self) -> bool:
        """Whether what waits for it is still there."""
        found = subprocess.run(["pgrep", "-f", f"{STARTER} p data/p"], capture_output=True, text=True, check=False)
        return any(_folder_of(pid) == self.folder.resolve() for pid in found.stdout.split())


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """One that has data of before; two seconds are too low."""
    (tmp_path / "data/p/wal").mkdir(parents=True)
    (tmp_path / "data/p/wal/00000007").write_text("samples")
    (tmp_path / "data/p/wal/checkpoint.00000006").mkdir()
    found = Started(tmp_path, 2)
    yield found
    found.process.kill()
    found.process.wait()
    wait_for(lambda: not found.waits())


def test_one_that_has_no_data_writes_at_once(tmp_path: Path) -> None:
    first = Started(tmp_path, 2)
    try:
        assert first.configuration() == WHOLE
        assert not first.waits()
    finally:
        first.process.kill()
        first.process.wait()


def test_one_that_was_there_before_writes_once_it_has_scraped_for_long_enough(started: Started) -> None:
    assert started.configuration() == STARTING
    started.segment(8, "")  # of its start: it replays those before
    time.sleep(4)
    assert started.link() == STARTING
    started.segment(8, "samples")
    wait_for((started.folder / "reloaded").exists)
    wait_for(lambda: (started.folder / "reloaded").read_text() == WHOLE)
    wait_for(lambda: not started.waits())


def test_nothing_waits_for_one_that_has_ended(started: Started) -> None:
    started.process.kill()
    started.process.wait()
    wait_for(lambda: not started.waits())
    assert started.link() == STARTING
