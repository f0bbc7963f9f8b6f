"""What a Prometheus with virtscope's records knows at a time: hosts, guests and applications."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from advise import AdviceError
from advise.model import Past
from advise.past import MIN_REQUESTS, History, history
from advise.reading import Key, Place, Reading, answers, place_of, present_requests_query

DISK_OWN, DISK_NEIGHBOUR = "device", "neighbour"
IDLE = "it had no requests"
WEB = "web"  # the tier that answers


@dataclass(frozen=True)
class Host:
    """CPUs are those that a hypervisor below leaves to it; `deviation` is that of `used`, from sample to sample."""

    place: Place
    cpus: float
    used: float
    deviation: float = 0.0
    bursts: float = 1.0  # how many times as long as expected its guests wait
    memory_free: float | None = None  # bytes
    disk_busy: float | None = None  # seconds per second, of guests' requests; None if disks serve several at a time


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
    webs: tuple[str, ...] = ()  # those whose web tier it is
    disk_own: float | None = None  # seconds per second that the disk served its requests
    disk_waits: float = 0.0  # seconds per second for its neighbours' requests

    def limited(self, cap: float | None, vcpus: float | None) -> "Guest":
        """It with this cap and these vCPUs, of which it can't use more."""
        return replace(self, cap=cap, vcpus=vcpus, cpu=min(self.cpu, *(each for each in (cap, vcpus, np.inf) if each)))


@dataclass(frozen=True)
class App:
    """An application as the web tier on this host answers it."""

    name: str
    place: Place
    requests: float  # per second
    response: float  # mean seconds
    allowed: float | None  # mean seconds at which the first objective breaks; None without objectives
    guests: tuple[Guest, ...]  # that work for these requests, on whatever host
    served: tuple[float, ...]  # requests per second that each of them works for
    past: Past

    @property
    def work(self) -> tuple[float, ...]:
        """CPU seconds per request, of each guest."""
        return tuple(guest.cpu / requests for guest, requests in zip(self.guests, self.served, strict=True))


@dataclass(frozen=True)
class Seen:
    hosts: Mapping[Place, Host]
    guests: Sequence[Guest]
    apps: Sequence[App]
    unclear: Mapping[Key, str] = field(default_factory=dict)  # applications without a prediction, and why


def see(reading: Reading) -> Seen:
    """Raises `AdviceError` if Prometheus doesn't answer, or has no records of hosts."""
    mapped: dict[Key, dict[str, bool]] = defaultdict(dict)  # applications by guest, and whether it is their web tier
    tiers = "group by (host, platform, vserver, app, tier) (last_over_time(vserver:app:info{$hosts}[$past]))"
    for labels, _ in reading.now(tiers):
        apps = mapped[labels["vserver"], place_of(labels)]
        apps[labels["app"]] = apps.get(labels["app"], False) or labels["tier"] == WEB
    past = history(reading, mapped)
    hosts = {host.place: host for host in _hosts(reading, past.bursts)}
    if not hosts:
        raise AdviceError(f"no host:cpu_usage:rate before {reading.at:.0f}: are virtscope's rules loaded there?")
    there = [guest for guest in guests(reading, mapped) if guest.place in hosts]
    hosts = _with_present_guests(reading, hosts, there)
    busy: dict[Place, float] = defaultdict(float)
    for guest in there:
        if guest.disk_own is not None:
            busy[guest.place] += guest.disk_own
    hosts |= {at: replace(hosts[at], disk_busy=seconds) for at, seconds in busy.items() if seconds <= 1}
    found, unclear = [], {}
    for key, app in _apps(reading, there, past, _lost(mapped, there, hosts)):
        if isinstance(app, str):
            unclear[key] = app
        else:
            found.append(app)
    return Seen(hosts, there, found, unclear)


def _lost(mapped: Mapping[Key, Collection[str]], there: Sequence[Guest], hosts: Collection[Place]) -> dict[str, str]:
    """By application, a guest of it that is nowhere, as its host is no longer recorded."""
    names = {(guest.name, guest.place.platform) for guest in there}
    return {
        app: f"{name} on {at.host} is no longer recorded"
        for (name, at), apps in mapped.items()
        if at not in hosts and (name, at.platform) not in names
        for app in apps
    }


def _with_present_guests(reading: Reading, hosts: Mapping[Place, Host], there: Sequence[Guest]) -> dict[Place, Host]:
    """The hosts' CPU use as if the guests that are there now had been there for all of the present, and no others."""
    changes: dict[str, float] = defaultdict(float)  # by host: two platforms of it have the same CPUs
    for guest in there:
        changes[guest.place.host] += guest.cpu
    mean = _by_place(
        reading,
        'sum by (host, platform) (sum_over_time(vserver:cpu_usage:rate{$hosts,role="guest"}[$present]))'
        " / count_over_time(host:cpu_usage:rate{$hosts}[$present])",
    )
    for place, cpu in mean.items():
        changes[place.host] -= cpu
    return {place: replace(host, used=max(0.0, host.used + changes[place.host])) for place, host in hosts.items()}


def _by_place(reading: Reading, expr: str) -> dict[Place, float]:
    return {place_of(labels): value for labels, value in reading.now(expr)}


def _hosts(reading: Reading, bursts: Mapping[Place, float]) -> Iterator[Host]:
    cpus = _by_place(reading, "avg_over_time(host:cpu_capacity:cpus{$hosts}[$present])")
    steal = _by_place(reading, "avg_over_time(host:cpu_steal:rate{$hosts}[$present])")
    memory = _by_place(reading, "host:memory_available:bytes{$hosts}")
    varies = _by_place(reading, "stddev_over_time(host:cpu_usage:rate{$hosts}[$present])")
    used = _by_place(reading, "avg_over_time(host:cpu_usage:rate{$hosts}[$present]) and host:cpu_usage:rate{$hosts}")
    for at, its in used.items():
        if at in cpus:
            left = cpus[at] - steal.get(at, 0.0)
            yield Host(at, left, its, varies.get(at, 0.0), bursts.get(at, 1.0), memory.get(at))


