"""The published numbers that a run is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("padala2007.yml")


@dataclass(frozen=True)
class Published:
    """One number of the study, in seconds; `clients` are those of one instance."""

    placement: str
    instances: int
    clients: int
    value: float


@dataclass(frozen=True)
class Source:
    """A study; `said` is its text for each section of the report."""

    short: str
    citation: str
    setting: str
    said: Mapping[str, str]


@dataclass(frozen=True)
class Study(Source):
    """The consolidation study."""

    mean_response: tuple[Published, ...]


def load(file: Path = FILE) -> Study:
    """Read the study's file."""
    content = yaml.safe_load(file.read_text())
    mean_response = tuple(Published(**row) for row in content["mean_response_seconds"])
    return Study(**vars(source(content)), mean_response=mean_response)


def source(content: Mapping[str, Any]) -> Source:
    """What every study's file has."""
    of = content["source"]
    return Source(of["short"], f"{of['title']}. {of['where']}.", content["setting"], content["said"])
