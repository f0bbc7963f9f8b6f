"""Names of events as perf prints them, and their units."""

from __future__ import annotations

import re

_SAMPLING = re.compile(r"(?<=[/,])(?:freq|period)=\w+,?")
_PRECISION = re.compile(r"(?::|(?<=/))(?:p{1,3}|P)$")  # how close to the instruction it is to be, not what is counted


def event_name(printed: str) -> str:
    """Return an event's name without how it was sampled: "cache-misses" for "cache-misses/period=10000/"."""
    bare = _SAMPLING.sub("", _PRECISION.sub("", printed)).replace(",/", "/")
    return bare.removesuffix("//")


def in_base_units(event: str, count: int) -> float:
    """Return how many events these are; seconds of those that count nanoseconds, as in perf_events_total."""
    return count * 1e-9 if event.partition(":")[0] in {"cpu-clock", "task-clock"} else float(count)