def guests(reading: Reading, mapped: Mapping[Key, Mapping[str, bool]] | None = None) -> Iterator[Guest]:
    """Those of all hosts; `mapped` are a guest's applications, and whether it is their web tier.

    Raises `AdviceError`.
    """

    def by_guest(expr: str) -> dict[Key, float]:
        return {(labels["vserver"], place_of(labels)): value for labels, value in reading.now(expr)}

    memory = by_guest('avg_over_time(vserver:memory:bytes{$hosts,role="guest"}[$present])')
    caps = by_guest('vserver:cpu_limit:cpus{$hosts,role="guest"}')
    vcpus = by_guest("vserver:vcpus:count{$hosts}")
    qemu = by_guest("avg_over_time(vserver:overhead_cpu:rate{$hosts}[$present])")
    # Dom0 works for its guests. What a host of containers does beside them isn't for them.
    dom0 = _by_place(
        reading,
        'avg_over_time(host:overhead_cpu:rate{$hosts,platform="xen"}[$present])'
        " / (avg_over_time(host:guests_cpu_usage:rate{$hosts}[$present]) > 0)",
    )
    own, waits = (
        by_guest(
            "sum by (host, platform, vserver) "
            f'(avg_over_time(vserver:delay:rate{{$hosts,resource="disk",reason=~"{reasons}"}}[$present]))'
        )
        for reasons in (DISK_OWN, DISK_NEIGHBOUR)
    )
    usage = 'avg_over_time(vserver:cpu_usage:rate{$hosts,role="guest"}[$present]) and vserver:cpu_usage:rate{$hosts}'
    for key, cpu in by_guest(usage).items():
        name, at = key
        its = (mapped or {}).get(key, {})
        yield Guest(
            name,
            at,
            cpu,
            overhead=qemu.get(key, cpu * dom0.get(at, 0.0)),
            memory=memory.get(key),
            cap=caps.get(key),
            vcpus=vcpus.get(key),
            apps=tuple(sorted(its)),
            webs=tuple(sorted(app for app, web in its.items() if web)),
            disk_own=own.get(key),
            disk_waits=waits.get(key, 0.0),
        )


def _apps(
    reading: Reading, there: Sequence[Guest], past: History, lost: Mapping[str, str]
) -> Iterator[tuple[Key, App | str]]:
    """Each application at the host of its web tier, or why nothing can be said of it."""

    def by_app(expr: str) -> dict[Key, float]:
        return {(labels["app"], place_of(labels)): value for labels, value in reading.now(expr)}

    requests = by_app(present_requests_query("count"))
    answered = answers(reading)
    means = by_app('app:slo_threshold:seconds{$hosts,objective="mean"}')
    ratios = by_app(
        'max by (host, platform, app) (avg_over_time(app:slo_response:ratio{$hosts,objective!="mean"}[$present]))'
    )
    late = by_app('app:slo_threshold:seconds{$hosts,objective="latency"}')
    shares = by_app('app:slo_objective:ratio{$hosts,objective="latency"}')
    for key, rate in sorted(requests.items()):
        name, at = key
        webs = {of for (app, of), its_rate in requests.items() if app == name and its_rate > 0}
        its = [
            guest
            for guest in there
            if name in guest.apps
            and guest.place.platform == at.platform
            and (guest.place == at or guest.place not in webs)
        ]
        if rate <= 0:
            yield key, IDLE
        elif key not in answered:
            yield key, "all of its requests failed"
        elif name in lost:
            yield key, lost[name]
        elif not its:
            yield key, "no guest is known to be its: map its tiers in alerts/objectives/"
        elif sum(guest.cpu for guest in its) <= 0:
            yield key, "its guests used no CPU"
        elif name not in past.pasts:
            needed = f"{MIN_REQUESTS:g} requests and their CPU time"
            yield key, f"no interval of {reading.step:g} s with {needed} is recorded"
        else:
            response = answered[key][1]
            limits = [means[key]] if key in means else []
            if key in late and key in shares:
                number = rate * reading.present
                limits.append(_allowed(late[key], shares[key], ratios.get(key, 0.0), response, number))
            total = sum(its_rate for (app, _), its_rate in requests.items() if app == name)
            served = tuple(rate if guest.place == at else total for guest in its)
            yield key, App(name, at, rate, response, min(limits, default=None), tuple(its), served, past.pasts[name])
    counted, names = {(app, at.platform) for app, at in requests}, {(guest.name, guest.place) for guest in there}
    for labels, _ in reading.now("group by (host, platform, vserver, app) (vserver:app:info{$hosts})"):
        app, at = labels["app"], place_of(labels)
        if (labels["vserver"], at) in names and (app, at.platform) not in counted:
            yield (app, at), "nothing counts its requests"


def _allowed(late: float, share: float, ratio: float, response: float, requests: float) -> float:
    """The mean response at which an objective for a share of requests breaks, in seconds.

    late: seconds from which a request is late.
    share: of the requests that must not be.
    ratio: mean of app:slo_response:ratio, 0 if no request was late.
    requests: their number, of which none was late then: 3 / requests may be late with 95 % confidence.
    """
    if ratio > 0:
        return min(late, response / ratio)
    may_be_late = min(3 / requests, 0.5)
    by_tail, by_mean = np.log(may_be_late) / np.log(1 - share) * response, late / -np.log(1 - share)  # exponential
    return float(min(late, max(by_tail, by_mean)))
