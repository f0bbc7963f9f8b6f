"""The study's numbers that a run of dynamic allocation is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lab.allocation.scenario import COMPUTATIONAL
from lab.report.statistics import line
from lab.report.study import Source, source

FILE = Path(__file__).with_name("wang2007.yml")


@dataclass(frozen=True)
class Published:
    """Of one configuration on Xen; in CPUs, and shares of the static baseline."""

    containers: int
    pinning: str
    performance_overhead: float
    load: str = COMPUTATIONAL
    capacity_overhead: float | None = None
    host_static: float | None = None
    host_dynamic: Mapping[int, float] = field(default_factory=dict)
    """By interval."""
    host_spike: float | None = None
    call_share: float | None = None
    """Of the CPU of a switch; the rest is the reallocation."""
    delay_seconds: tuple[float, ...] = ()
    """The least and the most until a new allocation takes effect."""

    @property
    def cpu_of_a_switch(self) -> float | None:
        """The slope of the host's CPU over the frequency of switches, in CPU seconds; the study doesn't print it.

        By least squares through the points that it prints; through both if there are only two.
        """
        if self.host_static is None or not self.host_dynamic:
            return None
        points = [(0.0, self.host_static), *((1 / interval, cpu) for interval, cpu in self.host_dynamic.items())]
        if found := line(points):
            return found.slope.mean
        (x, y), (x_other, y_other) = points
        return (y_other - y) / (x_other - x)


@dataclass(frozen=True)
class AllocationStudy(Source):
    """The study of dynamic allocation."""

    xen: tuple[Published, ...]

    def of(self, containers: int, pinning: str, load: str = COMPUTATIONAL) -> Published | None:
        """Its numbers for this configuration."""
        wanted = (containers, pinning, load)
        return next((one for one in self.xen if (one.containers, one.pinning, one.load) == wanted), None)


def load(file: Path = FILE) -> AllocationStudy:
    """Read the study's file."""
    content = yaml.safe_load(file.read_text())
    return AllocationStudy(**vars(source(content)), xen=tuple(Published(**row) for row in content["xen"]))
