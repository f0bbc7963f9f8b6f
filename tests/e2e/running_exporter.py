"""An exporter as a user runs it: a process, a port and a log."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import requests

from tests.support.privileges import NOBODY, python_of_everybody, unprivileged
from tests.support.waiting import wait_for

EXPORTERS = Path(__file__).resolve().parents[2] / "exporters"


class RunningExporter:
    """Starts this exporter package on a free loopback port; the `with` block ends it."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        package: str = "virtscope.xen",
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """`python` is the command that runs the package: an interpreter, optionally with a prefix."""
        self._log = folder / "exporter.log"
        listen = ["--web.listen-address=127.0.0.1:0", "--log.format=json"]
        self._command = [*python, "-m", package, *listen, *flags]
        self._environment = environment
        self.address = ""

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self._command, cwd=EXPORTERS, env=self._environment, stderr=log)

        def address() -> str:
            assert self.process.poll() is None, self.log()
            return next((line["address"] for line in self.log_lines("listening")), "")

        self.address = wait_for(address, 60, every=0.05, explain=self.log)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)

    def get(self, path: str = "/metrics", timeout: float = 10, **headers: str) -> requests.Response:
        """Fetch `path`; underscores in header names become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.get(f"http://{self.address}{path}", headers=named, timeout=timeout)

    def page_with(self, *texts: str, seconds: float = 60) -> str:
        """The first page that contains all these texts; some sources need time to start."""
        return wait_for(
            lambda: self.get(timeout=30).text,
            seconds,
            until=lambda page: all(text in page for text in texts),
            explain=self.log,
        )

    def log(self) -> str:
        return self._log.read_text()

    def log_lines(self, message: str) -> list[dict[str, Any]]:
        """The log lines with this message. A line still being written is left for the next call."""
        lines = [line for line in self.log().splitlines(keepends=True) if line.endswith("}\n")]
        return [facts for facts in map(json.loads, lines) if facts["msg"] == message]


def as_nobody(folder: Path, tmp_path: Path, package: str, having: set[str], *flags: str) -> RunningExporter:
    """An exporter of this world-readable folder that runs as nobody with these capabilities."""
    python = python_of_everybody(NOBODY, "import sys; sys.exit(sys.version_info < (3, 9))")
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*unprivileged(having), python]
    return RunningExporter(tmp_path, *flags, package=f"virtscope.{package}", python=command, environment=environment)


def ended(
    package: str, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path = EXPORTERS
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", package, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def comparable(page: str, *varying: str, **folders: Path) -> str:
    """A page without the parts that vary between runs and machines.

    varying: regular expressions of metric names with varying values.
    folders: paths on the page, by their replacements.
    """
    names = "|".join(("process_\\w+", *varying))
    page = re.sub(rf"(?m)^((?:{names})(?:{{.*}})? ).*$", r"\1VARIES", page)
    page = re.sub(r'python="[^"]*"', 'python="VARIES"', page)
    for name, folder in folders.items():
        page = page.replace(str(folder), name)
    return page
