"""Names of events as perf prints them."""

from __future__ import annotations

import re

_SAMPLING = re.compile(r"(?<=[/,])(?:freq|period)=\w+,?")


def event_name(printed: str) -> str:
    """Return an event's name without how often it was sampled: "cache-misses" for "cache-misses/period=10000/"."""
    bare = _SAMPLING.sub("", printed).replace(",/", "/")
    return bare.removesuffix("//")
