"""deploy/fleet/prometheus.sh: a restarted Prometheus writes nothing to the store until its records are complete."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.fleet.parts import STARTER
from tests.support.waiting import wait_for

# Records the configuration it was started with, and the one to reload.
PROGRAM = """
import os, pathlib, signal, time
link = pathlib.Path("running/p.yml")
signal.signal(signal.SIGHUP, lambda *_: pathlib.Path("reloaded").write_text(str(link.readlink())))
pathlib.Path("started").write_text(f"{os.getpid()} {link.readlink()}")
time.sleep(120)
"""
WHOLE, STARTING = "../prometheus/p.yml", "../starting/p.yml"


def waits(folder: Path) -> bool:
    """Whether the process that waits for the program in this folder still exists."""

    def is_there(pid: str) -> bool:
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
        except OSError:  # just ended
            return False

    found = subprocess.run(["pgrep", "-f", f"{STARTER} p data/p"], capture_output=True, text=True, check=False)
    return any(map(is_there, found.stdout.split()))


@contextmanager
def started(folder: Path, configuration: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, started in a folder with this configuration; its records are too low for two seconds."""
    (folder / "running").mkdir()
    command = ["sh", str(STARTER), "p", "data/p", "2", sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, cwd=folder)
    noted = folder / "started"
    try:
        # When the started process ends, the program ends.
        wait_for(noted.read_text, until=f"{process.pid} {configuration}".__eq__, not_yet=(FileNotFoundError,))
        yield process
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not waits(folder))


def test_one_that_has_no_data_writes_at_once(tmp_path: Path) -> None:
    with started(tmp_path, WHOLE):
        assert not waits(tmp_path)


def test_one_that_was_there_before_writes_once_it_has_scraped_for_long_enough(tmp_path: Path) -> None:
    wal, link, reloaded = tmp_path / "data/p/wal", tmp_path / "running/p.yml", tmp_path / "reloaded"
    (wal / "checkpoint.00000006").mkdir(parents=True)
    (wal / "00000007").write_text("samples")
    with started(tmp_path, STARTING):
        (wal / "00000008").touch()  # from this start: it replays earlier ones
        time.sleep(4)
        assert str(link.readlink()) == STARTING
        (wal / "00000008").write_text("samples")
        wait_for(reloaded.read_text, until=WHOLE.__eq__, not_yet=(FileNotFoundError,))
        wait_for(lambda: not waits(tmp_path))


def test_nothing_waits_for_one_that_has_ended(tmp_path: Path) -> None:
    (tmp_path / "data/p/wal").mkdir(parents=True)
    (tmp_path / "data/p/wal/00000007").write_text("samples")
    with started(tmp_path, STARTING):
        assert waits(tmp_path)
    assert str((tmp_path / "running/p.yml").readlink()) == STARTING
