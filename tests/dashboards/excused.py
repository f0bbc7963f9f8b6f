"""Queries of panels that may be empty: by dashboard and platform, (panel, query) and the reason. No others may.

A query that is excused and brings series is as wrong as one that is not and brings none.
"""

from __future__ import annotations

_NO_GUESTS = "a bare machine has no guests"
_NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
_NOT_YET_USUAL = "what is usual is known after a day"

EXCUSED: dict[str, dict[str, dict[tuple[str, str], str]]] = {
    "host": {
        "base": {
            ("Overhead, of all CPU used", "A"): _NO_OVERHEAD,
            ("Overhead over time", "A"): _NO_OVERHEAD,
            ("Overhead in CPUs", "A"): _NO_OVERHEAD,
            ("Guests", "A"): _NO_GUESTS,
            ("CPU used, against capacity", "B"): _NO_GUESTS,
            ("Alerts of this host", "A"): "nothing is wrong with it",
        },
    },
    "caches-and-events": {
        "base": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
        "xen": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
    },
}
