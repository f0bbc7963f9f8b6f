"""Scenarios of dynamic allocation: which caps are switched how often.

    study: allocation
    about: Two containers, a little and much, seldom and often.
    magnitudes: [[0.4, 0.6], [0.2, 0.8]]
    intervals: [6s, 30s]

A magnitude is the smaller and the larger cap; as all caps add up to one CPU, it says how many containers there are.
For each number of containers, interval and repetition there is a block of steps: a static one with equal caps, a
control that writes equal caps again, and one for each magnitude.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alerts.generator.document import FileError, Value
from alerts.generator.document import parse as document_of
from lab.cgroups import SMALLEST_CAP
from lab.keys import ScenarioError, nearest, one_or_more, seconds, whole

STUDY = "allocation"
CONTAINERS = (2, 4)
PINNING = ("unpinned", "pinned")
STATIC, CONTROL, DYNAMIC = "static", "control", "dynamic"


@dataclass(frozen=True)
class Step:
    """One pair of caps, switched or not; `low` and `high` are in CPUs, `interval` is in seconds."""

    containers: int
    pinning: str
    interval: int
    mode: str
    low: float
    high: float
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "2x0.2-0.8-6s-1", "pinned-4xstatic-30s-2"."""
        pinned = "pinned-" if self.pinning == "pinned" else ""
        what = f"{self.low:g}-{self.high:g}" if self.mode == DYNAMIC else self.mode
        return f"{pinned}{self.containers}x{what}-{self.interval}s-{self.repetition}"

    def cap(self, container: int, switches: int) -> float:
        """The cap of a container, from 0, after this number of switches: neighbours in antiphase."""
        return self.low if (container + switches) % 2 == 0 else self.high


@dataclass(frozen=True)
class Allocation:
    """A valid scenario; times in seconds."""

    name: str
    digest: str  # of the file: a run is only resumed with the scenario that it began with
    about: str
    magnitudes: tuple[tuple[float, float], ...]
    intervals: tuple[int, ...]
    duration: int = 360
    warm_up: float = 5.0
    repetitions: int = 5
    pinning: tuple[str, ...] = ("unpinned",)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they run. Repetitions are the outermost loop, so that drift shows."""
        groups = itertools.product(range(1, self.repetitions + 1), self.pinning, CONTAINERS, self.intervals)
        return tuple(step for group in groups for step in self._block(*group))

    def _block(self, repetition: int, pinning: str, containers: int, interval: int) -> Iterator[Step]:
        """A static step, a control and each magnitude; rotated by repetition, so that none is always the first."""
        pairs = [pair for pair in self.magnitudes if containers_of(pair) == containers]
        if not pairs:
            return
        equal = 1 / containers
        kinds = [(STATIC, equal, equal), (CONTROL, equal, equal), *((DYNAMIC, *pair) for pair in pairs)]
        first = (repetition - 1) % len(kinds)
        for kind in kinds[first:] + kinds[:first]:
            yield Step(containers, pinning, interval, *kind, repetition)


def containers_of(magnitude: tuple[float, float]) -> int | None:
    """How many containers add up to one CPU with these caps, each pair in antiphase; None if neither 2 nor 4 do."""
    return next((number for number in CONTAINERS if abs(sum(magnitude) * number / 2 - 1) < 1e-6), None)


def parse(text: str, file_name: str) -> Allocation:
    """The scenario in a text; raises `ScenarioError`."""
    try:
        document = document_of(text, file_name)
        if document is None:
            raise FileError(f"{file_name}:1: is empty; see docs/lab.md for what belongs there")
        fields = document.fields(_REQUIRED, optional=[key for key in _KEYS if key not in _REQUIRED])
        values = {key: _KEYS[key](value) for key, value in fields.items()}
        least = 2 * max(values["intervals"])
        if (duration := values.get("duration", Allocation.duration)) < least:
            fields.get("duration", fields["intervals"]).refuse(
                f"{duration} s are too short for switches every {max(values['intervals'])} s: give at least {least}s"
            )
    except FileError as error:
        raise ScenarioError(str(error)) from None
    del values["study"]
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Allocation(name=file_name.rpartition(".")[0], digest=digest, **values)


def _magnitudes(value: Value) -> tuple[tuple[float, float], ...]:
    found: list[tuple[float, float]] = []
    for each in value.items():
        if (pair := _magnitude(each)) in found:
            each.refuse("is there twice; to run it again, use repetitions")
        found.append(pair)
    return tuple(found) or value.refuse("the list is empty")


def _magnitude(value: Value) -> tuple[float, float]:
    caps = [cap.number() for cap in value.items()]
    if len(caps) != 2:
        value.refuse("must be the smaller and the larger cap, such as [0.2, 0.8]")
    low, high = caps
    if low >= high:
        value.refuse(
            "the first cap must be the smaller one; equal caps always run, as the static baseline and the control"
        )
    if low < SMALLEST_CAP:
        value.refuse(f"{low:g} is less than the smallest cap, {SMALLEST_CAP:g} CPUs")
    if containers_of((low, high)) is None:
        value.refuse(f"caps of two containers add up to 1, those of four to 0.5 in each pair, not to {low + high:g}")
    return low, high


def _whole_seconds(least: int, most: int) -> Callable[[Value], int]:
    read = seconds(least, most)

    def read_whole(value: Value) -> int:
        if (number := read(value)) != int(number):
            value.refuse("must be whole seconds: samples are taken each second")
        return int(number)

    return read_whole


def _pinning(value: Value) -> str:
    if (text := value.text()) not in PINNING:
        value.refuse(f"{text!r} is neither of {', '.join(PINNING)}{nearest(text, PINNING)}")
    return text


_KEYS: Mapping[str, Callable[[Value], Any]] = {
    "study": lambda value: value.text(),
    "about": lambda value: value.text().strip(),
    "magnitudes": _magnitudes,
    # From 3 s on there is a second between two switches in which the first has taken effect.
    "intervals": one_or_more(_whole_seconds(3, 3_600)),
    "duration": _whole_seconds(6, 86_400),
    "warm_up": seconds(0, 3_600),
    "repetitions": whole(1, 100),
    "pinning": one_or_more(_pinning),
}
_REQUIRED = {  # with an example for each
    "study": STUDY,
    "about": "Two containers.",
    "magnitudes": "[[0.2, 0.8]]",
    "intervals": "[6s, 30s]",
}
