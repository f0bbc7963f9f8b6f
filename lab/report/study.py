"""The published numbers that a run is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
class Study:
    """`said` is the study's text for each section of the report."""

    short: str
    citation: str
    setting: str
    mean_response: tuple[Published, ...]
    said: Mapping[str, str]


def load(file: Path = FILE) -> Study:
    """Read the study's file."""
    content = yaml.safe_load(file.read_text())
    source = content["source"]
    return Study(
        short=source["short"],
        citation=f"{source['title']}. {source['where']}.",
        setting=content["setting"],
        mean_response=tuple(Published(**row) for row in content["mean_response_seconds"]),
        said=content["said"],
    )
