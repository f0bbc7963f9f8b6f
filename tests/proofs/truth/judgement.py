"""Compares named neighbours with the injected culprits, and checks the bars. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PRECISION = 0.98
RECALL = 0.95
COVERAGE = 0.03  # allowed difference of the charged wait, as a share of run_delay
CONTROLS = 50
MIN_DELAY = 0.5  # minimum run_delay in seconds for an episode to count for coverage


@dataclass(frozen=True)
class Observed:
    """The outcome of an episode.

    Attributes:
        to_name: the culprits that should be named.
        disturbed: whether any load delayed the victim, named or not.
        named: seconds since the culprits' start, and a name, for each evaluation that named it.
        strangers: named virtual servers that belong to no episode: this machine runs others too.
        charged: seconds of the victim's wait that the exporter has charged to any neighbour.
        delayed: the same by the kernel, run_delay of all threads.
    """

    number: int
    kind: str
    to_name: frozenset[str]
    disturbed: bool
    named: tuple[tuple[float, str], ...]
    strangers: frozenset[str]
    charged: float
    delayed: float

    @property
    def first_named(self) -> dict[str, float]:
        """The time at which each was first named."""
        found: dict[str, float] = {}
        for at, name in self.named:
            found[name] = min(at, found.get(name, at))
        return found

    def right(self, limit: float) -> frozenset[str]:
        """Culprits named within `limit` seconds."""
        return frozenset(name for name, at in self.first_named.items() if name in self.to_name and at <= limit)

    @property
    def false(self) -> frozenset[str]:
        """Names that should never have appeared, not even once."""
        return frozenset(self.first_named) - self.to_name

    @property
    def coverage(self) -> float | None:
        """Charged / delayed; None if it waited too little to tell."""
        return self.charged / self.delayed if self.delayed >= MIN_DELAY else None


@dataclass(frozen=True)
class Judgement:
    """Totals of many episodes; `limit` is the time in seconds within which a culprit should be named."""

    episodes: tuple[Observed, ...]
    limit: float

    @property
    def right(self) -> int:
        """Culprits named in time."""
        return sum(len(each.right(self.limit)) for each in self.episodes)

    @property
    def late(self) -> int:
        """Culprits named too late."""
        named = sum(len(each.to_name & each.first_named.keys()) for each in self.episodes)
        return named - self.right

    @property
    def false(self) -> int:
        """Wrong names."""
        return sum(len(each.false) for each in self.episodes)

    @property
    def to_name(self) -> int:
        """Culprits that should be named."""
        return sum(len(each.to_name) for each in self.episodes)

    @property
    def precision(self) -> float | None:
        """The share of culprits among all names; None if no one was named."""
        named = self.right + self.late + self.false
        return (self.right + self.late) / named if named else None

    @property
    def recall(self) -> float | None:
        """The share of culprits that were named in time; None if there were none."""
        return self.right / self.to_name if self.to_name else None

    @property
    def controls(self) -> tuple[Observed, ...]:
        """The episodes without disturbance."""
        return tuple(each for each in self.episodes if not each.disturbed)

    @property
    def seconds_to_name(self) -> list[float]:
        """The seconds until each named culprit was named, in order."""
        return sorted(at for each in self.episodes for name, at in each.first_named.items() if name in each.to_name)

    @property
    def coverage(self) -> float | None:
        """Coverage of all episodes together; None without waits."""
        measured = [each for each in self.episodes if each.coverage is not None]
        return sum(each.charged for each in measured) / sum(each.delayed for each in measured) if measured else None

    @property
    def coverages(self) -> list[float]:
        """Coverage of single episodes, in order."""
        return sorted(each.coverage for each in self.episodes if each.coverage is not None)

    def by_kind(self) -> dict[str, Judgement]:
        """Totals of each kind."""
        kinds = dict.fromkeys(each.kind for each in self.episodes)
        return {
            kind: Judgement(tuple(each for each in self.episodes if each.kind == kind), self.limit) for kind in kinds
        }


@dataclass(frozen=True)
class Bar:
    """A bar with its measurement; `holds` is None if there is none."""

    what: str
    measured: str
    holds: bool | None


def judge(observed: Sequence[Observed], limit: float) -> Judgement:
    """Episodes that named no virtual server outside this run."""
    return Judgement(tuple(each for each in observed if not each.strangers), limit)


def bars(of: Judgement) -> list[Bar]:
    """All bars."""
    controls = len(of.controls)
    false = sum(bool(each.false) for each in of.controls)
    longest = of.seconds_to_name[-1] if of.seconds_to_name else None
    return [
        Bar(
            f"precision at least {PRECISION:.0%}",
            _share(of.precision, of.right + of.late, of.right + of.late + of.false),
            None if of.precision is None else of.precision >= PRECISION,
        ),
        Bar(
            f"recall at least {RECALL:.0%}",
            _share(of.recall, of.right, of.to_name),
            None if of.recall is None else of.recall >= RECALL,
        ),
        Bar(f"no false name in {CONTROLS} controls", f"{false} of {controls}", false == 0 if controls else None),
        Bar(
            f"named within {of.limit:g} s, two scrapes and the rate's window",
            "nobody"
            if longest is None
            else f"{longest:.1f} s at most, {statistics.median(of.seconds_to_name):.1f} s median",
            None if longest is None else longest <= of.limit,
        ),
        Bar(
            f"charged within {COVERAGE:.0%} of run_delay",
            "no waiting" if of.coverage is None else f"{of.coverage:.2%}",
            None if of.coverage is None else abs(of.coverage - 1) <= COVERAGE,
        ),
    ]


def _share(ratio: float | None, part: int, whole: int) -> str:
    return "nobody" if ratio is None else f"{ratio:.1%}, {part} of {whole}"


def as_document(of: Observed) -> dict[str, Any]:
    """As JSON values."""
    return {**vars(of), "to_name": sorted(of.to_name), "strangers": sorted(of.strangers)}


def from_document(content: Mapping[str, Any]) -> Observed:
    """From JSON values; raises `KeyError`, `TypeError` or `ValueError` if they are something else."""
    sets = {name: frozenset(content[name]) for name in ("to_name", "strangers")}
    named = tuple((float(at), str(name)) for at, name in content["named"])
    return Observed(**{**content, **sets, "named": named})
