"""What a Prometheus with virtscope's records knows: hosts, guests, applications, and the applications' past."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from advise import AdviceError
from advise.model import Past
from advise.queueing import Numbers, delay
from deploy.api import Api, Unanswered

SAMPLES = 288  # of the past: with a day, one every five minutes
SHORTEST_STEP = 30.0  # seconds
SETTLED = 150.0  # seconds after which rates over two minutes are those of a new state
MIN_REQUESTS = 10.0  # in a step: fewer say little about their mean
DISK_OWN, DISK_NEIGHBOUR = "device|self|throttled", "neighbour"


class Place(NamedTuple):
    """A host as one platform sees it."""

    host: str
    platform: str


@dataclass(frozen=True)
class Host:
    """CPUs are those that a hypervisor below leaves to it; `deviation` is that of `used`, from sample to sample."""

    place: Place
    cpus: float
    used: float
    deviation: float = 0.0
    memory_free: float | None = None  # bytes
    disk_busy: float | None = None  # seconds per second, of guests' requests


@dataclass(frozen=True)
class Guest:
    name: str
    place: Place
    cpu: float  # CPUs
    overhead: float = 0.0  # CPUs that the host spends on it, and another one would
    memory: float | None = None  # bytes
    cap: float | None = None  # CPUs
    vcpus: float | None = None
    apps: tuple[str, ...] = ()
    disk_own: float | None = None  # seconds per second that the disk served its requests
    disk_waits: float = 0.0  # seconds per second for its neighbours' requests


@dataclass(frozen=True)
class App:
    """An application as the web tier on this host answers it."""

    name: str
    place: Place
    requests: float  # per second
    response: float  # mean seconds
    allowed: float | None  # mean seconds at which the first objective breaks; None without objectives
    guests: tuple[Guest, ...]  # that work for these requests, on whatever host
    requests_of: Mapping[str, float]  # requests per second that each of them works for, by its name
    past: Past

    def work(self, guest: Guest) -> float:
        """CPU seconds per request."""
        return guest.cpu / self.requests_of[guest.name]


@dataclass(frozen=True)
class Seen:
    at: float  # Unix time
    hosts: Mapping[Place, Host]
    guests: Sequence[Guest]
    apps: Sequence[App]
    unclear: Mapping[tuple[str, Place], str] = field(
        default_factory=dict
    )  # applications without advice, and the reason


@dataclass(frozen=True)
class Reading:
    """A Prometheus at a time, over a present and a past before it, in seconds."""

    api: Api
    at: float
    present: float
    past: float

    @property
    def step(self) -> float:
        return max(SHORTEST_STEP, self.past / SAMPLES)

    @property
    def times(self) -> Numbers:
        """Of the values in `series`."""
        count = round(self.past / self.step) + 1
        return np.linspace(self.at - (count - 1) * self.step, self.at, count)

    def now(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """An instant query; $present in it is the present. Raises `AdviceError`."""
        query = expr.replace("$present", _duration(self.present))
        return [(series["metric"], float(series["value"][1])) for series in self._result("query", query, time=self.at)]

    def series(self, expr: str) -> list[tuple[dict[str, str], Numbers]]:
        """Values of the past, NaN where there is none; raises `AdviceError`."""
        times = self.times
        query = expr.replace("$step", _duration(self.step))
        result = []
        for series in self._result("query_range", query, start=times[0], end=times[-1], step=self.step):
            values = np.full(len(times), np.nan)
            for time, value in series["values"]:
                values[round((float(time) - times[0]) / self.step)] = float(value)
            result.append((series["metric"], values))
        return result

    def _result(self, kind: str, query: str, **times: float) -> list[Any]:
        try:
            asked = {name: f"{value:.3f}" for name, value in times.items()}
            return list(self.api.data(f"/api/v1/{kind}", query=query, **asked)["result"])
        except Unanswered as error:
            raise AdviceError(str(error)) from None


def _earlier(values: Numbers, intervals: int) -> Numbers:
    """What was so many intervals before each value, NaN before the first one."""
    return np.concatenate([np.full(intervals, np.nan), values[: len(values) - intervals]])


def _duration(seconds: float) -> str:
    """In PromQL, whose durations have no fractions."""
    return f"{round(seconds * 1000)}ms"


def see(reading: Reading) -> Seen:
    """Raises `AdviceError` if Prometheus doesn't answer, or has no records of hosts."""
    mapped: dict[tuple[str, str], set[str]] = defaultdict(set)  # by platform and guest, so also while it is elsewhere
    for labels, _ in reading.now(
        f"group by (platform, vserver, app) (last_over_time(vserver:app:info[{_duration(reading.past)}]))"
    ):
        mapped[labels["platform"], labels["vserver"]].add(labels["app"])
    hosts = {host.place: host for host in _hosts(reading)}
    if not hosts:
        raise AdviceError(f"no host:cpu_usage:rate before {reading.at:.0f}: are virtscope's rules loaded there?")
    there = [guest for guest in guests(reading, mapped) if guest.place in hosts]
    busy: dict[Place, float] = defaultdict(float)
    for guest in there:
        if guest.disk_own is not None:
            busy[guest.place] += guest.disk_own
    hosts |= {place: replace(hosts[place], disk_busy=seconds) for place, seconds in busy.items()}
    apps, unclear = [], {}
    for key, found in _apps(reading, there, mapped):
        if isinstance(found, str):
            unclear[key] = found
        else:
            apps.append(found)
    return Seen(reading.at, hosts, there, apps, unclear)


