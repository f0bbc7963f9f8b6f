"""One scrape of an exporter: all its sources at once, under one deadline, and what the exporter says about itself."""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Iterable
from typing import Callable, NamedTuple

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import CollectorRegistry

from virtscope import __version__
from virtscope.shell.exposition import Encoder, FamilyError, Format
from virtscope.shell.sources import SourceError, SourceReader, reason_of

log = logging.getLogger(__name__)


class Source(NamedTuple):
    """A source as the shell sees it: `read` gives metric families or raises, `origin` says where the figures come from.

    `origin` is asked after each successful read and becomes the `detail` label of `*_source_info`.
    """

    name: str
    read: Callable[[], list[Metric]]
    origin: Callable[[], str]


class Exporter:
    """Answers scrapes from its sources and adds its own state and cost.

    Exposes, beside the families of the sources (`xentop` standing for the exporter's name):

        xentop_up 1
        xentop_source_up{source="libxenstat"} 1
        xentop_source_info{source="libxenstat",detail="libxenstat.so.4.17"} 1
        xentop_source_errors_total{source="libxenstat",reason="timeout"} 0
        xentop_source_reads_total{source="libxenstat"} 42
        xentop_source_seconds_total{source="libxenstat"} 0.11
        xentop_source_cpu_seconds_total{source="libxenstat"} 0.09
        xentop_encode_seconds_total 0.03
        xentop_encode_errors_total 0
        xentop_build_info{version="0.1.0",python="3.11.2"} 1
        process_cpu_seconds_total 0.5       # and the other process_* metrics
    """

    REASONS = ("timeout", "unavailable", "error", "rubbish")

    def __init__(self, name: str, sources: Iterable[Source], procfs: str = "/proc") -> None:
        self.name = name
        self._sources = list(sources)
        self._readers = [SourceReader(source.name, source.read) for source in self._sources]
        self._process = ProcessCollector(proc=procfs, registry=CollectorRegistry())
        self._encoder = Encoder(on_refused=self._note_refused)
        # One at a time: the encoder keeps lines from one scrape to the next, and the counters below belong together.
        self._lock = threading.Lock()
        self._encode_seconds = 0.0
        self._refused: set[str] = set()  # families that could not be written, each said once in the log
        self._refusals = 0
        self._errors = {(source.name, reason): 0 for source in self._sources for reason in self.REASONS}
        self._state = {source.name: "" for source in self._sources}  # "up" or the reason of the last failure

    def scrape(self, form: Format, seconds: float) -> bytes:
        """Return the exposition in `form`, waiting for the sources no longer than `seconds`."""
        deadline = time.monotonic() + seconds
        asked = [reader.ask() for reader in self._readers]
        outcomes = [reader.answer(read, deadline) for reader, read in zip(self._readers, asked)]
        with self._lock:
            families: list[Metric] = []
            for source, outcome in zip(self._sources, outcomes):
                if isinstance(outcome, Exception):
                    self._note_failure(source, outcome)
                else:
                    self._note_success(source)
                    families += outcome
            families += self._about_itself()
            begun = time.thread_time()
            exposition = (
                self._encoder.openmetrics(families) if form is Format.OPENMETRICS else self._encoder.text(families)
            )
            self._encode_seconds += time.thread_time() - begun
            return exposition

    def _note_failure(self, source: Source, error: Exception) -> None:
        reason = reason_of(error)
        self._errors[source.name, reason] += 1
        if self._state[source.name] == reason:
            return  # said already
        self._state[source.name] = reason
        unforeseen = not isinstance(error, SourceError)  # a fault of ours: say where
        log.warning(
            "source failed",
            extra={"fields": {"source": source.name, "reason": reason, "err": f"{error}" or type(error).__name__}},
            exc_info=error if unforeseen else None,
        )

    def _note_success(self, source: Source) -> None:
        if self._state[source.name] == "up":
            return
        self._state[source.name] = "up"
        log.info("source answers", extra={"fields": {"source": source.name, "detail": source.origin()}})

    def _note_refused(self, error: FamilyError) -> None:
        self._refusals += 1
        if error.family not in self._refused:
            self._refused.add(error.family)
            log.error("metric family left out", extra={"fields": {"family": error.family, "err": error}})

    def _about_itself(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(f"{self.name}_up", "1 if every source gave its figures for this scrape, else 0.")
        up.add_metric([], float(all(state == "up" for state in self._state.values())))
        yield up

        source_up = GaugeMetricFamily(
            f"{self.name}_source_up", "1 if this source gave its figures for this scrape, else 0.", labels=["source"]
        )
        info = InfoMetricFamily(f"{self.name}_source", "Where the figures of this scrape come from.")
        errors = CounterMetricFamily(
            f"{self.name}_source_errors",
            "Scrapes that a source failed, by reason: timeout, unavailable (what it reads isn't there), error, rubbish "
            "(what it read can't be understood).",
            labels=["source", "reason"],
        )
        reads = CounterMetricFamily(f"{self.name}_source_reads", "Finished reads of this source.", labels=["source"])
        seconds = CounterMetricFamily(
            f"{self.name}_source_seconds", "Time spent in finished reads of this source, in seconds.", labels=["source"]
        )
        cpu = CounterMetricFamily(
            f"{self.name}_source_cpu_seconds",
            "CPU time spent in finished reads of this source, in seconds.",
            labels=["source"],
        )
        for source, reader in zip(self._sources, self._readers):
            answered = self._state[source.name] == "up"
            source_up.add_metric([source.name], float(answered))
            if answered:
                info.add_metric([], {"source": source.name, "detail": source.origin()})
            cost = reader.cost
            reads.add_metric([source.name], cost.reads)
            seconds.add_metric([source.name], cost.seconds)
            cpu.add_metric([source.name], cost.cpu_seconds)
        for key, count in self._errors.items():
            errors.add_metric(key, count)
        yield from (source_up, info, errors, reads, seconds, cpu)

        yield CounterMetricFamily(
            f"{self.name}_encode_seconds", "CPU time spent writing expositions, in seconds.", self._encode_seconds
        )
        yield CounterMetricFamily(
            f"{self.name}_encode_errors", "Metric families left out because they could not be written.", self._refusals
        )
        yield InfoMetricFamily(
            f"{self.name}_build",
            "Version of the exporter and of the Python that runs it.",
            {"version": __version__, "python": platform.python_version()},
        )
        yield from self._process.collect()
