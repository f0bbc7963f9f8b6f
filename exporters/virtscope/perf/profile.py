"""Profiles: samples of an event by image and symbol, with a limited number of series.

    samples -> Place, Hits -> Top, which chooses the places with series -> families

By hand: `perf record -a -F 99 -e cache-misses -- sleep 5`, and then `perf report --stdio -n --sort=dso,sym`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.families import family, info, scalar

NO_SYMBOL = "(no symbols)"  # the symbol of images without symbols
GUESTS = "guests"  # the domain of samples in guests, if the kernel doesn't report which
OTHER = "(other)"  # image and symbol of the series for all other places

_LONGEST = 160  # characters of a name; C++ templates and Java methods may have thousands


class Place(NamedTuple):
    """The place of a sample."""

    event: str
    image: str  # a file's name without its folder, "[kernel.kallsyms]", "xen-syms"; "" if unknown
    symbol: str  # NO_SYMBOL if the report has none
    space: str  # "user", "kernel", "hypervisor", "guest_user", "guest_kernel"; "" if unknown
    domain: str = ""  # a domid sampled from outside by Xenoprof, or GUESTS; "" for the profiler's own

    @classmethod
    def named(cls, event: str, image: str, symbol: str, space: str, domain: str = "") -> Place:
        """Return the place without parts that vary by process, build or boot, which would create endless series."""
        return cls(event, _stable(image, _IMAGES)[:_LONGEST], _stable_symbol(symbol), space, domain)


class Hits(NamedTuple):
    """The samples of a place."""

    samples: int
    # The events that the samples represent. perf varies the period to keep its frequency, so the number of samples
    # alone shows run time instead of events.
    events: float

    def plus(self, more: Hits) -> Hits:
        """Return the sum."""
        return Hits(self.samples + more.samples, self.events + more.events)


Profile = dict[Place, Hits]


def add(profile: Profile, place: Place, hits: Hits) -> None:
    """Add a place's samples to a profile, unless there are none."""
    if hits.samples or hits.events:
        profile[place] = profile[place].plus(hits) if place in profile else hits


# --- Stable names across processes, builds and boots ------------------------------------------------------------------

_IMAGES = [
    (re.compile(r" \(deleted\)$|^\(deleted\) +"), ""),
    (re.compile(r"\+0x[0-9a-f]+$"), ""),  # the offset in the file, by perf script's dsoff
    (re.compile(r"^(?:.*/)?perf-\d+\.map$|^\[JIT\] tid \d+$|^(?:.*/)?jitted-\d+-\d+\.so$|^(?:.*/)?\d+\.jo$"), "[JIT]"),
    (re.compile(r"^(\[(?:stack|guest\.kernel\.kallsyms))[.:]\d+\]$"), r"\1]"),
    (re.compile(r"^/?SYSV[0-9a-f]{8}$"), "SYSV"),  # shared memory, by its key
    (re.compile(r"^/?memfd:.*$"), "memfd"),  # shared memory, by any name
    (re.compile(r"^(?:.*/)?(\w[\w-]*)\.ko(?:\.gz|\.xz|\.zst)?$"), r"[\1]"),  # a module's name while loading
    (re.compile(r"^[^\[].*/([^/]+)/*$|^/([^/]+)$"), r"\1\2"),
    (re.compile(r"^\d+$|^[0-9a-f]{32,}(?:\.debug)?$"), "(no name)"),  # just the number of a process or build
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),  # a hash of its instructions
]
_SYMBOLS = [
    (re.compile(r"\+0x[0-9a-f]+$"), ""),
    (re.compile(r"\.llvm\.\d+"), ""),
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),
    # A script's folders, in names of V8's and Python's JIT.
    (re.compile(r"(?<=[\s:])(?:file://)?/(?:[^/\s:]+/)+"), ""),
]
# Placeholders for a missing symbol: an address, or the image again.
_NONE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,16}|\[unknown\]|(?:\(deleted\) +)?/\S.*|", re.DOTALL)


def _stable(name: str, rules: list[tuple[re.Pattern[str], str]]) -> str:
    for pattern, instead in rules:
        name = pattern.sub(instead, name)
    return name


def _stable_symbol(symbol: str) -> str:
    name = _stable(symbol.strip(), _SYMBOLS)
    return NO_SYMBOL if _NONE.fullmatch(symbol.strip()) or _NONE.fullmatch(name) else name[:_LONGEST]


_SAMPLING = re.compile(r"(?<=[/,])(?:freq|period)=\w+,?")
# An event's modifiers: tools/perf/Documentation/perf-list.txt, "EVENT MODIFIERS". Tracepoints and probes have a colon
# in their names.
_PROBE = re.compile(r"(?:probe|sdt)\w*:\w+")
_MODIFIERS = re.compile(r"(?<=.)(?::|(?<=/):?)([ukhGHIpPDSWebRX]+)$")
# Pairs of modifiers; one alone restricts samples: user space or kernel, guests or (default) the host.
_SCOPES = (("u", "k"), ("k", "u"), ("G", "H"))


def event_name(printed: str) -> str:
    """Return an event's name without sampling options: "cache-misses" for "cache-misses/period=10000/".

    Modifiers stay if they restrict the scope: "cycles:u" for "cycles:uppH".
    """
    found = None if _PROBE.fullmatch(printed) else _MODIFIERS.search(printed)
    bare = _SAMPLING.sub("", printed[: found.start()] if found else printed).replace(",/", "/").removesuffix("//")
    scope = "".join(one for one, other in _SCOPES if found and one in found[1] and other not in found[1])
    return f"{bare}{'' if bare.endswith('/') else ':'}{scope}" if scope else bare