def _place(labels: Mapping[str, str]) -> Place:
    return Place(labels["host"], labels["platform"])


def _by_place(reading: Reading, expr: str) -> dict[Place, float]:
    return {_place(labels): value for labels, value in reading.now(expr)}


def _hosts(reading: Reading) -> Iterator[Host]:
    cpus = _by_place(reading, "avg_over_time(host:cpu_capacity:cpus[$present])")
    steal = _by_place(reading, "avg_over_time(host:cpu_steal:rate[$present])")
    memory = _by_place(reading, "host:memory_available:bytes")
    varies = _by_place(reading, "stddev_over_time(host:cpu_usage:rate[$present])")
    for place, used in _by_place(
        reading, "avg_over_time(host:cpu_usage:rate[$present]) and host:cpu_usage:rate"
    ).items():
        if place in cpus:
            left = cpus[place] - steal.get(place, 0.0)
            yield Host(place, left, used, varies.get(place, 0.0), memory.get(place))


def guests(reading: Reading, mapped: Mapping[tuple[str, str], set[str]] | None = None) -> Iterator[Guest]:
    """Those of all hosts; `mapped` are applications by platform and guest. Raises `AdviceError`."""

    def by_guest(expr: str) -> dict[tuple[Place, str], float]:
        return {(_place(labels), labels["vserver"]): value for labels, value in reading.now(expr)}

    memory = by_guest('avg_over_time(vserver:memory:bytes{role="guest"}[$present])')
    caps = by_guest('vserver:cpu_limit:cpus{role="guest"}')
    vcpus = by_guest("vserver:vcpus:count")
    qemu = by_guest("avg_over_time(vserver:overhead_cpu:rate[$present])")
    # Dom0 works for its guests. What a host of containers does beside them isn't for them.
    dom0 = _by_place(reading, 'avg_over_time(host:overhead_per_guest_cpu:ratio{platform="xen"}[$present])')
    own, waits = (
        by_guest(
            "sum by (host, platform, vserver) "
            f'(avg_over_time(vserver:delay:rate{{resource="disk",reason=~"{reasons}"}}[$present]))'
        )
        for reasons in (DISK_OWN, DISK_NEIGHBOUR)
    )
    usage = 'avg_over_time(vserver:cpu_usage:rate{role="guest"}[$present]) and vserver:cpu_usage:rate'
    for (place, name), cpu in by_guest(usage).items():
        key = place, name
        apps = tuple(sorted((mapped or {}).get((place.platform, name), ())))
        limits = caps.get(key), vcpus.get(key)
        overhead = qemu.get(key, cpu * dom0.get(place, 0.0))
        yield Guest(name, place, cpu, overhead, memory.get(key), *limits, apps, own.get(key), waits.get(key, 0.0))


