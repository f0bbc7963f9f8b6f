"""The study's numbers, for tests of the arithmetic and of the records, and to be shown beside a run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lab.report.study import Source, source

FILE = Path(__file__).with_name("menon2005.yml")


@dataclass(frozen=True)
class Published:
    """Ratios of one configuration to another; misses and miss rates by cache or TLB, None or absent if not printed."""

    instruction_cost: float
    instructions: float | None = None
    throughput: float | None = None
    misses: Mapping[str, float] = field(default_factory=dict)
    miss_rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkStudy(Source):
    """The study of what virtual networks cost."""

    receiver: Mapping[tuple[str, str], Published]
    """By the configuration, and the one it is compared with."""
    samples: Mapping[str, Mapping[str, int]]
    """Of instructions, by configuration and part of the system."""

    def instructions_ratio(self, of: str, to: str) -> float:
        """Of two configurations, all parts of the system together; raises `KeyError` if one has no samples."""
        return sum(self.samples[of].values()) / sum(self.samples[to].values())


def load(file: Path = FILE) -> NetworkStudy:
    """Read the study's file."""
    content = yaml.safe_load(file.read_text())
    receiver = {_pair(names): Published(**ratios) for names, ratios in content["receiver"].items()}
    return NetworkStudy(**vars(source(content)), receiver=receiver, samples=content["samples"])


def _pair(names: str) -> tuple[str, str]:
    of, _, to = names.partition(" / ")
    return of, to
