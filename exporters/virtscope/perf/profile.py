"""Profiles: which image and which symbol the samples of an event fell on, few enough series for Prometheus.

    samples -> Place, Hits -> Top, which chooses the places that have series -> families

By hand: `perf record -a -F 99 -e cache-misses -- sleep 5`, and then `perf report --stdio -n --sort=dso,sym`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.families import Definition, Info, Table, page, scalars, table

NO_SYMBOL = "(no symbols)"  # of what is in an image without any
GUESTS = "guests"  # the domain of samples that fell into guests, where the kernel doesn't say which one
OTHER = "(other)"  # image and symbol of the series that takes the samples of all places without one

_LONGEST = 160  # characters of a name; templates of C++ and methods of Java go into thousands


class Place(NamedTuple):
    """Where a sample fell."""

    event: str
    image: str  # a file's name without its folder, "[kernel.kallsyms]", "xen-syms"; "" where the report doesn't say
    symbol: str  # NO_SYMBOL where the report has none
    space: str  # "user", "kernel", "hypervisor", "guest_user", "guest_kernel"; "" where the report doesn't say
    domain: str = ""  # the domid that Xenoprof sampled from outside, or GUESTS; "": what the profiler ran on

    @classmethod
    def named(cls, event: str, image: str, symbol: str, space: str, domain: str = "") -> Place:
        """Return the place without what is another name for each process, build or boot: that would never end."""
        return cls(event, _stable(image, _IMAGES)[:_LONGEST], _stable_symbol(symbol), space, domain)


class Hits(NamedTuple):
    """What fell on a place."""

    samples: int
    # The events that these stand for. perf varies the period to keep to a frequency, so that samples alone show when
    # something ran, not how many of the events it had.
    events: float

    def plus(self, more: Hits) -> Hits:
        """Return both together."""
        return Hits(self.samples + more.samples, self.events + more.events)


Profile = dict[Place, Hits]


def add(profile: Profile, place: Place, hits: Hits) -> None:
    """Add what fell on a place to a profile; nothing, if nothing fell."""
    if hits.samples or hits.events:
        profile[place] = profile[place].plus(hits) if place in profile else hits


# --- Names that stay the same in every process, build and boot --------------------------------------------------------

_IMAGES = [
    (re.compile(r" \(deleted\)$|^\(deleted\) +"), ""),
    (re.compile(r"\+0x[0-9a-f]+$"), ""),  # where in the file, as perf script's dsoff shows
    (re.compile(r"^(?:.*/)?perf-\d+\.map$|^\[JIT\] tid \d+$|^(?:.*/)?jitted-\d+-\d+\.so$|^(?:.*/)?\d+\.jo$"), "[JIT]"),
    (re.compile(r"^(\[(?:stack|guest\.kernel\.kallsyms))[.:]\d+\]$"), r"\1]"),
    (re.compile(r"^/?SYSV[0-9a-f]{8}$"), "SYSV"),  # shared memory, by its key
    (re.compile(r"^/?memfd:.*$"), "memfd"),  # likewise, by any name
    (re.compile(r"^(?:.*/)?(\w[\w-]*)\.ko(?:\.gz|\.xz|\.zst)?$"), r"[\1]"),  # a module as it is named while loaded
    (re.compile(r"^[^\[].*/([^/]+)/*$|^/([^/]+)$"), r"\1\2"),
    (re.compile(r"^\d+$|^[0-9a-f]{32,}(?:\.debug)?$"), "(no name)"),  # a process' or a build's number alone
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),  # a hash of its instructions
]
_SYMBOLS = [
    (re.compile(r"\+0x[0-9a-f]+$"), ""),
    (re.compile(r"\.llvm\.\d+"), ""),
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),
    # A script's folders, as V8's and Python's JIT have them.
    (re.compile(r"(?<=[\s:])(?:file://)?/(?:[^/\s:]+/)+"), ""),
]
# What is in a symbol's place where there is none: an address, or the image once more.
_NONE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,16}|\[unknown\]|(?:\(deleted\) +)?/\S.*|", re.DOTALL)


def _stable(name: str, rules: list[tuple[re.Pattern[str], str]]) -> str:
    for pattern, instead in rules:
        name = pattern.sub(instead, name)
    return name


def _stable_symbol(symbol: str) -> str:
    name = _stable(symbol.strip(), _SYMBOLS)
    return NO_SYMBOL if _NONE.fullmatch(symbol.strip()) or _NONE.fullmatch(name) else name[:_LONGEST]


_SAMPLING = re.compile(r"(?<=[/,])(?:freq|period)=\w+,?")
# How an event was sampled, and what of: tools/perf/Documentation/perf-list.txt, "EVENT MODIFIERS". A tracepoint has a
# colon of its own, and so do the probes that people name as they like.
_PROBE = re.compile(r"(?:probe|sdt)\w*:\w+")
_MODIFIERS = re.compile(r"(?<=.)(?::|(?<=/):?)([ukhGHIpPDSWebRX]+)$")
# Pairs of modifiers of which one alone leaves samples out: user space or kernel, guests or, by default, the host.
_SCOPES = (("u", "k"), ("k", "u"), ("G", "H"))


def event_name(printed: str) -> str:
    """Return an event's name without how it was sampled: "cache-misses" for "cache-misses/period=10000/".

    Modifiers stay as far as they say what was sampled: "cycles:u" for "cycles:uppH".
    """
    found = None if _PROBE.fullmatch(printed) else _MODIFIERS.search(printed)
    bare = _SAMPLING.sub("", printed[: found.start()] if found else printed).replace(",/", "/").removesuffix("//")
    scope = "".join(one for one, other in _SCOPES if found and one in found[1] and other not in found[1])
    return f"{bare}{'' if bare.endswith('/') else ':'}{scope}" if scope else bare


def in_base_units(event: str, count: int) -> float:
    """Return how many events these are; seconds of those that count nanoseconds, as in perf_events_total."""
    return count * 1e-9 if event.partition(":")[0] in {"cpu-clock", "task-clock"} else float(count)


# --- Which places have series -----------------------------------------------------------------------------------------

_MEMORY = 0.8  # what a round's events still weigh in the next: a place is judged by its last five rounds or so
_CANDIDATES = 4  # times as many places as have series are remembered, so that one can rise over several rounds
_WORTH = 1e-3  # of the weight of all, for a newcomer: the long tail would come and go for ever
_CLEARLY = 2  # times the weight of the lightest place with a series takes its series over; less may be chance
_FORGOTTEN = 1e-6  # of the weight of all: of what had a percent of the events, this is left after 35 rounds
_NOTHING = Hits(0, 0.0)


class Top:
    """Counts what fell on each place for the places with the most events, and the rest in one series for each event.

    A place that falls out loses its series: what falls on it from then on is in OTHER, and if it comes back it counts
    from 0, as after a restart. A newcomer's series begins with 0, and what made it come is in OTHER still, as
    Prometheus sees nothing of what a series brings along. So rates and shares are right for as long as a place has its
    series, and all of an event's series together rise by just its samples.
    """

    def __init__(self, most: int, newcomers: int) -> None:
        """Keep `most` places of each event, of which at most `newcomers` change from one profile to the next.

        The first profile fills every place at once.
        """
        self._most = most
        self._newcomers = newcomers
        self._weights: dict[str, dict[Place, float]] = {}  # by event
        self._counts: dict[str, Profile] = {}

    def add(self, profile: Profile) -> None:
        """Take the samples of one more round."""
        rounds: dict[str, Profile] = {event: {} for event in self._counts}
        for place, hits in profile.items():
            rounds.setdefault(place.event, {})[place] = hits
        for event, round_ in rounds.items():
            self._add(event, round_)

    def counts(self) -> Profile:
        """Return what fell on each place since it has its series, OTHER last for each event."""
        return {place: hits for counts in self._counts.values() for place, hits in counts.items()}

    def _add(self, event: str, round_: Profile) -> None:
        other = Place(event, OTHER, OTHER, "")
        weights = {place: weight * _MEMORY for place, weight in self._weights.get(event, {}).items()}
        for place, hits in round_.items():
            if place != other:  # what a report itself puts together; it has its series anyway
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
        """Return the places that have a series from now on."""
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
    # By name where they weigh the same: a tie must not be broken differently in each round.
    return sorted(places, key=lambda place: (-weights[place], place))[:most]


# --- Metrics ----------------------------------------------------------------------------------------------------------


class Profiled(NamedTuple):
    """What all rounds have found so far."""

    profile: Profile
    lost: int  # samples
    seconds: float  # how long was sampled
    events: list[tuple[str, str, str]]  # name, pace and scope


_PROFILE: Table[Profile] = table(
    lambda profile: [(place._asdict(), hits) for place, hits in profile.items()],
    Definition(
        "perf_profile_samples_total",
        "Samples of the event in this symbol; (other) is the sum of all symbols without a series.",
        lambda hits: hits.samples,
    ),
    Definition(
        "perf_profile_events_total",
        "Events that the samples represent, or seconds for events that count time; use these for shares, as perf "
        "varies the period of its samples.",
        lambda hits: hits.events,
    ),
)
_ROUNDS: tuple[Table[Profiled], ...] = (
    table(
        lambda profiled: [
            ({"event": event, "pace": pace, "scope": scope}, {}) for event, pace, scope in profiled.events
        ],
        Info("perf_profile", "How often each event is sampled on every CPU (pace), and where (scope)."),
    ),
    scalars(
        Definition(
            "perf_profile_seconds_total", "Duration of sampling, in seconds.", lambda profiled: profiled.seconds
        ),
        Definition(
            "perf_profile_lost_samples_total",
            "Samples that perf lost because it was too slow.",
            lambda profiled: profiled.lost,
        ),
    ),
)


def live_families(profiled: Profiled) -> list[Metric]:
    """Return the profile, and how it was sampled."""
    return page([_PROFILE], profiled.profile) + page(_ROUNDS, profiled)
