"""One scrape of an exporter: all its sources at once, under one deadline, and what the exporter says about itself."""

from __future__ import annotations

import logging
import math
import os
import platform
import resource
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from virtscope import __version__
from virtscope.toolkit.collect import (
    Background,
    Cost,
    InlineReader,
    Outcome,
    Read,
    SourceError,
    SourceReader,
    SourceTimeout,
    SourceUnavailable,
    reason_of,
)
from virtscope.toolkit.exposition import Encoder, FamilyError, Format, Gzip

log = logging.getLogger(__name__)

MOST_HELD_BACK_SECONDS = 1.0  # a round, by the one before
# By which one of two scrapes may arrive later than it began. A store that has the samples of both Prometheus of a pair
# orders them by when their scrapes began: if the first arrived last and read a counter later, that counter would go
# backwards between the two, which rate() takes for a reset. So both get the same values.
MOMENT_SECONDS = 0.25


class Source(NamedTuple):
    """A source: `read` gives metric families or raises, `origin` says where the values come from.

    `origin` is asked after each successful read and becomes the `detail` label of `*_source_info`. When it raises, that
    sample alone is missing.

    A source that is not required may be missing from a machine that is all right: when it raises SourceUnavailable it
    is *absent*, no failure, and `detail` says why. (So the message of that must not change from scrape to scrape.)

    Where `read` only takes what a `background` has read, that one's age, cost and failures are shown.
    """

    name: str
    read: Callable[[], list[Metric]]
    origin: Callable[[], str]
    required: bool = True
    background: Background[Any] | None = None


