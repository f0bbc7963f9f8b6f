"""Queries of panels that may be empty: by dashboard and platform, (panel, query) and the reason. No others may.

A query that is excused and brings series is as wrong as one that is not and brings none.
"""

from __future__ import annotations

_NO_GUESTS = "a bare machine has no guests"
_NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
_NO_CAP = "a bare machine has no cap"
_NOT_YET_USUAL = "what is usual is known after a day"

_NO_APPS = "none of the hosts has applications"
_NO_APPS_ON_FLEET = {
    ("Hosts, by trouble", "C"): _NO_APPS,
    ("Hosts, by trouble", "G"): _NO_APPS,
    ("Burn rate of the application worst off", "A"): _NO_APPS,
}

EXCUSED: dict[str, dict[str, dict[tuple[str, str], str]]] = {
    "fleet": dict.fromkeys(("xen", "base"), _NO_APPS_ON_FLEET),
    "host": {
        "xen": {
            ("Overhead per request", "A"): _NO_APPS,
            ("Overhead per request, over time", "A"): _NO_APPS,
        },
        "base": {
            ("Overhead ratio", "A"): _NO_OVERHEAD,
            ("Overhead over time", "A"): _NO_OVERHEAD,
            ("Overhead in CPUs", "A"): _NO_OVERHEAD,
            ("CPU used, against capacity", "B"): _NO_GUESTS,
            ("Alerts of this host", "A"): "nothing is wrong with it",
            ("Overhead per request", "A"): _NO_OVERHEAD,
            ("Overhead per request, over time", "A"): _NO_OVERHEAD,
            ("Overhead per GB", "A"): _NO_OVERHEAD,
            ("Overhead per GB, over time", "A"): _NO_OVERHEAD,
            ("Waiting for a CPU", "A"): "a bare machine waits for nobody",
            ("CPU used, of the cap", "A"): _NO_CAP,
            ("Guests, and the host itself", "C"): "a bare machine waits for nobody",
            ("Guests, and the host itself", "D"): _NO_CAP,
        },
    },
    "caches-and-events": {
        "base": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
        "xen": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
    },
}
