"""A recording as an exporter's source: plays its readings at their original pace, through the code of live sources.

- It begins with the first scrape, or at the time in its header.
- Between two readings the earlier one is served, without interpolation.
- After the last reading the recording repeats, for ever. Gauges repeat. A counter that exists at the start of a pass
  continues from its last value, so each pass adds its increase in the recording. A counter that appears later belongs
  to a newly started guest and starts as recorded. Recorded resets stay.
- Every series has the label `replayed`, the recording's name, so that it isn't taken for a live one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.toolkit.recording import Decode, Reader, Reading, T
from virtscope.toolkit.scrape import Source

log = logging.getLogger(__name__)

LABEL = "replayed"

View = Callable[[T], list[Metric]]


class Playback:
    """Plays a recording for any number of sources, from the first request on."""

    def __init__(
        self,
        path: Path,
        exporter: str,
        speed: float,
        once: bool,
        clock: Callable[[], float] = time.monotonic,
        *,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """Open a recording made by `exporter`, and play it at `speed` times its pace.

        Raises SourceUnavailable if it can't be read, SourceMalformed if it isn't this exporter's.
        """
        self._path = path
        self._speed = speed
        self._once = once
        self._clock = clock
        self._unix_time = unix_time
        self._lock = threading.Lock()  # guards everything below
        self._channels: dict[str, list[_Channel]] = {}  # by the source's name in the recording
        self._began_at: float | None = None  # on the clock
        self._pass = 0
        self._pass_began = 0.0  # length of the earlier passes, in seconds of the recording
        self._origin = 0.0  # time of the first reading
        self._length: float | None = None  # of a pass; known after the first one
        self._failure: SourceError | None = None
        self._shown: dict[str, float] = {}  # by source, when its current reading was recorded
        self._reader, self._readings, self._next = self._open()
        self.header = self._reader.header
        if self.header.exporter != exporter:
            raise SourceMalformed(
                f"{path} is a recording of {self.header.exporter}-exporter, not of {exporter}-exporter"
            )

    @property
    def name(self) -> str:
        """The recording's name: the file's, without .jsonl.gz."""
        return self._path.name.removesuffix(".gz").removesuffix(".jsonl")

    def origin(self) -> str:
        """Return the origin of the values."""
        return f"replay:{self._path}"

    def clock(self, name: str) -> Callable[[], float]:
        """Return a clock for the views of the source `name`: when their reading was recorded, in seconds."""
        return lambda: self._shown[name]

    def source(
        self, name: str, recorded: str, decode: Decode[T], new_view: Callable[[], View[T]], required: bool = True
    ) -> Source:
        """Return a source that plays the recorded source named `recorded`.

        `decode` converts its JSON, and a view turns that into metric families. Each pass has a new view, like a
        restarted exporter.
        """
        channel = _Channel()
        self._channels.setdefault(recorded, []).append(channel)
        continued = Continued(self.name)
        view_of_pass: tuple[int, View[T]] = (-1, new_view())

        def show(turn: _Turn) -> list[Metric]:
            nonlocal view_of_pass
            if turn.reading.failed:
                raise turn.reading.failed.error()
            if view_of_pass[0] != turn.number:
                view_of_pass = (turn.number, new_view())
            try:
                raw = decode(turn.reading.data)
            except SourceMalformed as error:
                raise SourceMalformed(f"the reading at {turn.reading.t:g} s of {self._path}: {error}") from error
            self._shown[name] = turn.reading.t
            return continued.families(turn.number, view_of_pass[1](raw))

        def read() -> list[Metric]:
            with self._lock:
                self._advance()
                *passed, now = channel.due(recorded)
            for turn in passed:  # the ends of passes, where counters continue
                try:
                    show(turn)
                except SourceError:
                    continue  # it would have been served in an earlier scrape
            return show(now)

        return Source(name, read, self.origin, required)

    def _open(self) -> tuple[Reader, Iterator[Reading], Reading | None]:
        reader = Reader(self._path)
        readings = reader.readings()
        first = next(readings, None)
        if first is None:
            raise SourceMalformed(f"{self._path} holds no whole reading")
        self._origin = first.t
        return reader, readings, first

    def _advance(self) -> None:
        """Read the readings up to now."""
        if self._failure:
            raise type(self._failure)(str(self._failure))
        now = self._clock()
        if self._began_at is None:
            self._began_at = now - self._over() / self._speed
        position = (now - self._began_at) * self._speed
        while True:
            if self._next:
                if self._pass_began + self._next.t - self._origin > position:
                    return
                self._take(self._next)
            elif self._length is not None and position >= self._pass_began + self._length:
                if self._once:
                    raise SourceUnavailable(
                        f"{self._path} is over after {self._length:g} s; start the exporter again, or without "
                        "--replay.once to play it round and round"
                    )
                self._reader.close()
                self._reader, self._readings, self._next = self._open()
                passes = int((position - self._pass_began) // self._length)
                self._pass += passes
                self._pass_began += passes * self._length
            else:
                return

    def _over(self) -> float:
        """The position in the recording at the first request, in seconds; 0 unless the header has a start time.

        It is rounded to the middle between two readings. Scrapes jitter by milliseconds: at the boundary of two
        readings, they would get one twice and miss the next, so that counters stall and jump.
        """
        header = self.header
        if header.begins is None:
            return 0
        intervals = max(self._unix_time() - header.begins, 0) * self._speed // header.interval
        return (intervals + 0.5) * header.interval

    def _take(self, reading: Reading) -> None:
        for channel in self._channels.get(reading.source, []):
            channel.take(self._pass, reading)
        try:
            self._next = next(self._readings, None)
        except SourceError as error:
            self._failure = error
            raise
        if self._next is None and self._length is None:
            self._length = reading.t - self._origin + self.header.interval
            if self._reader.cut:
                log.warning(
                    "the recording is cut off; it is played up to its last whole reading",
                    extra={"fields": {"file": self._path, "seconds": reading.t}},
                )


class _Turn(NamedTuple):
    number: int  # of the pass
    first: bool  # of its source in the pass
    reading: Reading


class _Channel:
    """A source's queued readings: of each pass the first and the latest one."""

    def __init__(self) -> None:
        self._due: list[_Turn] = []
        self._latest: _Turn | None = None

    def take(self, number: int, reading: Reading) -> None:
        turn = _Turn(number, self._latest is None or self._latest.number != number, reading)
        if self._due and not self._due[-1].first and not turn.first:
            self._due[-1] = turn
        else:
            self._due.append(turn)
        self._latest = turn

    def due(self, name: str) -> list[_Turn]:
        """Return the readings since the last call, or the latest one again."""
        if self._latest is None:
            raise SourceUnavailable(f"the recording has nothing of {name} up to this moment")
        due, self._due = self._due, []
        return due or [self._latest]


