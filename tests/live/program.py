"""A server process for the time of one test."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
import requests

from tools import go_programs, programs

START_SECONDS = 60  # for a program to become ready on a busy machine
STOP_SECONDS = 15


class Program:
    """A server of the stack on a free port, which says at /-/ready when it is; `name` as for program_path."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start it and wait until it is ready; raises RuntimeError with the end of its log if it doesn't get there."""
        command = [str(program_path(self.name)), *flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        try:
            self._wait_until_ready(self._process)
        except BaseException:  # a test's timeout too: nothing is to outlive its test
            self.stop()
            raise

    def stop(self) -> None:
        """End it, gently if it lets us; nothing happens if it has ended."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def log_tail(self) -> str:
        """The last 20 lines it has logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(requests.RequestException):
                if requests.get(self.url + "/-/ready", timeout=5).ok:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} did not become ready:\n{self.log_tail()}")


def program_path(name: str) -> Path:
    """Where a program of tools/programs.py or go_programs.py is; skips on machines that can't have it, except in CI."""
    try:
        return go_programs.path(name) if name in go_programs.PROGRAMS else programs.path(name)
    except (programs.ProgramsError, go_programs.GoProgramsError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no {name}: {error}")


def require_sloth() -> None:
    """Skip unless Sloth is built, which takes minutes; CI builds it if its cache has none."""
    if os.environ.get("CI") != "true" and go_programs.state("sloth").name != "built":
        pytest.skip("Sloth is not built yet: `make rules` does that, in about two minutes")
    go_programs.path("sloth")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
