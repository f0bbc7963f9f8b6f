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
from virtscope.toolkit.families import Info, Labels, family

log = logging.getLogger(__name__)

MAX_HELD_BACK_SECONDS = 1.0  # a round, by the one before
# By which one of two scrapes may arrive later than it began. A store that has the samples of both Prometheus of a pair
# orders them by when their scrapes began: if the first arrived last and read a counter later, that counter would go
# backwards between the two, which rate() takes for a reset. So both get the same values.
MOMENT_SECONDS = 0.25
REASONS = ("timeout", "unavailable", "error", "malformed")


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


class _Watched:
    """A source, its reader, and how the last read went."""

    def __init__(self, source: Source, reader: SourceReader[list[Metric]] | InlineReader[list[Metric]]) -> None:
        self.source = source
        self.reader = reader
        self.state = ""  # "up", "absent" or why the last read failed
        self.absence = ""  # why it is absent
        self.origin: str | None = ""  # as of the last successful read; None if it raised
        self.errors = dict.fromkeys(REASONS, 0)

    def cost(self) -> Cost:
        """Return its cost in scrapes and in the background, where the reads are that count."""
        if self.source.background is None:
            return self.reader.cost
        here, there = self.reader.cost, self.source.background.cost
        return Cost(there.reads, here.seconds + there.seconds, here.cpu_seconds + there.cpu_seconds)


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
    """Answers scrapes from its sources and adds its own state and cost: see docs/metrics.md."""

    def __init__(self, name: str, sources: Iterable[Source], target: str = "") -> None:
        """`target` is the host that the sources are of, where that isn't this one.

        Its log lines name it; its sources are read in the scrape's thread, as they have been fetched before; and the
        process's metrics, which are no host's, are left out.
        """
        self.name = name
        self.certificate_not_after: Callable[[], float | None] = lambda: None
        self._about = {"target": target} if target else {}  # in each line of the log
        reader = InlineReader if target else SourceReader
        self._watched = [_Watched(source, reader(source.name, source.read)) for source in sources]
        self._process = None if target else Process()
        self._encoder = Encoder(on_refused=self._note_refused)
        self._gzip = Gzip()
        # One at a time: the encoder keeps lines from one scrape to the next, and the counters below belong together.
        self._lock = threading.Lock()
        self._rounds = threading.Condition()  # over the next two
        self._newest: _Round | None = None  # until its moment is over
        self._under_way = 0  # scrapes whose sources are being read, or whose pages are being written
        self._encode_seconds = 0.0
        self._refused: set[str] = set()  # families that could not be written, each logged once
        self._refusals = 0

    def scrape(self, form: Format, seconds: float, *, gzipped: bool = False, shared: bool = False) -> bytes:
        """Return the exposition in `form`, waiting for the sources no longer than `seconds`.

        One that is `shared` has the values that another got at this moment.
        """
        deadline = time.monotonic() + seconds
        with self._in_a_round(seconds, shared=shared) as round_:
            return self._page(round_, form, deadline, gzipped=gzipped)

    def _ask(self) -> list[Read[Any]]:
        """Have the sources read."""
        return [each.reader.ask() for each in self._watched]

    def _outcomes(self, reads: list[Read[Any]], deadline: float) -> list[Outcome[list[Metric]]]:
        """Return what each source gave by `deadline`."""
        return [each.reader.answer(read, deadline) for each, read in zip(self._watched, reads)]

    def _page(self, round_: _Round, form: Format, deadline: float, *, gzipped: bool) -> bytes:
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

    def _log(self, level: int, event: str, fields: dict[str, object], error: Exception | None = None) -> None:
        unforeseen = error and not isinstance(error, SourceError)  # a fault of ours: say where
        said = {"err": f"{error}" or type(error).__name__} if error else {}
        about = {**self._about, **fields, **said}
        log.log(level, event, extra={"fields": about}, exc_info=error if unforeseen else None)

    def _note_failure(self, watched: _Watched, error: Exception, together: Sequence[str]) -> None:
        """Count a failure, and log it if it is new; sources that failed `together`, by the same error, in one line."""
        reason = reason_of(error)
        watched.errors[reason] += 1
        if watched.state != reason and watched.source.name == together[0]:
            self._log(logging.WARNING, "source failed", {"source": ",".join(together), "reason": reason}, error)
        watched.state = reason

    def _note_absence(self, watched: _Watched, error: SourceUnavailable) -> None:
        if (watched.state, watched.absence) != ("absent", str(error)):
            self._log(logging.INFO, "source absent", {"source": watched.source.name, "why": error})
        watched.state, watched.absence = "absent", str(error)

    def _note_success(self, watched: _Watched) -> None:
        source = watched.source
        origin = None
        try:
            origin = source.origin()
        except Exception as error:  # the values are good all the same
            watched.errors[reason_of(error)] += 1
            if watched.origin is not None:  # not logged already
                self._log(logging.WARNING, "origin of a source's values unknown", {"source": source.name}, error)
        if watched.state != "up":
            detail = {} if origin is None else {"detail": origin}
            self._log(logging.INFO, "source answers", {"source": source.name, **detail})
        watched.state, watched.origin = "up", origin

    def _note_refused(self, error: FamilyError) -> None:
        self._refusals += 1
        if error.family not in self._refused:
            self._refused.add(error.family)
            fields = {**self._about, "family": error.family, "err": error}
            log.error("metric family left out", extra={"fields": fields})

    def _about_itself(self) -> Iterator[Metric]:
        name, watched = self.name, self._watched
        yield family(
            f"{name}_up",
            "1 if every source was read for this scrape, else 0.",
            [({}, float(all(each.state in {"up", "absent"} for each in watched)))],
        )

        def of_each(metric: str, documentation: str, value: Callable[[_Watched], float | None]) -> Metric:
            samples = [({"source": each.source.name}, value(each)) for each in watched]
            return family(f"{name}_source_{metric}", documentation, samples)

        yield of_each(
            "up",
            "1 if this source was read for this scrape, else 0.",
            lambda each: None if each.state == "absent" else float(each.state == "up"),
        )
        details = [
            (each.source.name, f"absent: {each.absence}" if each.state == "absent" else each.origin)
            for each in watched
            if each.state in {"up", "absent"}
        ]
        yield Info[Labels](f"{name}_source", "Origin of this scrape's values, or why a source is absent.").family(
            ({"source": source}, {"detail": detail}) for source, detail in details if detail is not None
        )
        yield family(
            f"{name}_source_errors_total",
            "Scrapes in which the source failed, by reason: timeout, unavailable (it doesn't exist), error, "
            "malformed (it can't be parsed).",
            [
                ({"source": each.source.name, "reason": reason}, count)
                for each in watched
                for reason, count in each.errors.items()
            ],
        )
        yield of_each("reads_total", "Finished reads of this source.", lambda each: each.cost().reads)
        yield of_each(
            "seconds_total",
            "Duration of finished reads of this source, in seconds.",
            lambda each: each.cost().seconds,
        )
        yield of_each(
            "cpu_seconds_total",
            "CPU time of finished reads of this source, in seconds.",
            lambda each: each.cost().cpu_seconds,
        )
        backgrounds = [(each.source.name, each.source.background) for each in watched if each.source.background]
        if backgrounds:
            yield family(
                f"{name}_source_age_seconds",
                "Age of the values of this background source, in seconds.",
                [({"source": source}, background.age()) for source, background in backgrounds],
            )
            yield family(
                f"{name}_source_background_errors_total",
                "Failed background reads, by reason; scrapes get the previous values until they are too old.",
                [
                    ({"source": source, "reason": reason}, count)
                    for source, background in backgrounds
                    for reason, count in background.failures.items()
                ],
            )
        yield family(
            f"{name}_encode_seconds_total",
            "CPU time of encoding expositions, in seconds.",
            [({}, self._encode_seconds)],
        )
        yield family(
            f"{name}_encode_errors_total",
            "Metric families dropped because they could not be encoded.",
            [({}, self._refusals)],
        )
        not_after = self.certificate_not_after()
        if not_after is not None:
            yield family(
                f"{name}_tls_certificate_not_after_seconds",
                "Unix time at which the first certificate of the served chain expires.",
                [({}, not_after)],
            )
        versions = {"version": __version__, "python": platform.python_version()}
        yield Info[Labels](f"{name}_build", "Versions of the exporter and of Python.").family([({}, versions)])
        if self._process is None:
            return
        try:
            yield from self._process.families()
        except OSError as error:  # no file descriptors left
            self._note_refused(FamilyError("process_*", error))


