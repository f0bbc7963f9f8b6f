"""The access-log sensors in the real Telegraf: every request is counted exactly once, with its time.

What may become of a log between two runs of a sensor: test_log_files.py.
"""

from __future__ import annotations

import gzip
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.program import program_path
from tests.support.waiting import wait_for
from tests.telegraf import lines
from tests.telegraf.agent import Agent
from tests.telegraf.page import Totals, totals

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # the first run may build Telegraf

PLAIN = b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET /%d HTTP/1.1" 200 12 "-" "-" 1000\n'


def test_every_line_of_every_format_is_counted_exactly(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    logs = {form: tmp_path / f"{form}.log" for form in lines.FORMATS}
    written = {form: lines.some_lines(form, 4_000, seed=1) for form in lines.FORMATS}
    for form, log in logs.items():
        log.touch()
        agent.add_access_log(log, app=form, server=form.split()[0])
    with agent:
        for form in logs:
            agent.wait_for_lines(0, app=form)
        for form, log in logs.items():
            log.write_bytes(lines.text(written[form]))
        for form in lines.FORMATS:
            assert_exact(agent.wait_for_lines(4_000, app=form), written[form])
        assert_tidy(agent.page())


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
                agent.start()
        found = agent.wait_for_lines(server.lines)
    assert found.count == server.lines >= seen


class Server:
    """Writes requests into a log all the time, as a web server does: a write for each line, to a file it keeps open."""

    def __init__(self, log: Path) -> None:
        self.lines = 0
        self._log = log
        self._open = log.open("ab", buffering=0)
        self._signalled = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def write_more(self, lines: int) -> None:
        """Return once it has written so many more."""
        end = self.lines + lines
        wait_for(lambda: self.lines >= end, every=0.001)

    def reopen(self) -> None:
        """What the server does on logrotate's signal; returns when it has been done."""
        self._signalled.set()
        wait_for(lambda: not self._signalled.is_set(), every=0.001)

    def stop(self) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join()
        self._open.close()

    def _run(self) -> None:
        while not self._ended.wait(0.001):
            if self._signalled.is_set():
                self._open.close()
                self._open = self._log.open("ab", buffering=0)
                self._signalled.clear()
            self._open.write(PLAIN % self.lines)
            self.lines += 1


@contextmanager
def writing(log: Path) -> Iterator[Server]:
    """A `Server` for the time of a block."""
    server = Server(log)
    try:
        yield server
    finally:
        server.stop()


def rotate(log: Path) -> None:
    """What logrotate does by Debian's settings for Apache and nginx: rename, create, compress the one before."""
    first, second = log.with_name(f"{log.name}.1"), log.with_name(f"{log.name}.2.gz")
    if first.exists():
        second.write_bytes(gzip.compress(first.read_bytes()))
        first.unlink()
    log.rename(first)
    log.touch()


def assert_exact(found: Totals, written: list[lines.Line]) -> None:
    """The histograms are those that Prometheus's client would have made of the same requests."""
    expected = lines.durations(written)
    kinds = lines.kinds(written)
    assert (found.lines, found.unparsed) == (kinds["lines"], kinds["unparsed"])
    assert {labels for labels, histogram in found.requests.items() if histogram.count} == set(expected)
    for labels, histogram in found.requests.items():
        times = expected.get(labels, [])
        assert histogram.count == len(times)
        assert histogram.sum == pytest.approx(sum(times) / 1e6, abs=1e-6)
        assert list(histogram.buckets)[-1] == float("inf")
        assert len(histogram.buckets) == 20
        for edge, count in histogram.buckets.items():
            assert count == sum(time <= edge * 1e6 for time in times)


def assert_tidy(page: str) -> None:
    """promtool has nothing to say about the sensors' metrics, and there are no more series than there may be."""
    result = subprocess.run(
        [program_path("promtool"), "check", "metrics"],
        input=page,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not [line for line in result.stderr.splitlines() if line.startswith("app_")]
    series = {labels for form in lines.FORMATS for labels in totals(page, form).requests}
    assert series <= {(m, s) for m in ("GET", "POST", "other") for s in ("1xx", "2xx", "3xx", "4xx", "5xx", "other")}
