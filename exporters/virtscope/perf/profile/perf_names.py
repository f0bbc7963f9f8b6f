"""Names of events as perf prints them, and their units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

_SAMPLING = re.compile(r"(?<=[/,])(?:freq|period)=\w+,?")
# How an event was sampled, and what of: tools/perf/Documentation/perf-list.txt, "EVENT MODIFIERS". A tracepoint has a
# colon of its own, and so do the probes that people name as they like.
_PROBE = re.compile(r"(?:probe|sdt)\w*:\w+")
_MODIFIERS = re.compile(r"(?<=.)(?::|(?<=/):?)([ukhGHIpPDSWebRX]+)$")
# Pairs of modifiers of which one alone leaves samples out: user space or kernel, guests or (the usual) the host.
_SCOPES = (("u", "k"), ("k", "u"), ("G", "H"))


def event_name(printed: str) -> str:
    """Return an event's name without how it was sampled: "cache-misses" for "cache-misses/period=10000/".

    Modifiers stay as far as they say what was sampled: "cycles:u" for "cycles:uppH".
    """
    found = None if _PROBE.fullmatch(printed) else _MODIFIERS.search(printed)
    bare = _SAMPLING.sub("", printed[: found.start()] if found else printed).replace(",/", "/").removesuffix("//")
    scope = "".join(one for one, other in _SCOPES if found and one in found[1] and other not in found[1])
    return f"{bare}{'' if bare.endswith('/') else ':'}{scope}" if scope else bare


def without_scope(names: Collection[str]) -> dict[str, str]:
    """Return what each event is called where it has its name for itself: "cycles" for "cycles:u".

    `names` are those of event_name(). Where two differ by their modifiers alone, both keep these.
    """
    bare = {name: name if _PROBE.fullmatch(name) else _MODIFIERS.sub("", name) for name in names}
    shared = Counter(bare.values())
    return {name: short if shared[short] == 1 else name for name, short in bare.items()}


def in_base_units(event: str, count: int) -> float:
    """Return how many events these are; seconds of those that count nanoseconds, as in perf_events_total."""
    return count * 1e-9 if event.partition(":")[0] in {"cpu-clock", "task-clock"} else float(count)
