"""Durations as Prometheus writes them: 90s, 1m30s, 500ms, 1w."""

from __future__ import annotations

import re

_SECONDS = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
# Whole numbers; each unit at most once, the largest first.
_DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _SECONDS), re.ASCII)


def parse(text: str) -> float:
    """Return the seconds of a duration; raises ValueError for anything else."""
    found = _DURATION.fullmatch(text)
    if not found or not text:
        raise ValueError(f"{text!r} is not a duration such as 15s or 1m30s")
    return sum(int(number) * seconds for number, seconds in zip(found.groups(), _SECONDS.values()) if number)
