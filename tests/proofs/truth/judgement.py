"""Compares named neighbours with the injected culprits, and checks the bars. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Resource = Literal["cpu", "disk", "memory", "interrupts"]

PRECISION = 0.98
RECALL = 0.95
CONTROLS = 50
# Allowed difference of the charged wait, as a share of the wait as the kernel (run_delay) or the victim counts it.
COVERAGE: Mapping[Resource, float] = {"cpu": 0.03, "disk": 0.05}
COUNTED_AS: Mapping[Resource, str] = {"cpu": "run_delay", "disk": "the victims' time in read()"}
LEDGER = "virtscope"
EXPLAINED = 0.8
MIN_ADDED = 0.2
MIN_DELAY = 0.5  # minimum wait in seconds for an episode to count for coverage


class Culprit(NamedTuple):
    """A named neighbour, and where the victim waits for it."""

    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.resource})"


class Waited(NamedTuple):
    """Seconds that a victim waited for a resource: as charged by the exporter, and as counted by others."""

    charged: float
    counted: float


class Rounds(NamedTuple):
    """What a victim did in some time, which rounds of work and a request are to it what responses are to a server."""

    number: int
    seconds: float  # of all of them
    delayed: float  # seconds of it charged to others

    def since(self, earlier: Rounds) -> Rounds:
        return Rounds(self.number - earlier.number, self.seconds - earlier.seconds, self.delayed - earlier.delayed)

    def per_round(self) -> tuple[float, float]:
        """The seconds of one."""
        return self.seconds / self.number, self.delayed / self.number


@dataclass(frozen=True)
class Observed:
    """The outcome of an episode.

    Attributes:
        to_name: the culprits that should be named.
        disturbed: whether any load delayed the victim, named or not.
        named: seconds since the culprits' start, and who, for each evaluation that named it.
        strangers: named virtual servers that belong to no episode: this machine runs others too.
        waited: how long the victim waited for each resource that it uses.
        seconds: between the two readings of that.
        rounds: of the victim, before the culprits' start and after it; none of a KVM guest.
        estimates: by resource and estimator (trace.py), seconds of waiting for each neighbour; `LEDGER` is this
            project's. Empty unless estimators are compared.
    """

    number: int
    kind: str
    to_name: frozenset[Culprit]
    disturbed: bool
    named: tuple[tuple[float, Culprit], ...]
    strangers: frozenset[str]
    waited: Mapping[Resource, Waited]
    seconds: float
    rounds: tuple[Rounds, ...]
    estimates: Mapping[Resource, Mapping[str, Mapping[str, float]]]

    @property
    def first_named(self) -> dict[Culprit, float]:
        """The time at which each was first named."""
        found: dict[Culprit, float] = {}
        for at, who in self.named:
            found[who] = min(at, found.get(who, at))
        return found

    def right(self, limit: float) -> frozenset[Culprit]:
        """Culprits named within `limit` seconds."""
        return frozenset(who for who, at in self.first_named.items() if who in self.to_name and at <= limit)

    @property
    def false(self) -> frozenset[Culprit]:
        """Names that should never have appeared, not even once."""
        return frozenset(self.first_named) - self.to_name

    def coverage(self, resource: Resource) -> float | None:
        """Charged / counted; None if it waited too little to tell."""
        waited = self.waited.get(resource)
        return waited.charged / waited.counted if waited and waited.counted >= MIN_DELAY else None

    @property
    def added(self) -> tuple[float, float] | None:
        """Seconds that the culprits added to all rounds, and those of them that were charged to others.

        None without culprits, and where they added less than `MIN_ADDED` of a round.
        """
        if not self.disturbed or len(self.rounds) != 2 or not all(each.number for each in self.rounds):
            return None
        before, after = self.rounds
        (usual, usually_delayed), (took, delayed) = before.per_round(), after.per_round()
        if took - usual < MIN_ADDED * usual:
            return None
        return after.number * (took - usual), after.number * (delayed - usually_delayed)


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
        return sorted(at for each in self.episodes for who, at in each.first_named.items() if who in each.to_name)

    def coverage(self, resource: Resource) -> float | None:
        """Coverage of all episodes together; None without waits."""
        measured = [each.waited[resource] for each in self.episodes if each.coverage(resource) is not None]
        return sum(each.charged for each in measured) / sum(each.counted for each in measured) if measured else None

    def coverages(self, resource: Resource) -> list[float]:
        """Coverage of single episodes, in order."""
        found = (each.coverage(resource) for each in self.episodes)
        return sorted(each for each in found if each is not None)

    @property
    def explained(self) -> float | None:
        """The share of the time added by culprits that was charged to others; None if none was added."""
        added = [each.added for each in self.episodes if each.added]
        return sum(charged for _, charged in added) / sum(seconds for seconds, _ in added) if added else None

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
        *(_coverage(of, resource) for resource in COVERAGE),
        Bar(
            f"at least {EXPLAINED:.0%} of the time that culprits added to the victims' rounds charged to others",
            "none added" if of.explained is None else f"{of.explained:.1%}",
            None if of.explained is None else of.explained >= EXPLAINED,
        ),
    ]


def _coverage(of: Judgement, resource: Resource) -> Bar:
    found = of.coverage(resource)
    return Bar(
        f"{resource}: charged within {COVERAGE[resource]:.0%} of {COUNTED_AS[resource]}",
        "no waiting" if found is None else f"{found:.2%}",
        None if found is None else abs(found - 1) <= COVERAGE[resource],
    )


def _share(ratio: float | None, part: int, whole: int) -> str:
    return "nobody" if ratio is None else f"{ratio:.1%}, {part} of {whole}"


def as_document(of: Observed) -> dict[str, Any]:
    """As JSON values."""
    return {**vars(of), "to_name": sorted(of.to_name), "strangers": sorted(of.strangers)}


def from_document(content: Mapping[str, Any]) -> Observed:
    """From JSON values; raises `KeyError`, `TypeError` or `ValueError` if they are something else."""
    found = {
        "to_name": frozenset(Culprit(*each) for each in content["to_name"]),
        "strangers": frozenset(content["strangers"]),
        "named": tuple((float(at), Culprit(*who)) for at, who in content["named"]),
        "rounds": tuple(Rounds(*each) for each in content["rounds"]),
        "waited": {resource: Waited(*waited) for resource, waited in content["waited"].items()},
    }
    return Observed(**{**content, **found})
