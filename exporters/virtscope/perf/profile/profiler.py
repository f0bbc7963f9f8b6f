"""Profiles the machine in the background, round by round, and shows what they add up to."""

from __future__ import annotations

from prometheus_client import Metric

from virtscope.perf.profile import metrics
from virtscope.perf.profile.samples import Profile
from virtscope.perf.profile.top import Top
from virtscope.perf.source.perf_record import PerfRecord
from virtscope.shell.background import Background

_NEWCOMERS = 10  # symbols of an event that may gain a series in a round, so six hundred an hour at most


class Profiler:
    """Samples in the background, from start() to close(). A round that fails adds nothing, and is counted."""

    def __init__(self, source: PerfRecord, interval: float, symbols: int) -> None:
        """Sample each `interval` seconds; the `symbols` places of each event with the most samples get series."""
        self._source = source
        self._top = Top(symbols, _NEWCOMERS)
        self.background = Background("profile", self._sample, interval, source.cpu_seconds)

    def start(self) -> None:
        """Begin sampling."""
        self.background.start()

    def close(self) -> None:
        """End sampling, and the perf that runs."""
        self.background.close()
        self._source.close()

    def origin(self) -> str:
        """Return the path of perf."""
        return self._source.origin()

    def read(self) -> list[Metric]:
        """Return the families as of the last round; raises as Background.latest() does."""
        return metrics.families(self.background.latest())

    def _sample(self) -> Profile:
        self._top.add(self._source.read())
        return self._top.counts()