class _Round:
    """Scrapes whose sources are read once: those that come while others are under way, or at the same moment.

    Else forty scrapes at once would have forty values of each source, and as many pages, in memory. Each scrape waits
    for the reads until its own deadline. Those that then have the same sources share a page.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.waiting = 0  # scrapes, until the sources are asked
        self.reads: list[Read[Any]] | None = None  # None: not asked yet
        self.pages: dict[tuple[Format, bool, tuple[bool, ...]], bytes] = {}


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
        xentop_source_info{source="runstate",detail="absent: this Xen has no such call"} 1   # one that isn't required
        xentop_source_age_seconds{source="xl"} 12.5                                          # one read in background
        xentop_source_background_errors_total{source="xl",reason="timeout"} 0
        xentop_encode_seconds_total 0.03
        xentop_encode_errors_total 0
        xentop_tls_certificate_not_after_seconds 1.7984160e+09                               # served with TLS
        xentop_build_info{version="0.1.0",python="3.11.2"} 1
        process_cpu_seconds_total 0.5       # and the other process_* metrics
    """

    REASONS = ("timeout", "unavailable", "error", "malformed")

    def __init__(self, name: str, sources: Iterable[Source], target: str = "") -> None:
        """`target` is the host that the sources are of, where that isn't this one.

        Its log lines name it; its sources are read in the scrape's thread, as they have been fetched before; and the
        process's metrics, which are no host's, are left out.
        """
        self.name = name
        self.certificate_not_after: Callable[[], float | None] = lambda: None
        self._sources = list(sources)
        self._about = {"target": target} if target else {}  # in each line of the log
        self._readers: list[SourceReader[list[Metric]] | InlineReader[list[Metric]]] = [
            InlineReader(source.name, source.read) if target else SourceReader(source.name, source.read)
            for source in self._sources
        ]
        self._process = None if target else Process()
        self._encoder = Encoder(on_refused=self._note_refused)
        self._gzip = Gzip()
        # One at a time: the encoder keeps lines from one scrape to the next, and the counters below belong together.
        self._lock = threading.Lock()
        self._rounds = threading.Condition()  # over the next two
        self._newest: _Round | None = None  # until its moment is over
        self._under_way = 0  # scrapes whose sources are being read, or whose pages are being written
        self._encode_seconds = 0.0
        self._refused: set[str] = set()  # families that could not be written, each said once in the log
        self._refusals = 0
        self._errors = {(source.name, reason): 0 for source in self._sources for reason in self.REASONS}
        self._state = {source.name: "" for source in self._sources}  # "up", "absent" or why the last read failed
        self._absent: dict[str, str] = {}  # why a source that isn't required is absent, as of its last read
        self._origins: dict[str, str | None] = {}  # as of each source's last successful read; None if it raised

    def scrape(self, form: Format, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        """Return the exposition in `form`, waiting for the sources no longer than `seconds`.

        One that is `shared` has the values that another got at this moment.
        """
        deadline = time.monotonic() + seconds
        with self._in_a_round(seconds, shared=shared) as round_:
            return self._page(round_, form, deadline, gzipped=gzipped)

    def _ask(self) -> list[Read[Any]]:
        """Have the sources read."""
        return [reader.ask() for reader in self._readers]

    def _outcomes(self, reads: list[Read[Any]], deadline: float) -> list[Outcome[list[Metric]]]:
        """Return what each source gave by `deadline`."""
        return [reader.answer(read, deadline) for reader, read in zip(self._readers, reads)]

    def _page(self, round_: _Round, form: Format, deadline: float, *, gzipped: bool) -> bytes:
        assert round_.reads
        outcomes = self._outcomes(round_.reads, deadline)
        with self._lock:
            families: list[Metric] = []
            for source, outcome in zip(self._sources, outcomes):
                if isinstance(outcome, SourceUnavailable) and not source.required:
                    self._note_absence(source, outcome)
                elif isinstance(outcome, Exception):
                    together = [each.name for each, its in zip(self._sources, outcomes) if its is outcome]
                    self._note_failure(source, outcome, together)
                else:
                    self._note_success(source)
                    families += outcome
            key = form, gzipped, tuple(isinstance(outcome, SourceTimeout) for outcome in outcomes)
            if key not in round_.pages:
                round_.pages[key] = self._encode([*families, *self._about_itself()], form, gzipped=gzipped)
            return round_.pages[key]

    @contextmanager
    def _in_a_round(self, seconds: float, *, shared: bool) -> Iterator[_Round]:
        """Have the sources read for a scrape that may take so long; it is under way until the block ends."""
        now = time.monotonic()
        with self._rounds:
            round_ = self._newest
            if round_ is None or (round_.reads is not None and not (shared and now - round_.began < MOMENT_SECONDS)):
                round_ = self._newest = _Round(now if shared else -math.inf)  # the values of a look by curl are its own
            if round_.reads is not None:
                self._under_way += 1
            else:
                round_.waiting += 1
                self._rounds.wait_for(
                    lambda: round_.reads is not None or not self._under_way, min(MOST_HELD_BACK_SECONDS, seconds / 4)
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
            if last:
                self._let_go_after_its_moment(round_)

    def _let_go_after_its_moment(self, round_: _Round) -> None:
        """Let a round's pages, which may be large, go when nobody can share them any more."""

        def let_go() -> None:
            with self._rounds:
                if self._newest is round_:
                    self._newest = None

        timer = threading.Timer(MOMENT_SECONDS, let_go)
        timer.daemon = True
        with suppress(RuntimeError):  # no thread left: they go with the next scrape
            timer.start()

    def _encode(self, families: list[Metric], form: Format, *, gzipped: bool) -> bytes:
        begun = time.thread_time()
        pieces = self._encoder.pieces(families, form)
        exposition = self._gzip.compress(pieces) if gzipped else b"".join(pieces)
        self._encode_seconds += time.thread_time() - begun
        return exposition

    def _note_failure(self, source: Source, error: Exception, together: Sequence[str]) -> None:
        """Count a failure, and log it if it is new; sources that failed `together`, by the same error, in one line."""
        reason = reason_of(error)
        self._errors[source.name, reason] += 1
        known = self._state[source.name] == reason
        self._state[source.name] = reason
        if known or source.name != together[0]:
            return
        unforeseen = not isinstance(error, SourceError)  # a fault of ours: say where
        log.warning(
            "source failed",
            extra={"fields": {**self._about, "source": ",".join(together), "reason": reason, "err": _words(error)}},
            exc_info=error if unforeseen else None,
        )

    def _note_absence(self, source: Source, error: SourceUnavailable) -> None:
        if self._state[source.name] != "absent" or self._absent[source.name] != str(error):
            log.info("source absent", extra={"fields": {**self._about, "source": source.name, "why": error}})
        self._state[source.name] = "absent"
        self._absent[source.name] = str(error)

    def _note_success(self, source: Source) -> None:
        detail = self._origin(source)
        if self._state[source.name] != "up":
            self._state[source.name] = "up"
            fields = {"source": source.name} if detail is None else {"source": source.name, "detail": detail}
            log.info("source answers", extra={"fields": {**self._about, **fields}})

    def _origin(self, source: Source) -> str | None:
        detail = None
        try:
            detail = source.origin()
        except Exception as error:  # the values are good all the same
            self._errors[source.name, reason_of(error)] += 1
            if self._origins.get(source.name, "") is not None:  # not logged already
                fields = {**self._about, "source": source.name, "err": _words(error)}
                unforeseen = not isinstance(error, SourceError)
                log.warning(
                    "origin of a source's values unknown",
                    extra={"fields": fields},
                    exc_info=error if unforeseen else None,
                )
        self._origins[source.name] = detail
        return detail

    def _note_refused(self, error: FamilyError) -> None:
        self._refusals += 1
        if error.family not in self._refused:
            self._refused.add(error.family)
            fields = {**self._about, "family": error.family, "err": error}
            log.error("metric family left out", extra={"fields": fields})

    def _about_itself(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(f"{self.name}_up", "1 if every source was read for this scrape, else 0.")
        up.add_metric([], float(all(state in {"up", "absent"} for state in self._state.values())))
        yield up

        source_up = GaugeMetricFamily(
            f"{self.name}_source_up", "1 if this source was read for this scrape, else 0.", labels=["source"]
        )
        info = InfoMetricFamily(f"{self.name}_source", "Origin of this scrape's values, or why a source is absent.")
        errors = CounterMetricFamily(
            f"{self.name}_source_errors",
            "Scrapes in which the source failed, by reason: timeout, unavailable (it doesn't exist), error, "
            "malformed (it can't be parsed).",
            labels=["source", "reason"],
        )
        reads = CounterMetricFamily(f"{self.name}_source_reads", "Finished reads of this source.", labels=["source"])
        seconds = CounterMetricFamily(
            f"{self.name}_source_seconds", "Duration of finished reads of this source, in seconds.", labels=["source"]
        )
        cpu = CounterMetricFamily(
            f"{self.name}_source_cpu_seconds",
            "CPU time of finished reads of this source, in seconds.",
            labels=["source"],
        )
        for source, reader in zip(self._sources, self._readers):
            state = self._state[source.name]
            if state != "absent":
                source_up.add_metric([source.name], float(state == "up"))
            detail = self._origins.get(source.name)
            if state == "up" and detail is not None:
                info.add_metric([], {"source": source.name, "detail": detail})
            elif state == "absent":
                info.add_metric([], {"source": source.name, "detail": f"absent: {self._absent[source.name]}"})
            cost = _cost(reader, source.background)
            reads.add_metric([source.name], cost.reads)
            seconds.add_metric([source.name], cost.seconds)
            cpu.add_metric([source.name], cost.cpu_seconds)
        for key, count in self._errors.items():
            errors.add_metric(key, count)
        yield from (source_up, info, errors, reads, seconds, cpu)
        yield from self._about_backgrounds()

        yield CounterMetricFamily(
            f"{self.name}_encode_seconds",
            "CPU time of encoding expositions, in seconds.",
            self._encode_seconds,
        )
        yield CounterMetricFamily(
            f"{self.name}_encode_errors", "Metric families dropped because they could not be encoded.", self._refusals
        )
        not_after = self.certificate_not_after()
        if not_after is not None:
            yield GaugeMetricFamily(
                f"{self.name}_tls_certificate_not_after_seconds",
                "Unix time at which the first certificate of the served chain expires.",
                not_after,
            )
        yield InfoMetricFamily(
            f"{self.name}_build",
            "Versions of the exporter and of Python.",
            {"version": __version__, "python": platform.python_version()},
        )
        if self._process is None:
            return
        try:
            yield from self._process.families()
        except OSError as error:  # no file descriptors left
            self._note_refused(FamilyError("process_*", error))

    def _about_backgrounds(self) -> Iterable[Metric]:
        backgrounds = [(source.name, source.background) for source in self._sources if source.background]
        if not backgrounds:
            return
        age = GaugeMetricFamily(
            f"{self.name}_source_age_seconds",
            "Age of the values of this background source, in seconds.",
            labels=["source"],
        )
        errors = CounterMetricFamily(
            f"{self.name}_source_background_errors",
            "Failed background reads, by reason; scrapes get the previous values until they are too old.",
            labels=["source", "reason"],
        )
        for name, background in backgrounds:
            seconds = background.age()
            if seconds is not None:
                age.add_metric([name], seconds)
            for reason, count in background.failures.items():
                errors.add_metric([name, reason], count)
        yield from (age, errors)


def _words(error: Exception) -> str:
    return f"{error}" or type(error).__name__


def _cost(reader: SourceReader[list[Metric]] | InlineReader[list[Metric]], background: Background[Any] | None) -> Cost:
    """Return what a source has cost, in the scrapes and in the background, where the reads are that count."""
    if background is None:
        return reader.cost
    here, there = reader.cost, background.cost
    return Cost(there.reads, here.seconds + there.seconds, here.cpu_seconds + there.cpu_seconds)


# --- Its process ------------------------------------------------------------------------------------------------------


# Descriptors that are listed where the kernel doesn't count them, for half a millisecond at most.
MOST_LISTED = 1024

# Below /proc whatever --path.procfs is: in another host's files this process's id is that of another one.
_SELF = Path("/proc/self")
_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """What every Prometheus client says of its own process: process_cpu_seconds_total and its neighbours.

    The client library's ProcessCollector would do, but that it lists all file descriptors: 9 ms a scrape with the
    16,384 of a perf-exporter that counts in many cgroups.

    https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
    """

    def __init__(self) -> None:
        stat = Path("/proc/stat").read_text()
        self._boot_time = float(stat.partition("\nbtime ")[2].split(maxsplit=1)[0])

    def families(self) -> Iterator[Metric]:
        """Return the process's metrics; raises OSError.

        process_open_fds is missing where there may be many and only a list of them would tell.
        """
        fields = (_SELF / "stat").read_bytes().rpartition(b")")[2].split()  # proc(5), from its third field on
        user, system, started, virtual, resident = (int(fields[index]) for index in (11, 12, 19, 20, 21))
        yield GaugeMetricFamily("process_virtual_memory_bytes", "Virtual memory size in bytes.", virtual)
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory size in bytes.", resident * resource.getpagesize()
        )
        yield GaugeMetricFamily(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            self._boot_time + started / _TICKS,
        )
        yield CounterMetricFamily(
            "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", (user + system) / _TICKS
        )
        count = open_descriptors()
        if count is not None:
            yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", count)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit != resource.RLIM_INFINITY:
            yield GaugeMetricFamily("process_max_fds", "Maximum number of open file descriptors.", limit)


def open_descriptors() -> int | None:
    """Return how many file descriptors this process has open, None where that would take too long."""
    counted = (_SELF / "fd").stat().st_size  # since Linux 6.2, before that 0
    if counted:
        return counted
    # How many there is room for: a power of two, that never gets smaller.
    room = int((_SELF / "status").read_text().partition("\nFDSize:")[2].split(maxsplit=1)[0])
    if room > MOST_LISTED:
        return None
    return len(os.listdir(_SELF / "fd")) - 1  # noqa: PTH208  half of iterdir's cost; without the one that it is read by
