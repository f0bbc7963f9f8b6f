"""Changes that Prometheus has seen, and the predictions for them, made again from what was known before each."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from advise import AdviceError
from advise.model import Predicted
from advise.options import Advisor
from advise.queueing import Numbers
from advise.reading import SETTLED, Place, Reading, answers
from advise.seen import Guest, Seen, guests, see

LONGEST = 900.0  # seconds that a guest may be nowhere while it is moved
SAME_LOAD = 0.3  # by so much requests may differ, relatively, for the comparison to be about the change
ENOUGH = 10  # predictions that say something about the model
LATEST = 20  # changes that are looked at
MAX_ERROR, MIN_INSIDE = 0.5, 0.5


@dataclass(frozen=True)
class Change:
    """A guest that was moved, started or got another cap between two samples; `of` is None before a start."""

    kind: str  # move, cap, start
    name: str
    of: Place | None
    to: Place
    last: float  # Unix time of the last sample before
    first: float  # of the first one after
    cap: float | None = None  # the new one, None without


@dataclass(frozen=True)
class Check:
    """An application's response as predicted, and as observed, in seconds."""

    changes: tuple[Change, ...]
    app: str
    place: Place
    predicted: Predicted
    observed: float

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.observed <= self.predicted.high

    @property
    def error(self) -> float:
        """Relative to the observed response."""
        return abs(self.predicted.median - self.observed) / self.observed


@dataclass(frozen=True)
class Calibration:
    checks: tuple[Check, ...]

    @property
    def inside(self) -> float:
        """Share of the truths in their 90 % intervals."""
        return float(np.mean([each.inside for each in self.checks])) if self.checks else np.nan

    @property
    def error(self) -> float:
        return float(np.median([each.error for each in self.checks])) if self.checks else np.nan

    @property
    def widened(self) -> float:
        """How many times as wide as the model's the intervals have to be to have 90 % of these truths; at least 1."""
        steady = [each for each in self.checks if np.isfinite(each.predicted.high)]
        if len(steady) < ENOUGH:
            return 1.0
        needed = []
        for each in steady:
            bound = each.predicted.high if each.observed > each.predicted.median else each.predicted.low
            needed.append(np.log(each.observed / each.predicted.median) / np.log(bound / each.predicted.median))
        return max(1.0, float(np.quantile(needed, 0.9, method="inverted_cdf")))

    @property
    def reason_to_withhold(self) -> str | None:
        if len(self.checks) < ENOUGH or (self.error <= MAX_ERROR and self.inside >= MIN_INSIDE):
            return None
        return (
            f"of the last {len(self.checks)} predictions {self.inside:.0%} were right, and half were off by more than "
            f"{self.error:.0%}"
        )


def changes(reading: Reading) -> list[Change]:
    """Moves, starts and caps in the past, in the order of their times; raises `AdviceError`."""
    times = reading.times
    found: list[Change] = []
    by_guest: dict[tuple[str, str], dict[Place, Numbers]] = defaultdict(dict)
    for labels, values in reading.series(
        'group by (host, platform, vserver) (vserver:cpu_usage:rate{$hosts,role="guest"})'
    ):
        place = Place(labels["host"], labels["platform"])
        by_guest[place.platform, labels["vserver"]][place] = values
    for (_, name), on in by_guest.items():
        found += _moves(name, on, times)
    for labels, values in reading.series('vserver:cpu_limit:cpus{$hosts,role="guest"}'):
        place = Place(labels["host"], labels["platform"])
        there = by_guest.get((place.platform, labels["vserver"]), {}).get(place)
        if there is not None:
            caps = np.where(np.isnan(there), np.nan, np.where(np.isnan(values), np.inf, values))
            found += _caps(labels["vserver"], place, caps, times)
    return sorted(found, key=lambda each: each.first)


def _moves(name: str, on: dict[Place, Numbers], times: Numbers) -> Iterator[Change]:
    """From the host that it was on to the one that it is on next, whatever it was between.

    While guests of this name are on both for longer than a move takes, they are several, of which none was moved.
    """
    stays = []
    for place, values in on.items():
        there = np.flatnonzero(~np.isnan(values))
        parts = np.split(there, np.flatnonzero(np.diff(there) > 1) + 1)
        stays += [(part[0], part[-1], place) for part in parts if len(part)]
    stays.sort()
    moving = max(SETTLED, times[1] - times[0])  # seconds for which it may be recorded on both
    for (since, last, of), (first, _, to) in pairwise(stays):
        both = (times[min(ended, last)] - times[max(begun, since)] for begun, ended, at in stays if at == to)
        several = any(seconds > moving for seconds in both)
        if of != to and first > 0 and not several and -LONGEST <= times[first] - times[last] <= LONGEST:
            yield Change("move", name, of, to, min(times[last], times[first - 1]), max(times[last], times[first]))
    if stays and stays[0][0] > LONGEST / (times[1] - times[0]):
        first, _, to = stays[0]
        yield Change("start", name, None, to, times[first - 1], times[first])


