"""What may be changed, and what each change would do to every application that it touches."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advise import AdviceError
from advise.model import DRAWS, SEED, Fit, Predicted, fit, predict
from advise.queueing import FULL, Numbers, delay
from advise.reading import Place
from advise.seen import IDLE, App, Guest, Host, Seen

HOST_NOISE = 0.05  # relative deviation of a host's CPU use from one minute to the next, at least
DISK_FULL = 0.95
WORTH = 0.1  # a move has to make requests this much faster: it costs something itself
WORSE = 1.01  # by less a change isn't to blame
BUSY = 0.01  # CPUs
CANDIDATES = 20  # hosts for which responses are predicted


@dataclass(frozen=True)
class Outcome:
    """An application's response time after a change, and what the same model says of the present."""

    app: App
    place: Place  # of its web tier, then
    now: Predicted
    predicted: Predicted

    @property
    def held(self) -> bool:
        """Whether its objectives hold now; also without any."""
        return self.app.allowed is None or self.app.response <= self.app.allowed

    @property
    def holds(self) -> bool:
        """Whether they will hold: in 19 of 20 cases if they do now, else in half of them."""
        if not np.isfinite(self.predicted.median):
            return False
        if self.app.allowed is None:
            return True
        return (self.predicted.high if self.held else self.predicted.median) <= self.app.allowed

    @property
    def repairs(self) -> bool:
        """Whether they are broken and will hold, and not just because the model finds that they hold now."""
        allowed = self.app.allowed
        return allowed is not None and not self.held and self.holds and self.now.median > allowed

    @property
    def breaks(self) -> bool:
        """Whether the change is to blame if they don't hold."""
        return not self.holds and self.predicted.median > WORSE * self.now.median


@dataclass(frozen=True)
class Option:
    """Guests on another host, or changed where they are; `limit` is what speaks against it, None if nothing does."""

    place: Place
    of: tuple[Place, ...]  # where the guests are now
    guests: tuple[Guest, ...]  # that are moved or changed, as they would be
    outcomes: tuple[Outcome, ...]  # of the applications that it touches
    limit: str | None

    @property
    def stays(self) -> bool:
        """Whether no guest is moved."""
        return all(of == self.place for of in self.of)

    @property
    def gain(self) -> float:
        """Seconds per second that requests will take less; negative if they take more."""
        pairs = [(each.app.requests, each.now.median, each.predicted.median) for each in self.outcomes]
        return sum(0.0 if now == then else requests * (now - then) for requests, now, then in pairs)

    @property
    def repairs(self) -> bool:
        """Whether an objective that is broken will hold again."""
        return any(each.repairs for each in self.outcomes)

    @property
    def worth(self) -> bool:
        """Whether requests gain by it, or an objective that is broken will hold again."""
        present = sum(each.app.requests * each.now.median for each in self.outcomes)
        return self.limit is None and (self.gain > WORTH * present or bool(np.isinf(self.gain)) or self.repairs)