_ANSWERED = ',status!~"1xx|5xx"'


def _requests(what: str, time: str, status: str = "") -> str:
    of = f'requests:duration_seconds_{what}:rate1m{{tier="web"{status}}}'
    return f"sum by (host, platform, app) (avg_over_time({of}[{time}]))"


def answers(reading: Reading) -> dict[tuple[str, Place], tuple[float, float]]:
    """Requests per second that each web tier answered, and their mean seconds; raises `AdviceError`."""
    count, seconds = (
        {
            (labels["app"], _place(labels)): value
            for labels, value in reading.now(_requests(what, "$present", _ANSWERED))
        }
        for what in ("count", "sum")
    )
    return {key: (rate, seconds[key] / rate) for key, rate in count.items() if rate > 0 and seconds.get(key, 0.0) > 0}


def _apps(
    reading: Reading, there: Sequence[Guest], mapped: Mapping[tuple[str, str], set[str]]
) -> Iterator[tuple[tuple[str, Place], App | str]]:
    """Each application at the host of its web tier, or why nothing can be said of it."""

    def by_app(expr: str) -> dict[tuple[str, Place], float]:
        return {(labels["app"], _place(labels)): value for labels, value in reading.now(expr)}

    requests = by_app(_requests("count", "$present"))
    answered = answers(reading)
    means = by_app('app:slo_threshold:seconds{objective="mean"}')
    ratios = by_app('max by (host, platform, app) (avg_over_time(app:slo_response:ratio{objective!="mean"}[$present]))')
    pasts = _pasts(reading, mapped)
    for key, rate in sorted(requests.items()):
        name, place = key
        its = [guest for guest in there if name in guest.apps and guest.place.platform == place.platform]
        webs = {of for (app, of), its_rate in requests.items() if app == name and its_rate > 0}
        its = [guest for guest in its if guest.place == place or guest.place not in webs]
        if rate <= 0 or key not in answered:
            yield key, "it had no requests"
        elif not its:
            yield key, "no guest is known to be its: map its tiers in alerts/objectives/"
        elif sum(guest.cpu for guest in its) <= 0:
            yield key, "its guests used no CPU"
        elif name not in pasts:
            yield (
                key,
                f"no interval of {reading.step:g} s with {MIN_REQUESTS:g} requests and their CPU time is recorded",
            )
        else:
            response = answered[key][1]
            limits = [means[key]] if key in means else []
            if key in ratios:
                limits.append(response / ratios[key] if ratios[key] > 0 else np.inf)
            allowed = min(limits, default=None)
            total = sum(its_rate for (app, _), its_rate in requests.items() if app == name)
            of = {guest.name: rate if guest.place == place else total for guest in its}
            yield key, App(name, place, rate, response, allowed, tuple(its), of, pasts[name])


