"""Metric families: of samples, or of blocks.

    family("openvz_container_processes", "Processes of the container.", [({"ctid": "101"}, 35)])

The beancounters of 1,000 containers are 97,000 series, few of which change between scrapes. Making and comparing all of
them takes longer than the rest of the scrape, so these series are made of blocks that cache their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import add
from typing import Callable, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

from virtscope.toolkit.lines import numbers, start_of_line

Labels = dict[str, str]
T = TypeVar("T")
V = TypeVar("V")

# Makes a Sample twice as fast as its constructor; saves 5 % of a large host's scrape.
_sample = partial(tuple.__new__, Sample)


def family(name: str, documentation: str, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    """Return a family: a counter if its name ends in _total, else a gauge. A value of None has no sample.

    add_metric() would build a label set for each sample, which costs more than the rest of a scrape. Here all series of
    a guest share one.
    """
    made = (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, documentation)
    made.samples = [_sample((name, labels, value, None, None, None)) for labels, value in samples if value is not None]
    return made


def scalar(name: str, documentation: str, value: float | None) -> Metric:
    """Return the family of one value without labels."""
    return family(name, documentation, [({}, value)])


def info(name: str, documentation: str, labels: Iterable[Labels]) -> Metric:
    """Return a family whose facts are in its labels; its name ends in _info."""
    return family(name, documentation, [(each, 1) for each in labels])


def parts(
    wholes: Iterable[tuple[Labels, V]], label: str, parts_of: Callable[[V], Iterable[tuple[str, T]]]
) -> list[tuple[Labels, T]]:
    """Return the parts of all wholes, each with the whole's labels and an additional one."""
    return [({**labels, label: name}, part) for labels, whole in wholes for name, part in parts_of(whole)]


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
