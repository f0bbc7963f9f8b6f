"""A server process for the time of one test."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path

import requests

from tools import programs

START_SECONDS = 60  # for a program to become ready on a busy machine
STOP_SECONDS = 15


class Program:
    """A server process that is ready once `url + '/-/ready'` answers, and is gone when the `with` block ends."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start it and wait until it is ready; raises RuntimeError with the end of its log if it doesn't get there."""
        command = [str(programs.path(self.name)), *flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(requests.RequestException):
                if requests.get(self.url + "/-/ready", timeout=5).ok:
                    return
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"{self.name} did not become ready:\n{self.log_tail()}")

    def stop(self) -> None:
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
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
