"""The study's published numbers, and assumptions for the rest: study.yml, and the lab's file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).parent.parent  # unresolved: the real path may lead through inaccessible folders
FILE = Path(__file__).with_name("study.yml")
RESPONSES = CHECKOUT / "lab" / "report" / "studies" / "consolidation.yml"

_CONTENT: Mapping[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SOURCE: str = _CONTENT["source"]
CHAPTERS: list[dict[str, Any]] = _CONTENT["chapters"]
STEPS: Mapping[str, Any] = _CONTENT["steps"]
PUBLISHED: Mapping[str, Any] = _CONTENT["published"]
CHOSEN: Mapping[str, Any] = _CONTENT["chosen"]
PLATFORMS = ("base", "openvz", "xen")
MIN_CLIENTS, MAX_CLIENTS = 500, 800  # clients


def _responses() -> dict[tuple[str, str, int, int], float]:
    """Fixed points of the mean response in seconds, by platform, placement, instances and clients."""
    rows = {
        "xen": yaml.safe_load(RESPONSES.read_text(encoding="utf-8"))["mean_response_seconds"],
        "openvz": PUBLISHED["openvz_mean_response_seconds"] + CHOSEN["mean_response_seconds"]["openvz"],
        "base": CHOSEN["mean_response_seconds"]["base"],
    }
    return {
        (platform, row["placement"], row["instances"], row["clients"]): row["value"]
        for platform, points in rows.items()
        for row in points
    }


_RESPONSES = _responses()


def mean_response(platform: str, placement: str, instances: int, clients: int) -> float:
    """Seconds; exponential between the fixed points at the fewest and the most clients."""
    few, many = (_RESPONSES[platform, placement, instances, end] for end in (MIN_CLIENTS, MAX_CLIENTS))
    return float(few * math.pow(many / few, (clients - MIN_CLIENTS) / (MAX_CLIENTS - MIN_CLIENTS)))


def between(few: float, many: float, clients: int) -> float:
    """A value that is linear in the clients, like CPU and throughput in the study."""
    return few + (many - few) * (clients - MIN_CLIENTS) / (MAX_CLIENTS - MIN_CLIENTS)
