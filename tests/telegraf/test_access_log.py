"""Every request is counted exactly once, with its time: by the sensor alone, and in the real Telegraf under load.

Changes to a log between two runs of a sensor: test_log_files.py.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from tests.telegraf import lines
from tests.telegraf.agent import Agent
from tests.telegraf.test_log_files import Sensor

PLAIN = b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET /%d HTTP/1.1" 200 12 "-" "-" 1000\n'


@pytest.mark.parametrize("form", lines.FORMATS)
def test_every_line_of_every_format_is_counted_exactly(tmp_path: Path, form: str) -> None:
    """The histograms equal those that Prometheus's client makes of the same requests."""
    sensor = Sensor(tmp_path)
    sensor.path.touch()
    sensor.run()
    written = lines.some_lines(form, 4_000, seed=1)
    sensor.path.write_bytes(lines.text(written))
    found, expected = sensor.totals(), lines.durations(written)
    assert (found.lines, found.unparsed) == (4_000, sum(line.labels is None for line in written))
    assert {labels for labels, histogram in found.requests.items() if histogram.count} == set(expected)
    for labels, histogram in found.requests.items():
        times = expected.get(labels, [])
        assert histogram.count == len(times)
        assert histogram.sum == pytest.approx(sum(times) / 1e6, abs=1e-6)
        assert (len(histogram.buckets), list(histogram.buckets)[-1]) == (20, float("inf"))
        for edge, count in histogram.buckets.items():
            assert count == sum(time <= edge * 1e6 for time in times)
    statuses = {"1xx", "2xx", "3xx", "4xx", "5xx", "other"}
    assert set(found.requests) <= {(method, status) for method in ("GET", "POST", "other") for status in statuses}


@pytest.mark.system
@pytest.mark.timeout(1800)  # the first run may build Telegraf
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restart_under_load_loses_nothing_and_repeats_nothing(tmp_path: Path, kill: bool) -> None:
    log = tmp_path / "access.log"
    log.touch()
    agent = Agent(tmp_path / "agent")
    agent.add_access_log(log)
    with agent:
        agent.wait_for_lines(0)
        with writing(log) as server:
            seen = 0
            for _ in range(3):
                server.write_more(500)
                before, seen = seen, agent.totals().count
                assert seen >= before
                agent.stop(kill=kill)
                rotate(log)
                server.reopen()
                server.write_more(100)
                agent.__enter__()
        found = agent.wait_for_lines(server.lines)
    assert found.count == server.lines >= seen


class Server:
    """Writes requests into a log like a web server: a write per line, to a file that it keeps open."""

    def __init__(self, log: Path) -> None:
        self.lines = 0
        self.ended = threading.Event()
        self._log = log
        self._signalled = threading.Event()

    def write_more(self, lines: int) -> None:
        """Return once it has written this many more."""
        end = self.lines + lines
        wait_for(lambda: self.lines >= end, every=0.001)

    def reopen(self) -> None:
        """The server's reaction to logrotate's signal; returns when it is done."""
        self._signalled.set()
        wait_for(lambda: not self._signalled.is_set(), every=0.001)

    def run(self) -> None:
        while not self.ended.is_set():
            with self._log.open("ab", buffering=0) as log:
                self._signalled.clear()
                while not (self.ended.wait(0.001) or self._signalled.is_set()):
                    log.write(PLAIN % self.lines)
                    self.lines += 1


@contextmanager
def writing(log: Path) -> Iterator[Server]:
    """A `Server` within the block."""
    server = Server(log)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        thread.join()


def rotate(log: Path) -> None:
    """logrotate with Debian's settings for Apache and nginx: rename, create, compress the previous one."""
    first, second = log.with_name(f"{log.name}.1"), log.with_name(f"{log.name}.2.gz")
    if first.exists():
        second.write_bytes(gzip.compress(first.read_bytes()))
        first.unlink()
    log.rename(first)
    log.touch()
