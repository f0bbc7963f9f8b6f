"""Queries of panels that may be empty: by dashboard and platform, (panel, query) and the reason. No others may.

An excused query that returns series is as wrong as any other that returns none.
"""

from __future__ import annotations

_NO_GUESTS = "a bare machine has no guests"
_NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
_NONE_ENDED = "no guest has ended"
_NO_OTHERS = "ten and fewer are all shown"
_NO_CAP = "a bare machine has no cap"
_NO_MEDIAN_YET = "the median of a week is known after a day"
_TOO_YOUNG = "known of applications that have been asked for an hour"
_NOTHING_MOVED = "no neighbour was moved or capped"
_NO_WAITING = "a bare machine has no other guests to wait for"
_NO_TIERS = "alerts/objectives/ does not say where its application runs"
_NOT_FROM_OUTSIDE = "steal is known inside of a guest only"

_OF_TIERS = {
    ("Applications", "G"): _NO_TIERS,
    ("Applications", "H"): _NO_TIERS,
    ("CPU cap (self)", "A"): _NO_TIERS,
    ("CPU wait ratio (neighbour)", "A"): _NO_TIERS,
    ("CPU usage of neighbours", "A"): _NO_TIERS,
    **{("Named neighbours", query): _NO_TIERS for query in "ABC"},
    ("Waiting for each neighbour (neighbour)", "A"): _NO_TIERS,
    ("Waiting for each neighbour (neighbour)", "B"): _NO_TIERS,
    ("Waiting by reason (neighbour)", "A"): _NO_TIERS,
}
_OF_NOTHING_MOVED = {("Reallocated neighbours of the host's applications", query): _NOTHING_MOVED for query in "AB"}
_OF_NOBODY_NAMED = {("Named neighbours of the host's applications", query): _NO_TIERS for query in "ABC"}
_OF_LATER = {
    ("CPU wait ratio (neighbour)", "B"): _NO_MEDIAN_YET,
    ("Request rate and past maximum", "B"): _TOO_YOUNG,
}
_NO_LAB = "the lab has not run there"

_OF_CROWDS_LATER = {
    ("Headroom (apps)", "A"): "known after eight hours with requests",
    ("Headroom in a week", "A"): "known after three days with requests",
}
_OF_CROWDS = {
    **_OF_CROWDS_LATER,
    ("Headroom now", "A"): _NO_TIERS,
    ("Headroom over time", "A"): _NO_TIERS,
    ("Headroom over time", "B"): _NO_TIERS,
    ("CPU usage by application", "A"): _NO_TIERS,
    ("CPU per request", "A"): _NO_TIERS,
    ("Application CPU by apps", "A"): _NO_TIERS,
    ("CPU per request by apps", "A"): _NO_TIERS,
    ("Mean response by clients", "A"): _NO_LAB,
    ("Throughput by clients", "A"): _NO_LAB,
    ("Application CPU by clients", "A"): _NO_LAB,
    ("Overhead by clients", "A"): _NO_LAB,
    ("LLC MPKI by clients", "A"): _NO_LAB,
    ("CPU per request by clients", "A"): _NO_LAB,
}

# The page of any hosts: at first the bare machine is the baseline.
_OF_BASELINE = {("A request / baseline", query): "the baseline is in no application" for query in "ABCD"}

EXCUSED: dict[str, dict[str, dict[tuple[str, str], str]]] = {
    "host": {
        "base": {
            ("Overhead ratio", "A"): _NO_OVERHEAD,
            ("Overhead ratio over time", "A"): _NO_OVERHEAD,
            ("Overhead (CPUs)", "A"): _NO_OVERHEAD,
            ("CPU usage and capacity", "B"): _NO_GUESTS,
            ("CPU usage and capacity", "C"): _NO_GUESTS,
            ("CPU usage and capacity", "E"): _NO_GUESTS,
            ("Overhead per request", "A"): _NO_OVERHEAD,
            ("Overhead per GB", "A"): _NO_OVERHEAD,
            ("Reallocations per minute", "A"): _NO_GUESTS,
            ("CPU wait", "A"): _NO_WAITING,
            ("CPU wait / demand", "A"): _NO_WAITING,
            ("CPU wait / demand", "B"): _NO_WAITING,
            ("CPU cap utilisation", "A"): _NO_CAP,
            ("Virtual servers", "C"): _NO_WAITING,
            ("Virtual servers", "D"): _NO_CAP,
            ("Virtual servers", "E"): _NO_CAP,
            ("Virtual servers", "F"): "without others, weights mean nothing",
        },
        "xen": {
            ("CPU usage and capacity", "C"): _NO_OTHERS,
            ("CPU usage and capacity", "E"): _NONE_ENDED,
            ("Virtual servers", "E"): "throttling is not known on Xen",
        },
        "cgroup": {
            ("CPU usage and capacity", "C"): _NO_OTHERS,
            ("CPU usage and capacity", "E"): _NONE_ENDED,
        },
    },
    "costs": dict.fromkeys(("base", "xen", "cgroup"), _OF_BASELINE),
    "caches-and-events": {
        "base": {("Misses per 1,000 instructions", "B"): _NO_MEDIAN_YET},
        "xen": {("Misses per 1,000 instructions", "B"): _NO_MEDIAN_YET},
        "cgroup": {("Misses per 1,000 instructions", "B"): _NO_MEDIAN_YET},
    },
    "applications": {
        "base": {**_OF_TIERS, **_OF_LATER, ("Host overhead (hypervisor)", "A"): _NO_OVERHEAD},
        "xen": {**_OF_TIERS, **_OF_LATER, ("Host CPU steal (hypervisor)", "A"): _NOT_FROM_OUTSIDE},
        "cgroup": {**_OF_LATER, ("Waiting for each neighbour (neighbour)", "B"): _NO_OTHERS},
    },
    "neighbours": {
        "base": {
            ("Who waits for whom on the host", "A"): _NO_WAITING,
            ("Who ran meanwhile", "A"): _NO_WAITING,
            ("Who ran meanwhile", "B"): _NO_WAITING,
            ("Waiting by reason", "A"): _NO_WAITING,
            **_OF_NOBODY_NAMED,
            **_OF_NOTHING_MOVED,
        },
        "xen": {("Who ran meanwhile", "B"): _NO_OTHERS, **_OF_NOBODY_NAMED, **_OF_NOTHING_MOVED},
        "cgroup": {("Who ran meanwhile", "B"): _NO_OTHERS, **_OF_NOTHING_MOVED},
    },
    "consolidation": {
        "base": {
            **_OF_CROWDS,
            ("CPU usage by application", "B"): _NO_OVERHEAD,
            ("Overhead ratio", "A"): _NO_OVERHEAD,
            ("Overhead by apps", "A"): _NO_OVERHEAD,
        },
        "xen": _OF_CROWDS,
        "cgroup": _OF_CROWDS_LATER,
    },
}
