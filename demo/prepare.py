"""What the demo needs to start: configuration, a day of history that ends now, and recordings to replay from now on."""

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

HISTORY = 27 * 3600  # seconds: baselines need a day, and the maximum of requests two hours more
# Seconds from now until all of it is made, on an otherwise idle machine.
_QUIET = 10
_ORIGIN = "origin"


class Programs(NamedTuple):
    """Paths of Prometheus's programs."""

    promtool: Path
    prometheus: Path


def prepare(folder: Path, programs: Programs, ports: Ports, seconds: int = HISTORY) -> int:
    """Fill the folder; `seconds` is the length of the history. Return its end, in Unix time."""
    for left in folder.iterdir():  # from an earlier demo
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
        add(past.alerts(alerting, until_now))
        busy = time.monotonic() - asked
        recorded.result()
    soon = int(time.time() + 2 * busy) // history.LIVE_STEP * history.LIVE_STEP
    if soon > end:  # so that live rates are complete from the first one on
        add(history.latest(wanted, end, soon, origin))
    # Prometheus, which is started then, discards what is older than samples that it has.
    time.sleep(max(end - time.time(), soon - time.time(), 0))
    return end


def _ahead() -> int:
    """How far the history extends into the future, in seconds: until Prometheus is started, later on a busy machine.

    If it takes longer, records are missing; a gap of a minute isn't visible.
    """
    return round(_QUIET * min(1 + os.getloadavg()[0] / (os.cpu_count() or 1) / 2, 8))


def read_origin(folder: Path) -> float:
    """When the counters of a prepared demo were 0, in Unix time."""
    return float((folder / _ORIGIN).read_text())
