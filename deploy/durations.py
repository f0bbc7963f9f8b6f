"""Durations in Prometheus's format: 90s, 1m30s, 500ms, 1w.

The flags of exporters take the same form, but `make up` runs before they are installed.
"""

import re

_SECONDS = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
# Each unit at most once, from the largest to the smallest, with a whole number.
_DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _SECONDS), re.ASCII)


def parse(text: str) -> float:
    """Return the seconds of a duration; raises ValueError for anything else."""
    found = _DURATION.fullmatch(text)
    if not found or not text:
        raise ValueError(f"{text!r} is not a duration such as 15s or 1m30s")
    return sum(
        int(number) * seconds for number, seconds in zip(found.groups(), _SECONDS.values(), strict=True) if number
    )
