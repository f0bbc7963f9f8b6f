"""The study's numbers that a run of influence factors is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.report.factors.quantities import relative_delta
from lab.report.study import Source, source

FILE = Path(__file__).with_name("huber2010.yml")


@dataclass(frozen=True)
class Virtualised:
    """A benchmark on the machine itself and in a guest; `printed` is the delta as the study prints it."""

    workload: str
    benchmark: str
    native: float | None = None
    virtualised: float | None = None
    printed: float | None = None

    @property
    def delta(self) -> float:
        """As printed, else from the points."""
        if self.printed is not None:
            return self.printed
        assert self.native is not None  # a row of the file has one or the other
        assert self.virtualised is not None
        return relative_delta(self.native, self.virtualised)


@dataclass(frozen=True)
class Placed:
    """Something of guests that run on any core, and of guests pinned to one each."""

    free: float
    pinned: float


@dataclass(frozen=True)
class Affinity:
    """A benchmark in one guest and in as many as there are cores: points of each guest, and shares."""

    workload: str
    one: Placed
    many: Placed
    loss: Placed
    gain: float
    spare_core_gain: float


@dataclass(frozen=True)
class FactorsStudy(Source):
    """The study of influence factors."""

    virtualisation: tuple[Virtualised, ...]
    rule_of_thumb: Mapping[str, float]
    """The relative delta to plan with, by workload."""
    affinity: tuple[Affinity, ...]
    deviation: float
    """From 1/x, at most, at the study's overcommitments."""

    def delta_of(self, test: str) -> float | None:
        """What a guest lost in the first benchmark of this kind; None if the study has none."""
        return next((one.delta for one in self.virtualisation if one.workload == test), None)

    def affinity_of(self, test: str) -> Affinity | None:
        """What pinning gained in this kind of benchmark."""
        return next((one for one in self.affinity if one.workload == test), None)


def load(file: Path = FILE) -> FactorsStudy:
    """Read the study's file."""
    content = yaml.safe_load(file.read_text())
    return FactorsStudy(
        **vars(source(content)),
        virtualisation=tuple(
            Virtualised(**{"printed" if key == "delta" else key: value for key, value in row.items()})
            for row in content["virtualisation"]
        ),
        rule_of_thumb=content["rule_of_thumb"],
        affinity=tuple(
            Affinity(**row | {key: Placed(**row[key]) for key in ("one", "many", "loss")})
            for row in content["affinity"]
        ),
        deviation=content["overcommit"]["deviation"],
    )
