"""Every request is counted exactly once, with its time: by the sensor alone, and in the real Telegraf under load.

Changes to a log between two runs of a sensor: test_log_files.py.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
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
    log, ended = tmp_path / "access.log", threading.Event()
    log.touch()
    agent = Agent(tmp_path / "agent")
    agent.add_access_log(log)
    written = 0

    def serve() -> None:
        nonlocal written
        while not ended.wait(0.001):
            with log.open("ab", buffering=0) as file:  # a new file after each rotation
                file.write(PLAIN % written)
            written += 1

    def wait_for_more(lines: int) -> None:
        end = written + lines
        wait_for(lambda: written >= end, every=0.001)

    with agent, ThreadPoolExecutor() as server:
        agent.wait_for_lines(0)
        server.submit(serve)
        try:
            seen = 0
            for _ in range(3):
                wait_for_more(500)
                before, seen = seen, agent.totals().count
                assert seen >= before
                agent.stop(kill=kill)
                log.rename(f"{log}.1")
                wait_for_more(100)
                agent.__enter__()
        finally:
            ended.set()
            server.shutdown()
        found = agent.wait_for_lines(written)
    assert found.count == written >= seen