def in_base_units(event: str, count: int) -> float:
    """Return the number of events; for events in nanoseconds, the seconds, as in perf_events_total."""
    return count * 1e-9 if event.partition(":")[0] in {"cpu-clock", "task-clock"} else float(count)


# --- Places with series -----------------------------------------------------------------------------------------------

_MEMORY = 0.8  # weight of past events per round: a place's weight covers about five rounds
_CANDIDATES = 4  # remembered places per series, so that a place can rise over several rounds
_WORTH = 1e-3  # minimum share of the total weight for a newcomer, so that the long tail doesn't flap
_CLEARLY = 2  # times the lightest place's weight, to replace it; less may be chance
_FORGOTTEN = 1e-6  # of the total weight; a place with 1 % of the events falls below it after 35 rounds
_NOTHING = Hits(0, 0.0)


class Top:
    """Counts samples for the top places, and the rest in one series per event.

    A dropped place loses its series: its further samples count in OTHER, and if it returns it restarts from 0. A new
    series begins with 0, and its earlier samples stay in OTHER, because Prometheus ignores a series' first value. So
    rates and shares are right while a place has a series, and the sum of an event's series grows by exactly its
    samples.
    """

    def __init__(self, most: int, newcomers: int) -> None:
        """Keep `most` places of each event; at most `newcomers` of them change per profile.

        The first profile fills every place at once.
        """
        self._most = most
        self._newcomers = newcomers
        self._weights: dict[str, dict[Place, float]] = {}  # by event
        self._counts: dict[str, Profile] = {}

    def add(self, profile: Profile) -> None:
        """Add the samples of a round."""
        rounds: dict[str, Profile] = {event: {} for event in self._counts}
        for place, hits in profile.items():
            rounds.setdefault(place.event, {})[place] = hits
        for event, round_ in rounds.items():
            self._add(event, round_)

    def counts(self) -> Profile:
        """Return the samples of each place since its series began, OTHER last for each event."""
        return {place: hits for counts in self._counts.values() for place, hits in counts.items()}

    def _add(self, event: str, round_: Profile) -> None:
        other = Place(event, OTHER, OTHER, "")
        weights = {place: weight * _MEMORY for place, weight in self._weights.get(event, {}).items()}
        for place, hits in round_.items():
            if place != other:  # the report's own sum; OTHER always has a series
                weights[place] = weights.get(place, 0.0) + hits.events
        least = sum(weights.values()) * _FORGOTTEN
        weights = {place: weight for place, weight in weights.items() if weight >= least or place in round_}
        before = self._counts.get(event)
        places = self._choose(weights, before) if before else _heaviest(weights, weights, self._most)
        counting = set(before or places)
        counts = {place: (before or {}).get(place, _NOTHING) for place in places}
        counts[other] = (before or {}).get(other, _NOTHING)
        for place, hits in round_.items():
            shown = place if place in counts and place in counting else other
            counts[shown] = counts[shown].plus(hits)
        self._counts[event] = counts
        remembered = {*_heaviest(weights, weights, self._most * _CANDIDATES), *counts} - {other}
        self._weights[event] = {place: weights[place] for place in remembered}

    def _choose(self, weights: dict[Place, float], before: Profile) -> list[Place]:
        """Return the places with a series from now on."""
        staying = _heaviest(weights, (place for place in before if place in weights), self._most)
        entering: list[Place] = []
        least = sum(weights.values()) * _WORTH
        strangers = (place for place, weight in weights.items() if place not in before and weight >= least)
        for place in _heaviest(weights, strangers, self._newcomers):
            if len(staying) + len(entering) >= self._most:
                if not staying or weights[place] < _CLEARLY * weights[staying[-1]]:
                    break
                staying.pop()
            entering.append(place)
        return [*staying, *entering]


def _heaviest(weights: dict[Place, float], places: Iterable[Place], most: int) -> list[Place]:
    # Equal weights are ordered by name, so that ties are broken consistently.
    return sorted(places, key=lambda place: (-weights[place], place))[:most]


# --- Metrics ----------------------------------------------------------------------------------------------------------


class Profiled(NamedTuple):
    """The sum of all rounds so far."""

    profile: Profile
    lost: int  # samples
    seconds: float  # sampling time
    events: list[tuple[str, str, str]]  # name, pace and scope


def live_families(profiled: Profiled) -> list[Metric]:
    """Return the families of the profile and its sampling."""
    places = [(place._asdict(), hits) for place, hits in profiled.profile.items()]
    events = [{"event": event, "pace": pace, "scope": scope} for event, pace, scope in profiled.events]
    return [
        family(
            "perf_profile_samples_total",
            "Samples of the event in this symbol; (other) is the sum of all symbols without a series.",
            [(labels, hits.samples) for labels, hits in places],
        ),
        family(
            "perf_profile_events_total",
            "Events that the samples represent, or seconds for events that count time; use these for shares, as perf "
            "varies the period of its samples.",
            [(labels, hits.events) for labels, hits in places],
        ),
        info("perf_profile_info", "How often each event is sampled on every CPU (pace), and where (scope).", events),
        scalar("perf_profile_seconds_total", "Duration of sampling, in seconds.", profiled.seconds),
        scalar("perf_profile_lost_samples_total", "Samples that perf lost because it was too slow.", profiled.lost),
    ]
