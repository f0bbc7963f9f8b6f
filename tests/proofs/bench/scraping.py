"""Servers in child processes, scraped as by Prometheus, and the CPU time of programs."""

import gzip
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from deploy import programs
from tests.proofs import CHECKOUT
from tests.support.ports import free_port
from tests.support.waiting import wait_for
from virtscope.toolkit.scrape import MOMENT_SECONDS

# As sent by Prometheus 2.42.
HEADERS = {
    "User-Agent": "Prometheus/2.42.0",
    "Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}
START_SECONDS = 10.0


class Target:
    """A running server to measure. `series` is the number it serves, including its own metrics."""

    def __init__(
        self, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None, path: str = "/metrics"
    ) -> None:
        """Start the server, which listens on this port."""
        self._path = path
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=quiet, stderr=quiet)
        self.pid = self._process.pid
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            wait_for(self.scrape, START_SECONDS, every=0.05, not_yet=(OSError,), explain=lambda: str(command))
        except AssertionError:
            self.__exit__()
            raise
        page = gzip.decompress(self.scrape()).decode()
        self.series = sum(not line.startswith("#") for line in page.splitlines())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def scrape(self) -> bytes:
        """The body of a response; the connection is kept open if the server allows it."""
        try:
            self._connection.request("GET", self._path, headers=HEADERS)
            response = self._connection.getresponse()
        except OSError:
            self._connection.close()
            raise
        body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{self._process.args!r} answers {response.status}")
        return body

    def scrape_anew(self) -> bytes:
        """Scrape when the exporter has let go of its last page, which it otherwise sends again."""
        time.sleep(1.1 * MOMENT_SECONDS)
        return self.scrape()

    def cpu_seconds(self) -> float:
        """CPU time of all threads of the server, including ended ones, in nanosecond resolution."""
        return time.clock_gettime((~self.pid << 3) | 2)  # as returned by clock_getcpuclockid(3)

    def cpu_seconds_per_scrape(self, scrapes: int) -> float:
        """CPU seconds per scrape, for this number of consecutive scrapes."""
        before = self.cpu_seconds()
        for _ in range(scrapes):
            self.scrape_anew()
        return (self.cpu_seconds() - before) / scrapes

    def resident_bytes(self) -> int:
        """The server's current memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def python_server(kind: str, *sizes: int) -> Target:
    """Start a server of server.py."""
    command = [sys.executable, "-m", "tests.proofs.bench.server", str(port := free_port()), kind]
    return Target([*command, *map(str, sizes)], port)


def node_exporter(*flags: str) -> Target:
    """Start node_exporter."""
    port = free_port()
    return Target([str(programs.path("node_exporter")), _listen(port), *flags], port)


def exporter(package: str, *flags: str, environment: Mapping[str, str] | None = None, path: str = "/metrics") -> Target:
    """Start the exporter of this package, such as "xen"."""
    port = free_port()
    return Target([*command_of(package), _listen(port), *flags], port, with_exporters(environment), path)


def command_of(package: str) -> list[str]:
    """The command of an exporter, in the environment of `with_exporters`."""
    return [sys.executable, "-m", f"virtscope.{package}"]


def with_exporters(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**(environment or os.environ), "PYTHONPATH": str(CHECKOUT / "exporters")}


def _listen(port: int) -> str:
    return f"--web.listen-address=127.0.0.1:{port}"


def in_turns(targets: Sequence[Target], rounds: int, scrapes: int) -> list[float]:
    """Minimum CPU seconds per scrape of each target, which are measured alternately."""
    costs = [[target.cpu_seconds_per_scrape(scrapes) for target in targets] for _ in range(rounds)]
    return [min(of_target) for of_target in zip(*costs, strict=True)]


def cpu_seconds_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """CPU seconds of a program from start to end; raises RuntimeError with its complaint if it fails."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr
    with child.stderr:
        complaint = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {child.returncode}: {complaint.decode()[:300]}")
    return used.ru_utime + used.ru_stime


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and their ended children."""
    fields = (Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split() for pid in pids)
    return sum(sum(map(int, of_one[11:15])) for of_one in fields) / os.sysconf("SC_CLK_TCK")


def verdict(value: float, bar: float) -> str:
    """Whether a cost is within its bar."""
    return "met" if value <= bar else "MISSED"
