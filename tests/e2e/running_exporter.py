"""An exporter as a user runs it: a process, a port, a log."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import requests

EXPORTERS = Path(__file__).resolve().parents[2] / "exporters"


class RunningExporter:
    """Starts the exporter of this package on a free loopback port and ends it with the `with` block."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        package: str = "virtscope.xen",
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """`python` is the command that runs the package: an interpreter, and what may go before it."""
        self._log = folder / "exporter.log"
        self._command = [
            *python,
            "-m",
            package,
            "--web.listen-address=127.0.0.1:0",
            "--log.format=json",
            *flags,
        ]
        self._environment = environment
        self.address = ""

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self._command, cwd=EXPORTERS, env=self._environment, stderr=log)
        deadline = time.monotonic() + 30
        while not self.address:
            assert time.monotonic() < deadline, self.log()
            assert self.process.poll() is None, self.log()
            self.address = next((line["address"] for line in self.log_lines("listening")), "")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def get(self, path: str = "/metrics", timeout: float = 10, **headers: str) -> requests.Response:
        """Fetch `path`; header names with underscores for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.get(f"http://{self.address}{path}", headers=named, timeout=timeout)

    def log(self) -> str:
        return self._log.read_text()

    def log_lines(self, message: str) -> list[dict[str, Any]]:
        """Return the log lines with this message; a line still being written is left for the next call."""
        lines = [line for line in self.log().splitlines(keepends=True) if line.endswith("}\n")]
        return [facts for facts in map(json.loads, lines) if facts["msg"] == message]