class _Series(NamedTuple):
    """A counter's recorded and exposed values; `base` is the value exposed at `start`."""

    number: int
    recorded: float
    shown: float
    start: float | None  # None: exposed as recorded
    base: float


class Continued:
    """Labels families as replayed, and continues counters from one pass of a recording to the next."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = -1  # of the last exposed pass
        self._series: dict[tuple[str, frozenset[tuple[str, str]]], _Series] = {}

    def families(self, number: int, families: list[Metric]) -> list[Metric]:
        """Return the families of pass `number`; call in the order of time."""
        begins, self._number = number != self._number, number
        shown = []
        marked: dict[int, dict[str, str]] = {}  # many series share labels, so they also share the extended ones
        for family in families:
            counter = family.type == "counter"
            made = Metric(family.name, family.documentation, family.type, family.unit)
            for sample in family.samples:
                labels = marked.get(id(sample.labels))
                if labels is None:
                    labels = marked[id(sample.labels)] = {**sample.labels, LABEL: self._name}
                value = sample.value
                if counter:
                    value = self._goes_on(number, begins, sample.name, sample.labels, value)
                made.samples.append(sample._replace(labels=labels, value=value))
            shown.append(made)
        return shown

    def _goes_on(self, number: int, begins: bool, name: str, labels: dict[str, str], recorded: float) -> float:
        key = (name, frozenset(labels.items()))
        before = self._series.get(key)
        if before is None:
            series = _Series(number, recorded, recorded, None, 0)
        else:
            start, base = before.start, before.base
            if before.number != number:
                start, base = (recorded, before.shown) if begins else (None, 0)
            elif recorded < before.recorded:  # the host's own reset
                start = None
            series = _Series(number, recorded, recorded if start is None else base + (recorded - start), start, base)
        self._series[key] = series
        return series.shown
