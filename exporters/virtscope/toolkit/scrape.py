"""A scrape of an exporter: all sources in parallel, one deadline, and metrics of the exporter itself."""

from __future__ import annotations

import logging
import math
import platform
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Callable, NamedTuple

from prometheus_client import Metric, ProcessCollector

from virtscope import __version__
from virtscope.toolkit.collect import (
    Background,
    Cost,
    InlineReader,
    Outcome,
    SourceError,
    SourceReader,
    SourceTimeout,
    SourceUnavailable,
    reason_of,
)
from virtscope.toolkit.exposition import Encoder, FamilyError, Gzip
from virtscope.toolkit.families import family, info, scalar

log = logging.getLogger(__name__)

MAX_HELD_BACK_SECONDS = 1.0  # that a round waits for the previous one
# Seconds by which two scrapes may swap on the way. A store with the samples of two Prometheus servers orders them by
# the start of their scrapes. If the earlier scrape arrives last and reads a higher counter, the counter seems to
# decrease, which rate() takes for a reset. So both get the same values.
MOMENT_SECONDS = 0.25
REASONS = ("timeout", "unavailable", "error", "malformed")


class Source(NamedTuple):
    """A source: `read` returns metric families or raises, `origin` returns where the values come from.

    `origin` is called after each successful read, and never raises; it is the `detail` label of `*_source_info`.

    A source that isn't required may be missing on a healthy machine: SourceUnavailable then means *absent* instead of
    failed, and its message becomes `detail`. (So the message must not change from scrape to scrape.)

    If `read` returns values of a `background`, its age, cost and failures are exposed, too.
    """

    name: str
    read: Callable[[], list[Metric]]
    origin: Callable[[], str]
    required: bool = True
    background: Background[Any] | None = None


class _Watched:
    """A source, its reader, and how the last read went."""

    def __init__(self, source: Source, reader: SourceReader[list[Metric]] | InlineReader[list[Metric]]) -> None:
        self.source = source
        self.reader = reader
        self.state = ""  # "up", "absent" or the last failure's reason
        self.detail = ""  # its origin as of the last successful read, or why it is absent
        self.errors = dict.fromkeys(REASONS, 0)

    def cost(self) -> Cost:
        """Return its cost in scrapes and in the background; the background's reads count."""
        if self.source.background is None:
            return self.reader.cost
        here, there = self.reader.cost, self.source.background.cost
        return Cost(there.reads, here.seconds + there.seconds, here.cpu_seconds + there.cpu_seconds)