class Advisor:
    """Predicts changes of what was seen. `widened` is how many times as wide as the model's intervals have to be."""

    def __init__(self, seen: Seen, widened: float = 1.0, fits: dict[str, Fit] | None = None) -> None:
        self.seen = seen
        self._widened = widened
        # Filled when needed: a change touches few of a fleet's applications.
        self._fits = {} if fits is None else fits
        self._now: dict[Hashable, Predicted] = {}
        self._then: dict[Hashable, Predicted] = {}  # with the latest guests elsewhere: all guests' would be too many
        self._same: dict[str, list[Place]] = defaultdict(list)
        for place in seen.hosts:
            self._same[place.host].append(place)
        self._apps: dict[str, list[App]] = defaultdict(list)  # by host with one of their guests
        for app in seen.apps:
            for host in {guest.place.host for guest in app.guests}:
                self._apps[host].append(app)
        chance = np.random.default_rng(SEED)
        self._draws = {place: chance.standard_normal(DRAWS) for place in sorted(seen.hosts)}

    def find(self, name: str, on: str | None = None) -> Guest:
        """`on` is a host, or HOST/PLATFORM. Raises `AdviceError` if there is no such guest, or several."""
        found = [
            each
            for each in self.seen.guests
            if each.name == name and on in (None, each.place.host, "/".join(each.place))
        ]
        if not found:
            raise AdviceError(f"no guest {name} is recorded{f' on {on}' if on else ''} in the past minutes")
        if len(found) > 1:
            several = len({each.place.host for each in found}) < len(found)  # platforms of one host
            places = ["/".join(each.place) if several else each.place.host for each in found]
            raise AdviceError(f"{name} is on {', '.join(places)}: say which, such as by --on {places[0]}")
        return found[0]

    def unclear(self, guests: Sequence[Guest]) -> list[str]:
        """Which of their applications can't be predicted, and why."""
        own = {(app, guest.place) for guest in guests for app in guest.apps}
        webs = {(app.name, app.place) for app in self.seen.apps} | set(self.seen.unclear)
        elsewhere = {app for app, place in own if (app, place) not in webs}  # they work for a web tier elsewhere
        return [
            f"{app} on {at.host}: {why}"
            for (app, at), why in self.seen.unclear.items()
            if why != IDLE and ((app, at) in own or app in elsewhere)
        ]

    def unknown(self, option: Option) -> list[str]:
        """What may speak against an option and isn't recorded, apart from the guests' own applications."""
        touched = {place.host for place in (option.place, *option.of)}
        own = {app for guest in option.guests for app in guest.apps}
        found = [
            f"response of {app} on {at.host}: {why}"
            for (app, at), why in self.seen.unclear.items()
            if at.host in touched and app not in own and why != IDLE
        ]
        if not option.stays:
            host = self.seen.hosts[option.place]
            if host.memory_free is None:
                found.append(f"free memory of {host.place.host}")
            if host.disk_busy is None and any(guest.disk_own for guest in option.guests):
                found.append(f"disks of {host.place.host}")
            found += [f"memory of {guest.name}" for guest in option.guests if guest.memory is None]
        return found

    def places(self, platform: str) -> list[Place]:
        return sorted(place for place in self.seen.hosts if place.platform == platform)

    def where(self, guests: Sequence[Guest], places: Sequence[Place] | None = None) -> list[Option]:
        """Each host of their platform with these guests on it, the best first.

        What fits comes before what doesn't, and what repairs an objective before what only makes requests faster.
        """
        [now] = {guest.place for guest in guests}
        self._then.clear()
        options = []
        found = self.places(now.platform) if places is None else places
        for place in self._likely(guests, found):
            moved = tuple(replace(guest, place=place) for guest in guests)
            options.append(self.option(guests, moved, place))
        return sorted(options, key=lambda each: (each.limit is not None, not each.repairs, -each.gain))

    def _likely(self, guests: Sequence[Guest], places: Sequence[Place]) -> Sequence[Place]:
        """These places; of many the present one, and those with the most free CPUs where the guests have room."""
        if len(places) <= CANDIDATES:
            return places

        def rank(place: Place) -> tuple[bool, bool, float]:
            host = self._changed(guests, [replace(guest, place=place) for guest in guests])[place]
            return place != guests[0].place, _limit(host, comes=True) is not None, host.used - host.cpus

        return sorted(places, key=rank)[:CANDIDATES]

    def after(self, option: Option) -> "Advisor":
        """What to advise once its guests are as it says."""
        keys = [(guest.name, of) for guest, of in zip(option.guests, option.of, strict=True)]
        by_key = {(each.name, each.place): each for each in self.seen.guests}
        before = [by_key[key] for key in keys]
        changed = dict(zip(keys, option.guests, strict=True))

        def new(guest: Guest) -> Guest:
            return changed.get((guest.name, guest.place), guest)

        apps = [
            replace(app, place=_place(app, before, option.guests), guests=tuple(map(new, app.guests)))
            for app in self.seen.apps
        ]
        hosts = {**self.seen.hosts, **self._changed(before, option.guests)}
        seen = replace(self.seen, hosts=hosts, guests=[new(each) for each in self.seen.guests], apps=apps)
        return Advisor(seen, self._widened, self._fits)

    def option(
        self, before: Sequence[Guest], after: Sequence[Guest], place: Place, started: Sequence[Guest] = ()
    ) -> Option:
        """These guests as they are now, and as they would be; and guests that would start."""
        changed = {(old.name, old.place): new for old, new in zip(before, after, strict=True)}
        hosts = {**self.seen.hosts, **self._changed(before, [*after, *started])}
        touched = {each.place.host for each in (*before, *after, *started)}
        apps = {(app.name, app.place): app for host in touched for app in self._apps[host]}.values()
        outcomes = tuple(
            Outcome(
                app,
                _place(app, before, after),
                self._response(app, {}, self.seen.hosts),
                self._response(app, changed, hosts),
            )
            for app in sorted(apps, key=lambda app: (app.name, app.place))
        )
        comes = any(old.place != new.place for old, new in zip(before, after, strict=True))
        limit = _limit(hosts[place], comes=comes)
        if limit is None and (broken := [each.app.name for each in outcomes if each.breaks]):
            limit = f"objective of {', '.join(sorted(broken))}"
        return Option(place, tuple(each.place for each in before), tuple(after), outcomes, limit)

    def _response(self, app: App, changed: Mapping[tuple[str, Place], Guest], hosts: Mapping[Place, Host]) -> Predicted:
        """Of an application when hosts and some guests are like this."""
        its = [(guest, changed.get((guest.name, guest.place), guest)) for guest in app.guests]
        state = (app.name, app.place, *((new, hosts[new.place]) for _, new in its))
        known = self._now if hosts is self.seen.hosts else self._then
        if state in known:
            return known[state]
        expected = sum(
            delay(
                work,
                new.cpu,
                cap=np.nan if new.cap is None else new.cap,
                vcpus=np.nan if new.vcpus is None else new.vcpus,
                used=self._used(hosts[new.place]),
                cpus=hosts[new.place].cpus,
                bursts=hosts[new.place].bursts,
            )
            for work, (_, new) in zip(app.work, its, strict=True)
        )
        change = sum(
            _disk_change(guest, self.seen.hosts[guest.place], hosts[new.place]) / requests
            for requests, (guest, new) in zip(app.served, its, strict=True)
        )
        if app.name not in self._fits:
            self._fits[app.name] = fit(app.past)
        known[state] = predict(self._fits[app.name], sum(app.work), expected, change, self._widened)
        return known[state]

    def _changed(self, before: Sequence[Guest], after: Sequence[Guest]) -> dict[Place, Host]:
        """The hosts with these guests as they are after, no longer as before; a guest's overhead goes with it.

        A host with two platforms, such as one of virtual machines and containers, has the same CPUs and memory in both.
        """
        hosts: dict[Place, Host] = {}
        for sign, guests in ((-1, before), (1, after)):
            for guest in guests:
                memory, disk = guest.memory or 0.0, guest.disk_own or 0.0
                for place in self._same[guest.place.host]:
                    host = hosts.get(place) or self.seen.hosts[place]
                    hosts[place] = replace(
                        host,
                        used=max(0.0, host.used + sign * (guest.cpu + guest.overhead)),
                        memory_free=None if host.memory_free is None else host.memory_free - sign * memory,
                        disk_busy=None if host.disk_busy is None else max(0.0, host.disk_busy + sign * disk),
                    )
        return hosts

    def _used(self, host: Host) -> Numbers:
        deviation = np.hypot(host.deviation, HOST_NOISE * host.used)
        used: Numbers = np.maximum(host.used + deviation * self._draws[host.place], 0.0)
        return used


