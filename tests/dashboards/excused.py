"""Queries of panels that may be empty: by dashboard and platform, (panel, query) and the reason. No others may.

A query that is excused and brings series is as wrong as one that is not and brings none.
"""

from __future__ import annotations

_NO_GUESTS = "a bare machine has no guests"
_NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
_NONE_ENDED = "no guest has ended"
_NO_OTHERS = "ten guests and fewer are all shown"
_NO_CAP = "a bare machine has no cap"
_NOT_YET_USUAL = "what is usual is known after a day"
_TOO_YOUNG = "known of applications that have been asked for an hour"
_NO_TIERS = "alerts/objectives/ does not say where its application runs"
_NOT_FROM_OUTSIDE = "only what is itself a guest can tell"

_OF_TIERS = {
    ("Applications now", "G"): _NO_TIERS,
    ("Applications now", "H"): _NO_TIERS,
    ("At its own cap", "A"): _NO_TIERS,
    ("Waits for a CPU, for each second on one", "A"): _NO_TIERS,
    ("CPU of its neighbours", "A"): _NO_TIERS,
}
_OF_LATER = {
    ("Waits for a CPU, for each second on one", "B"): _NOT_YET_USUAL,
    ("Requests, against the most so far", "B"): _TOO_YOUNG,
}
_NO_LAB = "the lab has not run there"

_OF_CROWDS_LATER = {
    ("In busy hours", "A"): "known after eight hours at work",
    ("In a week", "A"): "known after three days at work",
}
_OF_CROWDS = {
    **_OF_CROWDS_LATER,
    ("More that fit", "A"): _NO_TIERS,
    ("By CPU", "A"): _NO_TIERS,
    ("By objectives", "A"): _NO_TIERS,
    ("Headroom over time", "A"): _NO_TIERS,
    ("Headroom over time", "B"): _NO_TIERS,
    ("CPU used, by application", "A"): _NO_TIERS,
    ("CPU per request", "A"): _NO_TIERS,
    ("Applications' CPU, by applications", "A"): _NO_TIERS,
    ("CPU per request, by applications", "A"): _NO_TIERS,
    ("Mean response, by clients", "A"): _NO_LAB,
    ("Throughput, by clients", "A"): _NO_LAB,
    ("Applications' CPU, by clients", "A"): _NO_LAB,
    ("Overhead, by clients", "A"): _NO_LAB,
    ("LLC misses per 1,000 instructions, by clients", "A"): _NO_LAB,
    ("CPU per request, by clients", "A"): _NO_LAB,
}

EXCUSED: dict[str, dict[str, dict[tuple[str, str], str]]] = {
    "host": {
        "base": {
            ("Overhead ratio", "A"): _NO_OVERHEAD,
            ("Overhead over time", "A"): _NO_OVERHEAD,
            ("Overhead in CPUs", "A"): _NO_OVERHEAD,
            ("CPU used, against capacity", "B"): _NO_GUESTS,
            ("CPU used, against capacity", "C"): _NO_GUESTS,
            ("CPU used, against capacity", "E"): _NO_GUESTS,
            ("Overhead per request", "A"): _NO_OVERHEAD,
            ("Overhead per request, over time", "A"): _NO_OVERHEAD,
            ("Overhead per GB", "A"): _NO_OVERHEAD,
            ("Overhead per GB, over time", "A"): _NO_OVERHEAD,
            ("Waiting for a CPU", "A"): "a bare machine waits for nobody",
            ("CPU used, of the cap", "A"): _NO_CAP,
            ("Guests, and the host itself", "C"): "a bare machine waits for nobody",
            ("Guests, and the host itself", "D"): _NO_CAP,
            ("Guests, and the host itself", "E"): _NO_CAP,
            ("Guests, and the host itself", "F"): "without others, weights mean nothing",
        },
        "xen": {
            ("CPU used, against capacity", "C"): _NO_OTHERS,
            ("CPU used, against capacity", "E"): _NONE_ENDED,
            ("Guests, and the host itself", "E"): "Xen doesn't tell how long a cap held a guest back",
        },
        "cgroup": {
            ("CPU used, against capacity", "C"): _NO_OTHERS,
            ("CPU used, against capacity", "E"): _NONE_ENDED,
        },
    },
    "caches-and-events": {
        "base": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
        "xen": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
        "cgroup": {("Misses per 1,000 instructions", "B"): _NOT_YET_USUAL},
    },
    "applications": {
        "base": {**_OF_TIERS, **_OF_LATER, ("The host's own share", "A"): _NO_OVERHEAD},
        "xen": {**_OF_TIERS, **_OF_LATER, ("Taken by a hypervisor below", "A"): _NOT_FROM_OUTSIDE},
        "cgroup": _OF_LATER,
    },
    "consolidation": {
        "base": {
            **_OF_CROWDS,
            ("CPU used, by application", "B"): _NO_OVERHEAD,
            ("Overhead, of all CPU used", "A"): _NO_OVERHEAD,
            ("Overhead, by applications", "A"): _NO_OVERHEAD,
        },
        "xen": _OF_CROWDS,
        "cgroup": _OF_CROWDS_LATER,
    },
}