def _caps(name: str, place: Place, caps: Numbers, times: Numbers) -> Iterator[Change]:
    """`caps` are infinite without one, NaN without the guest. One that a single sample has is none."""
    for before, after in pairwise(range(len(caps))):
        lasting = len(set(caps[max(0, before - 1) : after])) == len(set(caps[after : after + 2])) == 1
        if lasting and not np.isnan(caps[[before, after]]).any() and caps[before] != caps[after]:
            new = float(caps[after]) if np.isfinite(caps[after]) else None
            yield Change("cap", name, place, place, times[before], times[after], new)


@dataclass(frozen=True)
class Group:
    """Changes within a short time that concern the same hosts: nobody can tell what did what."""

    changes: tuple[Change, ...]
    hosts: frozenset[str]
    until: float  # Unix time of the last sample before another change of these hosts

    @property
    def last(self) -> float:
        """Of the last sample before them."""
        return self.changes[0].last

    @property
    def settled(self) -> float:
        return self.changes[-1].first + SETTLED


def together(found: Sequence[Change], apps: set[tuple[str, str]], end: float) -> list[Group]:
    """Changes in the order of their times as groups; `apps` are by host, `end` is when the last sample was."""
    groups: list[Group] = []
    for change in found:
        hosts = _concerned(change, apps)
        members: tuple[Change, ...] = (change,)
        for group in [each for each in groups if each.until == end and each.hosts & hosts]:
            groups.remove(group)
            if change.first <= group.settled:
                hosts, members = hosts | group.hosts, (*group.changes, *members)
            else:
                groups.append(replace(group, until=change.last))
        groups.append(Group(tuple(sorted(members, key=lambda each: each.first)), hosts, end))
    return sorted(groups, key=lambda each: each.last)


def _concerned(change: Change, apps: set[tuple[str, str]]) -> frozenset[str]:
    """The hosts of a change, and those of the other tiers of the applications there."""
    touched = {place.host for place in (change.of, change.to) if place}
    there = {app for host, app in apps if host in touched}
    return frozenset(touched | {host for host, app in apps if app in there})


def calibrate(reading: Reading, latest: int = LATEST) -> Calibration:
    """Predict the latest changes again; starts only if there are fewer moves and caps than `latest`.

    Raises `AdviceError` if Prometheus doesn't answer.
    """
    found = changes(reading)
    if not found:
        return Calibration(())
    known = replace(reading, past=2 * reading.past)  # as far back as an early change's own past
    tiers = "group by (host, app) (last_over_time(vserver:app:info{$hosts}[$past]))"
    apps = {(labels["host"], labels["app"]) for labels, _ in known.now(tiers)}
    groups = [each for each in together(found, apps, reading.at) if each.settled + reading.present <= each.until]
    groups.sort(key=lambda each: (any(change.kind != "start" for change in each.changes), each.last))
    chosen = sorted(groups[-latest:], key=lambda each: each.last)
    return Calibration(tuple(check for group in chosen for check in _checked(reading, group)))


def _checked(reading: Reading, group: Group) -> Iterator[Check]:
    try:
        seen = see(replace(reading, at=group.last, hosts=group.hosts))
    except AdviceError:
        return  # nothing was recorded yet
    later = replace(reading, at=group.settled + reading.present, hosts=group.hosts)
    pairs = [*_changed(seen, group.changes)]
    names = {(change.name, change.to) for change in group.changes if change.kind == "start"}
    started = [guest for guest in guests(later) if (guest.name, guest.place) in names and guest.place in seen.hosts]
    if not pairs and not started:
        return
    old, new = ([pair[which] for pair in pairs] for which in (0, 1))
    observed = answers(later)
    for outcome in Advisor(seen).option(old, new, (*new, *started)[0].place, started).outcomes:
        requests, seconds = observed.get((outcome.app.name, outcome.place), (0.0, 0.0))
        if abs(requests / outcome.app.requests - 1) <= SAME_LOAD:
            yield Check(group.changes, outcome.app.name, outcome.place, outcome.predicted, seconds)


def _changed(seen: Seen, group: tuple[Change, ...]) -> Iterator[tuple[Guest, Guest]]:
    """Guests before and after their moves and caps."""
    for change in group:
        for guest in seen.guests:
            if guest.name == change.name and guest.place == change.of and change.to in seen.hosts:
                cap = change.cap if change.kind == "cap" else guest.cap
                yield guest, replace(guest.limited(cap, guest.vcpus), place=change.to)
