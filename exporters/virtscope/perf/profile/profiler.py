"""Profiles the machine in the background, round by round, and shows what they add up to."""

from __future__ import annotations

from prometheus_client import Metric

from virtscope.perf.profile import metrics
from virtscope.perf.profile.metrics import Profiled
from virtscope.perf.profile.top import Top
from virtscope.perf.source.perf_record import PerfRecord, Sampled
from virtscope.toolkit.background import Background

_NEWCOMERS = 10  # symbols of an event that may gain a series in a round, so six hundred an hour at most


class Profiler:
    """Samples in the background, from start() to close(). A round that fails adds nothing, and is counted."""

    def __init__(self, source: PerfRecord, interval: float, symbols: int) -> None:
        """Sample each `interval` seconds; the `symbols` places of each event with the most samples get series."""
        self._source = source
        self._top = Top(symbols, _NEWCOMERS)
        self._lost = 0
        self._seconds = 0.0
        self.background = Background("profile", self._sample, interval, source.cpu_seconds, takes=source.seconds)

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
        return metrics.live_families(self.background.latest())

    def _sample(self) -> Profiled:
        found = self._source.read()
        self._top.add(found.report.profile)
        self._lost += found.report.lost
        self._seconds += found.seconds
        return Profiled(
            self._top.counts(),
            self._lost,
            self._seconds,
            [(event.event, self._pace(event), scope) for event, scope in found.scopes.items()],
        )

    def _pace(self, event: Sampled) -> str:
        return f"each {event.period}th" if event.period else f"{self._source.frequency()} Hz"
