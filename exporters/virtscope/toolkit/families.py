"""Metric families: one by one, by tables of `Definition`s and `Info`s over values of one kind, or of blocks.

    family("openvz_container_processes", "Processes of the container.", [({"ctid": "101"}, 35)])

The beancounters of 1,000 containers are 97,000 series, few of which change between scrapes. Making and comparing all of
them takes longer than the rest of the scrape, so these series are made of blocks that cache their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, Callable, Generic, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from virtscope.toolkit.lines import numbers, start_of_line

Labels = dict[str, str]
T = TypeVar("T")
V = TypeVar("V")

# Makes a Sample twice as fast as its constructor; saves 5 % of a large host's scrape.
_sample = partial(tuple.__new__, Sample)


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True)  # a NamedTuple can't be generic before Python 3.11
class Definition(Generic[T]):
    """A metric: a counter if its name ends in _total, else a gauge. A thing whose `value` is None has no sample."""

    name: str
    help: str
    value: Callable[[T], float | None] = _itself

    def family(self, things: Iterable[tuple[Labels, T]]) -> Metric:
        """Return the family, with a sample of each thing that has a value.

        add_metric() would build a label set for each sample, which costs more than the rest of a scrape. Here all
        series of a guest share one.
        """
        name, value_of = self.name, self.value
        made = (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, self.help)
        made.samples = [
            _sample((name, labels, value, None, None, None))
            for labels, thing in things
            if (value := value_of(thing)) is not None
        ]
        return made


@dataclass(frozen=True)
class Info(Generic[T]):
    """An info metric: its name without _info. A thing whose `labels` are None has no sample."""

    name: str
    help: str
    labels: Callable[[T], Labels | None] = _itself

    def family(self, things: Iterable[tuple[Labels, T]]) -> Metric:
        """Return the family, with a sample of 1 for each thing that has labels."""
        made = Metric(self.name, self.help, "info")
        found = ((labels, self.labels(thing)) for labels, thing in things)
        made.samples = [
            Sample(f"{self.name}_info", {**labels, **more}, 1) for labels, more in found if more is not None
        ]
        return made


Table = Callable[[V], Iterator[Metric]]


def table(values: Callable[[V], Sequence[tuple[Labels, T]]], *metrics: Definition[T] | Info[T]) -> Table[V]:
    """Return a function that makes these metrics' families."""

    def families(of: V) -> Iterator[Metric]:
        labelled = values(of)
        return (metric.family(labelled) for metric in metrics)

    return families


def parts(
    wholes: Iterable[tuple[Labels, V]], label: str, parts_of: Callable[[V], Iterable[tuple[str, T]]]
) -> list[tuple[Labels, T]]:
    """Return the parts of all wholes, each with the whole's labels and an additional one."""
    return [({**labels, label: name}, part) for labels, whole in wholes for name, part in parts_of(whole)]


def page(tables: Iterable[Table[V]], of: V) -> list[Metric]:
    """Return the families of all tables, in this order."""
    return [family for families in tables for family in families(of)]


def family(name: str, documentation: str, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    """Return one family of plain values; None gives no sample."""
    return Definition[Any](name, documentation).family(samples)


def scalar(name: str, documentation: str, value: float | None) -> Metric:
    """Return the family of one value without labels."""
    return family(name, documentation, [({}, value)])


def info(name: str, documentation: str, labels: Labels | None) -> Metric:
    """Return an info metric of one thing; `name` is without _info."""
    return Info[Any](name, documentation).family([({}, labels)])


# --- Families of blocks -----------------------------------------------------------------------------------------------


class Block:
    """The samples of one metric and one thing, such as a container, never changed once made; None gives no sample."""

    __slots__ = ("_lines", "_starts", "labels", "name", "values")

    def __init__(
        self, name: str, labels: Sequence[Labels], values: Sequence[float | None], starts: list[str] | None = None
    ) -> None:
        self.name = name
        self.labels = labels
        self.values = values
        self._starts = [] if starts is None else starts  # of the lines, up to their values; made on first use
        self._lines: str | None = None

    def again(self, values: Sequence[int | None]) -> Block:
        """Return the block with these values: the same one if they are equal. (Equal floats, 0 and -0, may differ.)"""
        return self if values == self.values else Block(self.name, self.labels, values, self._starts)

    @property
    def lines(self) -> str:
        """The lines of the exposition, each with a line break before it."""
        if self._lines is None:
            if not self._starts:
                self._starts[:] = [start_of_line(self.name, labels) for labels in self.labels]
            starts, values = self._starts, [value for value in self.values if value is not None]
            if len(values) < len(starts):
                starts = [start for start, value in zip(starts, self.values) if value is not None]
            self._lines = "".join(map(add, starts, numbers(values)))
        return self._lines


class Blocks(Metric):
    """A metric family made of blocks, all named `name`: a counter where that ends in _total, else a gauge."""

    def __init__(self, name: str, documentation: str, blocks: Iterable[Block]) -> None:
        kind = "counter" if name.endswith("_total") else "gauge"
        super().__init__(name[: -len("_total")] if kind == "counter" else name, documentation, kind)
        self.blocks = list(blocks)

    @property
    def samples(self) -> list[Sample]:
        """The single samples, for code that doesn't know blocks."""
        return [
            Sample(block.name, labels, value)
            for block in self.blocks
            for labels, value in zip(block.labels, block.values)
            if value is not None
        ]

    @samples.setter
    def samples(self, _empty: list[Sample]) -> None:
        """Ignore the empty list set by Metric's constructor; samples come from the blocks."""
