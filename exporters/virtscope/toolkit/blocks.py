"""A family of many series of which few have changed since the last scrape, in blocks that are kept with their lines.

A host of 1,000 containers has 100,000 series. To compare, make and write each of them anew takes longer than all the
rest of a scrape. Where a source can tell what is the same as at its last read, it gives the very same blocks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add

from prometheus_client import Metric
from prometheus_client.samples import Sample

from virtscope.toolkit.families import Labels
from virtscope.toolkit.lines import numbers, start_of_line


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
        """The samples one by one, for whoever doesn't know of blocks."""
        return [
            Sample(block.series.name, labels, value)
            for block in self.blocks
            for labels, value in zip(block.series.labels, block.values)
            if value is not None
        ]

    @samples.setter
    def samples(self, _empty: list[Sample]) -> None:
        """Let Metric's constructor set its empty list: the blocks are what counts."""
