"""All that the demo is started with: configuration, a day of history that ends now, and what is played from now on."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from demo import history, openmetrics, past, recordings, story
from demo.openmetrics import Series
from demo.targets import Ports, stage, targets

HISTORY = 27 * 3600  # seconds: baselines are known after a day, and the maximum of requests two hours later
# Seconds from the beginning until Prometheus can begin to scrape, on a machine with nothing else to do.
_QUIET = 12
_START = 2  # of these, for its start; it takes nothing that is older than what it has
_ORIGIN = "origin"


class Programs(NamedTuple):
    """Where Prometheus's programs are."""

    promtool: Path
    prometheus: Path


def prepare(folder: Path, programs: Programs, ports: Ports, seconds: int = HISTORY) -> int:
    """Fill the folder; `seconds` is how much history there is to be. Return when it ends, in Unix time."""
    for left in folder.iterdir():  # by a demo before
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    wanted = targets(ports)
    stage(folder, wanted)
    end = (int(time.time()) + _ahead()) // history.LIVE_STEP * history.LIVE_STEP
    begin = end - seconds
    origin = min(begin, end - history.FOR_RULES) - story.CYCLE
    (folder / _ORIGIN).write_text(f"{origin}\n")
    data = folder / "data"
    data.mkdir()

    def add(series: Iterable[Series]) -> None:
        openmetrics.blocks(programs.promtool, openmetrics.write(folder, series), data)

    with ProcessPoolExecutor(1) as beside:
        recorded = beside.submit(recordings.write, folder, origin, time.time())
        add(history.samples(wanted, begin, end, origin))
        until_now = past.Past(programs.prometheus, data, begin, end)
        recording, alerting = past.read_rules(folder)
        for rules in past.rounds(recording):
            add(past.records(rules, until_now))
        asked = time.monotonic()
        add(past.alerts(alerting, until_now))  # a start of Prometheus is in it
        busy = time.monotonic() - asked
        recorded.result()
    begins = end
    if (soon := int(time.time() + _START + 2 * busy)) > end:  # so that live rates are whole from the first one on
        add(history.latest(wanted, end, soon, origin))
        begins = soon
    time.sleep(max(begins - _START - busy - time.time(), 0))
    return end


def _ahead() -> int:
    """How far history reaches beyond the beginning, in seconds: until Prometheus scrapes, later on a busy machine.

    Records are missing where it takes longer than that; of them a minute isn't seen.
    """
    return round(_QUIET * min(1 + os.getloadavg()[0] / (os.cpu_count() or 1) / 2, 8))


def read_origin(folder: Path) -> float:
    """When the counters of a prepared demo were 0, in Unix time."""
    return float((folder / _ORIGIN).read_text())
