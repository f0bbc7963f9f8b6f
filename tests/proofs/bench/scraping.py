"""Servers in child processes, scraped as by Prometheus, and their CPU time."""

import gzip
import http.client
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.proofs.bench import CHECKOUT
from tests.support.ports import free_port
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
        self,
        command: list[str],
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        path: str = "/metrics",
    ) -> None:
        """Start the server; without `port` it prints the port it chose on its first line."""
        self._path = path
        self._process = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        assert self._process.stdout
        self._connection = http.client.HTTPConnection("127.0.0.1", port or int(self._process.stdout.readline()))
        self._wait_until_it_answers()
        page = gzip.decompress(self.scrape()).decode()
        self.series = sum(not line.startswith("#") for line in page.splitlines())

    def scrape(self) -> bytes:
        """The body of a response; the connection is kept open if the server allows it."""
        self._connection.request("GET", self._path, headers=HEADERS)
        response = self._connection.getresponse()
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

    def stop(self) -> None:
        """Stop the server."""
        self._connection.close()
        self._process.kill()
        self._process.communicate()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                self.scrape()
            except OSError:
                self._connection.close()
                time.sleep(0.05)
            else:
                return
        self.stop()
        raise RuntimeError(f"{self._process.args!r} does not answer")


def python_server(kind: str, series: int) -> Target:
    """Start `bench.server`: "ours" or "stock"."""
    return Target([sys.executable, "-m", "tests.proofs.bench.server", kind, str(series)])


def node_exporter(program: Path) -> Target:
    """Start node_exporter with its default collectors."""
    port = free_port()
    return Target([str(program), f"--web.listen-address=127.0.0.1:{port}"], port)
