"""Cost of reading a busy access log, compared with Telegraf's own histogram."""

import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.proofs.bench.scraping import cpu_seconds
from tests.telegraf.agent import FOLDER as TELEGRAF
from tests.telegraf.agent import Agent

PER_SECOND = 1_000  # requests
SECONDS = 20
START_SECONDS = 8  # to start, and to run the sensors once
LAST_SECONDS = 7  # until the last lines have been read and can be scraped
BAR = 20.0  # times less CPU than Telegraf's own method

# Based on Telegraf's documentation. It has buckets but neither sum nor count, and loses lines at rotation.
OWN_WAY = """\
[[inputs.tail]]
  files = ["{log}"]
  initial_read_offset = "beginning"
  data_format = "grok"
  grok_patterns = ["%{{COMBINED_LOG_FORMAT}} %{{NUMBER:duration:float}}"]
  name_override = "app_request"
  fieldinclude = ["duration"]
  taginclude = ["app", "tier", "verb", "resp_code"]
  [inputs.tail.tags]
    app = "shop"
    tier = "web"

[[aggregators.histogram]]
  period = "5s"
  drop_original = true
  [[aggregators.histogram.config]]
    buckets = [{edges}]
    measurement_name = "app_request"
    fields = ["duration"]
"""


def measure() -> None:
    """Print the CPU of three Telegrafs on one log, including children: without a sensor, with ours, with its own
    method."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        log = Path(folder) / "access.log"
        log.touch()
        agents = {
            name: _Agent(Path(folder, name), sensor)
            for name, sensor in {
                "no sensor": "",
                "access_log.pl": _sensor(log),
                "Telegraf's own": _own_way(log),
            }.items()
        }
        for agent in agents.values():
            running.enter_context(agent)
        time.sleep(START_SECONDS)
        idle = _cpu_seconds_during(agents, log, requests_per_second=0)
        busy = _cpu_seconds_during(agents, log, requests_per_second=PER_SECOND)
        counted = agents["access_log.pl"].totals().count
    requests = PER_SECOND * SECONDS
    assert counted == requests, f"{counted} of {requests} requests were counted"
    costs = {name: (busy[name] - idle[name]) / requests * 1e6 for name in agents}  # ms per 1,000
    print(
        f"\nSensors: an access log with {PER_SECOND:,} requests/s (combined, %D), read by Telegrafs side by side"
        f"\nBar: {BAR:.0f} times less for a request than inputs.tail with grok and aggregators.histogram"
        "\n  sensor            idle, of a core  ms per 1,000 requests"
    )
    for name in agents:
        verdict = ""
        if name == "access_log.pl":
            ratio = costs["Telegraf's own"] / costs[name]
            verdict = f"   {ratio:5.1f} times less: {'met' if ratio >= BAR else 'MISSED'}"
        print(f"  {name:16}{idle[name] / (SECONDS + LAST_SECONDS):17.2%}{costs[name]:23.1f}{verdict}")


class _Agent(Agent):
    """The project's Telegraf with one sensor, to measure its CPU time."""

    def __init__(self, folder: Path, sensor: str) -> None:
        super().__init__(folder)
        (folder / "sensors" / "sensor.conf").write_text(sensor)

    def cpu_seconds(self) -> float:
        """CPU time so far, including ended children."""
        assert self._process
        return cpu_seconds([self._process.pid])


def _cpu_seconds_during(agents: dict[str, _Agent], log: Path, requests_per_second: int) -> dict[str, float]:
    """CPU time of each while requests are logged, one write each, until they have been read."""
    begun = {name: agent.cpu_seconds() for name, agent in agents.items()}
    start, written = time.monotonic(), 0
    with log.open("ab", buffering=0) as server:
        while (passed := time.monotonic() - start) < SECONDS:
            while written < passed * requests_per_second:
                server.write(_line(written))
                written += 1
            time.sleep(0.001)
        for number in range(written, SECONDS * requests_per_second):
            server.write(_line(number))
    time.sleep(LAST_SECONDS)
    return {name: agent.cpu_seconds() - begun[name] for name, agent in agents.items()}


def _line(number: int) -> bytes:
    microseconds = int(random.lognormvariate(11, 1))
    return (
        f"192.0.2.{number % 250} - - [21/Nov/2026:08:15:53 +0000] "
        f'"GET /item?id={number} HTTP/1.1" 200 {number % 9000} "https://shop.example.org/browse?page={number % 50}" '
        f'"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0" {microseconds}\n'
    ).encode()


def _sensor(log: Path) -> str:
    text = (TELEGRAF / "sensors" / "apache_access_log.conf").read_text()
    return text.replace("/var/log/apache2/access.log", str(log))


def _own_way(log: Path) -> str:
    edges = (TELEGRAF / "access_log.pl").read_text().partition("my @EDGES = qw(")[2].partition(")")[0].split()
    return OWN_WAY.format(log=log, edges=", ".join(str(float(edge) * 1e6) for edge in edges))