@dataclass(frozen=True)
class _Recorded:
    """What was recorded at the times of a reading."""

    requests: Mapping[tuple[str, Place], Numbers]  # per second, by application
    response: Mapping[tuple[str, Place], Numbers]
    used: Mapping[Place, Numbers]  # CPUs
    cpus: Mapping[Place, Numbers]
    cpu: Mapping[tuple[Place, str], Numbers]  # by guest
    cap: Mapping[tuple[Place, str], Numbers]
    vcpus: Mapping[tuple[Place, str], Numbers]
    settled: int  # intervals after which rates are those of a guest that has come

    def rows(self, app: str, place: Place, guests: Collection[str], enough: float) -> Past | None:
        """The intervals in which the web tier on this host answered `enough` requests per second; None without any."""
        rate = self.requests[app, place]
        everywhere = np.sum([np.nan_to_num(each) for (of, _), each in self.requests.items() if of == app], axis=0)
        work, expected, copies = np.zeros_like(rate), np.zeros_like(rate), np.zeros_like(rate)
        none = np.full_like(rate, np.nan)
        known = np.isfinite(_earlier(rate, self.settled))
        for (of, guest), cpu in self.cpu.items():
            if of.platform != place.platform or guest not in guests or of not in self.used:
                continue
            # A guest beside another web tier of the application works for that one.
            served = (
                rate
                if of == place
                else np.where(np.nan_to_num(self.requests.get((app, of), none)) > 0, np.nan, everywhere)
            )
            part = np.divide(cpu, served, out=none.copy(), where=served > 0)
            there, settled = np.isfinite(part), np.isfinite(_earlier(part, self.settled))
            cap, vcpus = (most.get((of, guest), none) for most in (self.cap, self.vcpus))
            used, cpus = self.used[of], self.cpus[of]
            wait = delay(np.nan_to_num(part), np.nan_to_num(cpu), cap=cap, vcpus=vcpus, used=used, cpus=cpus)
            work += np.where(there, part, 0.0)
            expected += np.where(there, wait, 0.0)
            copies += there
            known &= ~there | settled
        response = self.response[app, place]
        # While a guest is moved, it is seen on both hosts.
        known &= (rate >= enough) & (response > 0) & (work > 0) & ~np.isnan(expected) & (copies <= len(guests))
        return Past(response[known], work[known], expected[known]) if known.any() else None


def _pasts(reading: Reading, mapped: Mapping[tuple[str, str], set[str]]) -> dict[str, Past]:
    """By application, wherever it was: each of its intervals on each host of its web tier."""

    def by(expr: str, *labels: str) -> dict[Any, Numbers]:
        found = reading.series(expr)
        return {(*(each[label] for label in labels), _place(each)): values for each, values in found}

    def by_place(expr: str) -> dict[Place, Numbers]:
        return {place: values for (place,), values in by(expr).items()}

    def by_guest(expr: str) -> dict[tuple[Place, str], Numbers]:
        return {(place, guest): values for (guest, place), values in by(expr, "vserver").items()}

    answered, seconds = (by(_requests(what, "$step", _ANSWERED), "app") for what in ("count", "sum"))
    steal = by_place("avg_over_time(host:cpu_steal:rate[$step])")
    cpus = by_place("avg_over_time(host:cpu_capacity:cpus[$step])")
    used = by_place("avg_over_time(host:cpu_usage:rate[$step])")
    recorded = _Recorded(
        by(_requests("count", "$step"), "app"),
        {
            key: np.divide(seconds[key], rate, where=rate > 0, out=rate * np.nan)
            for key, rate in answered.items()
            if key in seconds
        },
        {place: values for place, values in used.items() if place in cpus},
        {place: values - np.nan_to_num(steal.get(place, 0.0 * values)) for place, values in cpus.items()},
        by_guest("avg_over_time(group:mapped_cpu_usage:rate[$step])"),
        by_guest("vserver:cpu_limit:cpus"),
        by_guest("vserver:vcpus:count"),
        math.ceil(SETTLED / reading.step),
    )
    pasts: dict[str, list[Past]] = defaultdict(list)
    for app, place in recorded.response:
        guests = {guest for (platform, guest), apps in mapped.items() if platform == place.platform and app in apps}
        if (app, place) in recorded.requests and (
            found := recorded.rows(app, place, guests, MIN_REQUESTS / reading.step)
        ):
            pasts[app].append(found)
    return {
        app: Past(
            *(np.concatenate(each) for each in zip(*((one.response, one.work, one.waiting) for one in of), strict=True))
        )
        for app, of in pasts.items()
    }