# --- Its process ------------------------------------------------------------------------------------------------------


# Descriptors that are listed where the kernel doesn't count them, for half a millisecond at most.
MAX_LISTED = 1024

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
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        started_at, resident_bytes = self._boot_time + started / _TICKS, resident * resource.getpagesize()
        for name, documentation, value in (
            ("virtual_memory_bytes", "Virtual memory size in bytes.", virtual),
            ("resident_memory_bytes", "Resident memory size in bytes.", resident_bytes),
            ("start_time_seconds", "Start time of the process since unix epoch in seconds.", started_at),
            ("cpu_seconds_total", "Total user and system CPU time spent in seconds.", (user + system) / _TICKS),
            ("open_fds", "Number of open file descriptors.", open_descriptors()),
            ("max_fds", "Maximum number of open file descriptors.", None if limit == resource.RLIM_INFINITY else limit),
        ):
            if value is not None:
                yield family(f"process_{name}", documentation, [({}, value)])


def open_descriptors() -> int | None:
    """Return how many file descriptors this process has open, None where that would take too long."""
    counted = (_SELF / "fd").stat().st_size  # since Linux 6.2, before that 0
    if counted:
        return counted
    # How many there is room for: a power of two, that never gets smaller.
    room = int((_SELF / "status").read_text().partition("\nFDSize:")[2].split(maxsplit=1)[0])
    if room > MAX_LISTED:
        return None
    return len(os.listdir(_SELF / "fd")) - 1  # noqa: PTH208  half of iterdir's cost; without the one that it is read by
