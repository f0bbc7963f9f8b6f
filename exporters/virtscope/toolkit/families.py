"""Metric families made from plain values, by every exporter in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable, Generic, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample

Labels = dict[str, str]
T = TypeVar("T")

# A Sample from its six fields, in half the time that its own constructor takes: a twentieth of a large host's scrape.
_sample = partial(tuple.__new__, Sample)


@dataclass(frozen=True)  # a NamedTuple can't be generic before Python 3.11
class Figure(Generic[T]):
    """One metric family: its name, its help text, and how a thing's value is had (None: this thing has none)."""

    name: str  # a counter where it ends in _total, else a gauge
    help: str
    value: Callable[[T], float | None]


def series(figures: Iterable[Figure[T]], things: Sequence[tuple[Labels, T]]) -> Iterator[Metric]:
    """Make one family of each figure, with a sample of each thing that has a value."""
    for figure in figures:
        made = _empty(figure.name, figure.help)
        name, value_of = figure.name, figure.value
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