def _limit(host: Host, *, comes: bool) -> str | None:
    """The exhausted resource of the host; memory and disk count only if guests come there."""
    if comes and host.memory_free is not None and host.memory_free < 0:
        return "memory"
    if host.used >= FULL * host.cpus:
        return "cpu"
    if comes and (host.disk_busy or 0.0) >= DISK_FULL:
        return "disk"
    return None


def _disk_change(guest: Guest, here: Host, there: Host) -> float:
    """How much longer its requests will wait for neighbours' at the disk, in seconds per second."""
    if guest.disk_own is None or here.disk_busy is None or there.disk_busy is None:
        return 0.0  # unknown there: as here
    now, then = _queue(here.disk_busy - guest.disk_own), _queue(there.disk_busy - guest.disk_own)
    if now > 0 and guest.disk_waits > 0:
        return guest.disk_waits * (then / now - 1)
    return guest.disk_own * (then - now)


def _queue(busy: float) -> float:
    possible = min(max(busy, 0.0), DISK_FULL)
    return possible / (1 - possible)


def _place(app: App, before: Sequence[Guest], after: Sequence[Guest]) -> Place:
    """Of the application's web tier after a change."""
    went = [
        new.place for old, new in zip(before, after, strict=True) if old.place == app.place and app.name in old.webs
    ]
    return went[0] if went else app.place
