"""Metric families made from plain values, by every exporter in the same way.

Most are families of samples. Where a host has very many series of which few have changed since the last scrape, they
are made of blocks that are kept with their lines: a host of 1,000 containers has 100,000 series, and to compare, make
and write each of them again takes longer than all the rest of a scrape. Where a source can tell what is the same as at
its last read, it gives the same blocks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Callable, Generic, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from virtscope.toolkit.lines import numbers, start_of_line

Labels = dict[str, str]
T = TypeVar("T")

# A Sample from its six fields, in half the time that its own constructor takes: a twentieth of a large host's scrape.
_sample = partial(tuple.__new__, Sample)


@dataclass(frozen=True)  # a NamedTuple can't be generic before Python 3.11
class Definition(Generic[T]):
    """One metric family: its name, its help text, and how a thing's value is had (None: this thing has none)."""

    name: str  # a counter where it ends in _total, else a gauge
    help: str
    value: Callable[[T], float | None]


def series(definitions: Iterable[Definition[T]], things: Sequence[tuple[Labels, T]]) -> Iterator[Metric]:
    """Make one family of each definition, with a sample of each thing that has a value."""
    for definition in definitions:
        made = _empty(definition.name, definition.help)
        name, value_of = definition.name, definition.value
        made.samples = [
            _sample((name, labels, value, None, None, None))
            for labels, thing in things
            if (value := value_of(thing)) is not None
        ]
        yield made


def family(name: str, documentation: str, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    """Make a counter of a name that ends in _total, else a gauge; a value of None gives no sample.

    Samples are made by hand, not by add_metric(), which builds every sample a label set of its own: that would cost
    more than all the rest of a scrape. Here a guest's label set is made once and shared by its series.
    """
    made = _empty(name, documentation)
    made.samples = [_sample((name, labels, value, None, None, None)) for labels, value in samples if value is not None]
    return made


def _empty(name: str, documentation: str) -> Metric:
    return (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, documentation)


def gauge(name: str, documentation: str, value: float) -> Metric:
    """Make a gauge of one value, without labels."""
    return family(name, documentation, [({}, value)])


def info(name: str, documentation: str, label_sets: Iterable[Labels]) -> Metric:
    """Make an info metric, `name` without its _info, with a sample of 1 for each label set."""
    made = Metric(name, documentation, "info")
    made.samples = [Sample(f"{name}_info", labels, 1) for labels in label_sets]
    return made


# --- Families of blocks -----------------------------------------------------------------------------------------------


class Series:
    """The series of one metric that belong to one thing, such as a container. `name` is the samples' name."""

    def __init__(self, name: str, labels: Sequence[Labels]) -> None:
        self.name = name
        self.labels = labels
        self._starts: list[str] = []

    @property
    def starts(self) -> list[str]:
        """The lines up to their values; made when first asked for."""
        if not self._starts:
            self._starts = [start_of_line(self.name, labels) for labels in self.labels]
        return self._starts


class Block:
    """What some series are at one moment, never changed once made; a value of None gives no sample."""

    __slots__ = ("_lines", "series", "values")

    def __init__(self, series: Series, values: Sequence[float | None]) -> None:
        self.series = series
        self.values = values
        self._lines: str | None = None

    @property
    def lines(self) -> str:
        """The lines of the exposition, the same in every format, each with a line break before it."""
        if self._lines is None:
            starts, values = self.series.starts, [value for value in self.values if value is not None]
            if len(values) < len(starts):
                starts = [start for start, value in zip(starts, self.values) if value is not None]
            self._lines = "".join(map(add, starts, numbers(values)))
        return self._lines


class Blocks(Metric):
    """A metric family made of blocks, all of series named `name`: a counter where that ends in _total, else a gauge.

    Raises ValueError for a name with a colon: those are for recording rules, and OpenMetrics writes them otherwise.
    """

    def __init__(self, name: str, documentation: str, blocks: Iterable[Block]) -> None:
        if ":" in name:
            raise ValueError(f"{name!r} has a colon")
        kind = "counter" if name.endswith("_total") else "gauge"
        super().__init__(name[: -len("_total")] if kind == "counter" else name, documentation, kind)
        self.blocks = list(blocks)

    @property
    def samples(self) -> list[Sample]:
        """The samples one by one, for code that doesn't know of blocks."""
        return [
            Sample(block.series.name, labels, value)
            for block in self.blocks
            for labels, value in zip(block.series.labels, block.values)
            if value is not None
        ]

    @samples.setter
    def samples(self, _empty: list[Sample]) -> None:
        """Let Metric's constructor set its empty list: the blocks are what counts."""