class _Round:
    """A round of scrapes that share one read of the sources: overlapping or simultaneous ones.

    Otherwise forty simultaneous scrapes would keep forty readings of each source and forty pages in memory. Each scrape
    waits until its own deadline. Scrapes with results of the same sources share a page.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.waiting = 0  # scrapes that wait for the reads to be requested
        self.reads: list[Future[Any]] | None = None  # None: not requested yet
        self.pages: dict[tuple[bool, ...], bytes] = {}  # by gzipped, and whether each source timed out


class Exporter:
    """Answers scrapes from its sources and adds metrics of its own state and cost: see docs/metrics.md."""

    def __init__(self, name: str, sources: Iterable[Source], target: str = "") -> None:
        """`target` is the sources' host, if it isn't this one.

        Then log lines name it, the process's metrics are omitted, and sources are read in the scrape's thread, because
        they are already fetched.
        """
        self.name = name
        self.certificate_not_after: Callable[[], float | None] = lambda: None
        self._about = {"target": target} if target else {}  # in each log line
        reader = InlineReader if target else SourceReader
        self._watched = [_Watched(source, reader(source.name, source.read)) for source in sources]
        self._process = None if target else ProcessCollector(registry=None)
        self._encoder = Encoder(on_refused=self._note_refused)
        self._gzip = Gzip()
        # One at a time: the encoder caches lines between scrapes, and the counters below belong together.
        self._lock = threading.Lock()
        self._rounds = threading.Condition()  # guards the next two
        self._newest: _Round | None = None  # as long as it is shared
        self._under_way = 0  # scrapes that are being read or encoded
        self._encode_seconds = 0.0
        self._refused: set[str] = set()  # families that could not be written, each logged once
        self._refusals = 0

    def scrape(self, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        """Return the exposition, waiting at most `seconds` for the sources.

        A `shared` scrape may get the values of another one at this moment.
        """
        deadline = time.monotonic() + seconds
        with self._in_a_round(seconds, shared=shared) as round_:
            return self._page(round_, deadline, gzipped=gzipped)

    def _ask(self) -> list[Future[Any]]:
        """Request reads of the sources."""
        return [each.reader.ask() for each in self._watched]

    def _outcomes(self, reads: list[Future[Any]], deadline: float) -> list[Outcome[list[Metric]]]:
        """Return each source's result by `deadline`."""
        return [each.reader.answer(read, deadline) for each, read in zip(self._watched, reads)]

    def _page(self, round_: _Round, deadline: float, *, gzipped: bool) -> bytes:
        assert round_.reads
        outcomes = self._outcomes(round_.reads, deadline)
        with self._lock:
            families: list[Metric] = []
            for watched, outcome in zip(self._watched, outcomes):
                if isinstance(outcome, SourceUnavailable) and not watched.source.required:
                    self._note_absence(watched, outcome)
                elif isinstance(outcome, Exception):
                    together = [each.source.name for each, its in zip(self._watched, outcomes) if its is outcome]
                    self._note_failure(watched, outcome, together)
                else:
                    self._note_success(watched)
                    families += outcome
            key = gzipped, *(isinstance(outcome, SourceTimeout) for outcome in outcomes)
            if key not in round_.pages:
                round_.pages[key] = self._encode([*families, *self._about_itself()], gzipped=gzipped)
            return round_.pages[key]

    @contextmanager
    def _in_a_round(self, seconds: float, *, shared: bool) -> Iterator[_Round]:
        """Join or begin a round for a scrape with this timeout, until the block ends."""
        now = time.monotonic()
        with self._rounds:
            round_ = self._newest
            if round_ is None or (round_.reads is not None and not (shared and now - round_.began < MOMENT_SECONDS)):
                round_ = self._newest = _Round(now if shared else -math.inf)  # curl gets fresh values
            if round_.reads is not None:
                self._under_way += 1
            else:
                round_.waiting += 1
                self._rounds.wait_for(
                    lambda: round_.reads is not None or not self._under_way, min(MAX_HELD_BACK_SECONDS, seconds / 4)
                )
            if round_.reads is None:
                round_.reads = self._ask()
                self._under_way += round_.waiting
                self._rounds.notify_all()
        try:
            yield round_
        finally:
            with self._rounds:
                self._under_way -= 1
                if not self._under_way:
                    self._rounds.notify_all()
                last = not self._under_way and self._newest is round_
            if last:  # its pages may be large
                timer = threading.Timer(MOMENT_SECONDS, self._let_go, (round_,))
                timer.daemon = True
                with suppress(RuntimeError):  # no thread left: the next scrape frees them
                    timer.start()

    def _let_go(self, round_: _Round) -> None:
        """Free a round's pages, which can no longer be shared."""
        with self._rounds:
            if self._newest is round_:
                self._newest = None

    def _encode(self, families: list[Metric], *, gzipped: bool) -> bytes:
        begun = time.thread_time()
        pieces = self._encoder.pieces(families)
        exposition = self._gzip.compress(pieces) if gzipped else b"".join(pieces)
        self._encode_seconds += time.thread_time() - begun
        return exposition

    def _log(self, level: int, event: str, fields: dict[str, object], error: Exception | None = None) -> None:
        unforeseen = error and not isinstance(error, SourceError)  # a bug: log the traceback
        said = {"err": f"{error}" or type(error).__name__} if error else {}
        about = {**self._about, **fields, **said}
        log.log(level, event, extra={"fields": about}, exc_info=error if unforeseen else None)

    def _note_failure(self, watched: _Watched, error: Exception, together: Sequence[str]) -> None:
        """Count a failure and log it if new; sources that failed `together` with the same error share a line."""
        reason = reason_of(error)
        watched.errors[reason] += 1
        if watched.state != reason and watched.source.name == together[0]:
            self._log(logging.WARNING, "source failed", {"source": ",".join(together), "reason": reason}, error)
        watched.state = reason

    def _note_absence(self, watched: _Watched, error: SourceUnavailable) -> None:
        detail = f"absent: {error}"
        if (watched.state, watched.detail) != ("absent", detail):
            self._log(logging.INFO, "source absent", {"source": watched.source.name, "why": error})
        watched.state, watched.detail = "absent", detail

    def _note_success(self, watched: _Watched) -> None:
        watched.detail = watched.source.origin()
        if watched.state != "up":
            self._log(logging.INFO, "source answers", {"source": watched.source.name, "detail": watched.detail})
        watched.state = "up"

    def _note_refused(self, error: FamilyError) -> None:
        self._refusals += 1
        if error.family not in self._refused:
            self._refused.add(error.family)
            fields = {**self._about, "family": error.family, "err": error}
            log.error("metric family left out", extra={"fields": fields})

    def _about_itself(self) -> Iterator[Metric]:
        name, watched = self.name, self._watched
        labels = [{"source": each.source.name} for each in watched]

        def of_each(metric: str, documentation: str, values: Iterable[float | None]) -> Metric:
            return family(f"{name}_{metric}", documentation, zip(labels, values))

        def by_reason(metric: str, documentation: str, counts: Iterable[Mapping[str, float]]) -> Metric:
            counted = [
                ({**of, "reason": reason}, count) for of, by in zip(labels, counts) for reason, count in by.items()
            ]
            return family(f"{name}_{metric}", documentation, counted)

        all_up = float(all(each.state in {"up", "absent"} for each in watched))
        yield scalar(f"{name}_up", "1 if every source was read for this scrape, else 0.", all_up)
        yield of_each(
            "source_up",
            "1 if this source was read for this scrape, else 0.",
            [float(each.state == "up") if each.state != "absent" else None for each in watched],
        )
        yield info(
            f"{name}_source_info",
            "Origin of this scrape's values, or why a source is absent.",
            [{**of, "detail": each.detail} for of, each in zip(labels, watched) if each.state in {"up", "absent"}],
        )
        yield by_reason(
            "source_errors_total",
            "Scrapes in which the source failed, by reason: timeout, unavailable (it doesn't exist), error, "
            "malformed (it can't be parsed).",
            [each.errors for each in watched],
        )
        took = "of finished reads of this source, in seconds."
        costs = [each.cost() for each in watched]
        yield of_each("source_reads_total", "Finished reads of this source.", [cost.reads for cost in costs])
        yield of_each("source_seconds_total", f"Duration {took}", [cost.seconds for cost in costs])
        yield of_each("source_cpu_seconds_total", f"CPU time {took}", [cost.cpu_seconds for cost in costs])
        backgrounds = [each.source.background for each in watched]
        if any(backgrounds):
            yield of_each(
                "source_age_seconds",
                "Age of the values of this background source, in seconds.",
                [background.age() if background else None for background in backgrounds],
            )
            yield by_reason(
                "source_background_errors_total",
                "Failed background reads, by reason; scrapes get the previous values until they are too old.",
                [background.failures if background else {} for background in backgrounds],
            )
        encoding = "CPU time of encoding expositions, in seconds."
        yield scalar(f"{name}_encode_seconds_total", encoding, self._encode_seconds)
        dropped = "Metric families dropped because they could not be encoded."
        yield scalar(f"{name}_encode_errors_total", dropped, self._refusals)
        if (not_after := self.certificate_not_after()) is not None:
            expires = "Unix time at which the first certificate of the served chain expires."
            yield scalar(f"{name}_tls_certificate_not_after_seconds", expires, not_after)
        versions = {"version": __version__, "python": platform.python_version()}
        yield info(f"{name}_build_info", "Versions of the exporter and of Python.", [versions])
        if self._process:
            yield from self._process.collect()
