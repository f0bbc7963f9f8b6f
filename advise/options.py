"""What may be changed, and what each change would do to every application that it touches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advise import AdviceError
from advise.model import DRAWS, SEED, Fit, Predicted, fit, predict
from advise.queueing import FULL, Numbers, delay
from advise.reading import Place
from advise.seen import App, Guest, Host, Seen

HOST_NOISE = 0.05  # relative deviation of a host's CPU use from one minute to the next, at least
DISK_FULL = 0.95
WORTH = 0.1  # a move has to make requests this much faster: it costs something itself
BUSY = 0.01  # CPUs


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
        if self.app.allowed is None:
            return bool(np.isfinite(self.predicted.median))
        return (self.predicted.high if self.held else self.predicted.median) <= self.app.allowed

    @property
    def breaks(self) -> bool:
        """Whether the change is to blame if they don't hold."""
        return not self.holds and self.predicted.median > self.now.median


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
    def worth(self) -> bool:
        """Whether requests gain by it, or an objective that is broken will hold again."""
        present = sum(each.app.requests * each.now.median for each in self.outcomes)
        return self.limit is None and (
            self.gain > WORTH * present
            or np.isinf(self.gain)
            or any(not each.held and each.holds for each in self.outcomes)
        )


class Advisor:
    """Predicts changes of what was seen. `widened` is how many times as wide as the model's intervals have to be."""

    def __init__(self, seen: Seen, widened: float = 1.0) -> None:
        self.seen = seen
        self._widened = widened
        # Filled when needed: a change touches few of a fleet's applications.
        self._fits: dict[str, Fit] = {}
        self._now: dict[tuple[str, Place], Predicted] = {}
        chance = np.random.default_rng(SEED)
        self._draws = {place: chance.standard_normal(DRAWS) for place in sorted(seen.hosts)}

    def find(self, name: str, host: str | None = None) -> Guest:
        """Raises `AdviceError` if there is no such guest, or several."""
        found = [each for each in self.seen.guests if each.name == name and host in (None, each.place.host)]
        if not found:
            raise AdviceError(f"no guest {name} is recorded{f' on {host}' if host else ''} in the past minutes")
        if len({each.place for each in found}) > 1:
            raise AdviceError(f"{name} is on {', '.join(each.place.host for each in found)}: say which, by --on HOST")
        return found[0]

    def unclear(self, guests: Sequence[Guest]) -> list[str]:
        """Which of their applications can't be predicted, and why."""
        apps = {app for guest in guests for app in guest.apps}
        return [f"{app} on {at.host}: {why}" for (app, at), why in self.seen.unclear.items() if app in apps]

    def places(self, platform: str) -> list[Place]:
        return sorted(place for place in self.seen.hosts if place.platform == platform)

    def where(self, guests: Sequence[Guest], places: Sequence[Place] | None = None) -> list[Option]:
        """Each host of their platform with these guests on it, the best first: what fits before what doesn't."""
        [now] = {guest.place for guest in guests}
        options = []
        for place in places or self.places(now.platform):
            moved = tuple(replace(guest, place=place) for guest in guests)
            options.append(self.option(guests, moved, place))
        return sorted(options, key=lambda each: (each.limit is not None, -each.gain))

    def after(self, option: Option) -> "Advisor":
        """What to advise once its guests are as it says."""
        before = [self.find(each.name, of.host) for each, of in zip(option.guests, option.of, strict=True)]
        changed = dict(zip(((each.name, each.place) for each in before), option.guests, strict=True))

        def new(guest: Guest) -> Guest:
            return changed.get((guest.name, guest.place), guest)

        guests = [new(each) for each in self.seen.guests]
        hosts = {}
        for place, host in self._hosts(guests).items():
            comes = sum(each.memory or 0.0 for each in option.guests if each.place == place)
            goes = sum(each.memory or 0.0 for each in before if each.place == place)
            free = None if host.memory_free is None else host.memory_free + goes - comes
            busy = sum(each.disk_own or 0.0 for each in guests if each.place == place)
            hosts[place] = replace(host, memory_free=free, disk_busy=None if host.disk_busy is None else busy)
        apps = [
            replace(app, place=_place(app, before, option.guests), guests=tuple(map(new, app.guests)))
            for app in self.seen.apps
        ]
        return Advisor(replace(self.seen, hosts=hosts, guests=guests, apps=apps), self._widened)

    def option(
        self, before: Sequence[Guest], after: Sequence[Guest], place: Place, started: Sequence[Guest] = ()
    ) -> Option:
        """These guests as they are now, and as they would be; and guests that would start."""
        changed = dict(zip(((each.name, each.place) for each in before), after, strict=True))
        guests = [*(changed.get((each.name, each.place), each) for each in self.seen.guests), *started]
        touched = {each.place for each in (*before, *after, *started)}
        outcomes = tuple(
            Outcome(app, _place(app, before, after), self._present(app), self._response(app, guests))
            for app in self.seen.apps
            if any(each.place in touched for each in app.guests)
        )
        limit = self._limit(before, after, guests, place)
        same = list(before) == list(after)
        if limit is None and (
            broken := [each.app.name for each in outcomes if (not each.held if same else each.breaks)]
        ):
            limit = f"objective of {', '.join(sorted(broken))}"
        return Option(place, tuple(each.place for each in before), tuple(after), outcomes, limit)

    def _present(self, app: App) -> Predicted:
        key = app.name, app.place
        if key not in self._now:
            self._now[key] = self._response(app, self.seen.guests)
        return self._now[key]

    def _response(self, app: App, guests: Sequence[Guest]) -> Predicted:
        """Of an application when all guests are like this."""
        by_name = {(each.name, each.place.platform): each for each in guests}
        hosts = self._hosts(guests)
        its = [(guest, by_name[guest.name, guest.place.platform]) for guest in app.guests]
        expected = sum(
            delay(
                app.work(guest),
                new.cpu,
                cap=np.nan if new.cap is None else new.cap,
                vcpus=np.nan if new.vcpus is None else new.vcpus,
                used=self._used(hosts[new.place]),
                cpus=hosts[new.place].cpus,
                bursts=hosts[new.place].bursts,
            )
            for guest, new in its
        )
        change = sum(self._disk_change(guest, new, guests) / app.requests_of[guest.name] for guest, new in its)
        work = sum(app.work(guest) for guest in app.guests)
        if app.name not in self._fits:
            self._fits[app.name] = fit(app.past)
        return predict(self._fits[app.name], work, np.broadcast_to(expected, DRAWS), change, self._widened)

    def _used(self, host: Host) -> Numbers:
        deviation = np.hypot(host.deviation, HOST_NOISE * host.used)
        used: Numbers = np.maximum(host.used + deviation * self._draws[host.place], 0.0)
        return used

    def _hosts(self, after: Sequence[Guest]) -> dict[Place, Host]:
        """All hosts with these guests: a guest's overhead goes with it."""
        added = dict.fromkeys(self.seen.hosts, 0.0)
        for sign, guests in ((1, after), (-1, self.seen.guests)):
            for guest in guests:
                added[guest.place] += sign * (guest.cpu + guest.overhead)
        return {
            place: replace(host, used=max(0.0, host.used + added[place])) for place, host in self.seen.hosts.items()
        }

    def _disk_change(self, before: Guest, after: Guest, guests: Sequence[Guest]) -> float:
        """How much longer its requests will wait for neighbours' at the disk, in seconds per second."""
        if before.disk_own is None or self.seen.hosts[after.place].disk_busy is None:
            return 0.0  # unknown there: as here
        there = _queue(sum(each.disk_own or 0.0 for each in guests if each.place == after.place and each is not after))
        here = _queue(
            sum(each.disk_own or 0.0 for each in self.seen.guests if each.place == before.place and each is not before)
        )
        if here > 0 and before.disk_waits > 0:
            return before.disk_waits * (there / here - 1)
        return before.disk_own * (there - here)

    def _limit(
        self, before: Sequence[Guest], after: Sequence[Guest], guests: Sequence[Guest], place: Place
    ) -> str | None:
        """The resource of the host that they would use up, if they come there."""
        come = [new for old, new in zip(before, after, strict=True) if old.place != new.place]
        host = self._hosts(guests)[place]
        if come and host.memory_free is not None and sum(each.memory or 0.0 for each in come) > host.memory_free:
            return "memory"
        if host.used >= FULL * host.cpus:
            return "cpu"
        if come and sum(each.disk_own or 0.0 for each in guests if each.place == place) >= DISK_FULL:
            return "disk"
        return None


def _queue(busy: float) -> float:
    return min(busy, DISK_FULL) / (1 - min(busy, DISK_FULL))


def _place(app: App, before: Sequence[Guest], after: Sequence[Guest]) -> Place:
    """Of the application's web tier after a change: it goes with the guests that it has there."""
    went = [
        new.place for old, new in zip(before, after, strict=True) if old.place == app.place and app.name in old.apps
    ]
    return went[0] if went else app.place
