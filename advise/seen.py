"""What a Prometheus with virtscope's records knows at a time: hosts, guests and applications."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from advise import AdviceError
from advise.model import Past
from advise.past import MIN_REQUESTS, History, history
from advise.reading import Key, Place, Reading, answers, place_of, requests_query

DISK_OWN, DISK_NEIGHBOUR = "device|self|throttled", "neighbour"
IDLE = "it had no requests"


@dataclass(frozen=True)
class Host:
    """CPUs are those that a hypervisor below leaves to it; `deviation` is that of `used`, from sample to sample."""

    place: Place
    cpus: float
    used: float
    deviation: float = 0.0
    bursts: float = 1.0  # how many times as long as expected its guests wait
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
    hosts: Mapping[Place, Host]
    guests: Sequence[Guest]
    apps: Sequence[App]
    unclear: Mapping[Key, str] = field(default_factory=dict)  # applications without a prediction, and why


def see(reading: Reading) -> Seen:
    """Raises `AdviceError` if Prometheus doesn't answer, or has no records of hosts."""
    mapped: dict[tuple[str, str], set[str]] = defaultdict(set)  # by platform and guest, so also while it is elsewhere
    for labels, _ in reading.now("group by (platform, vserver, app) (last_over_time(vserver:app:info{$hosts}[$past]))"):
        mapped[labels["platform"], labels["vserver"]].add(labels["app"])
    past = history(reading, mapped)
    hosts = {host.place: host for host in _hosts(reading, past.bursts)}
    if not hosts:
        raise AdviceError(f"no host:cpu_usage:rate before {reading.at:.0f}: are virtscope's rules loaded there?")
    there = [guest for guest in guests(reading, mapped) if guest.place in hosts]
    busy: dict[Place, float] = defaultdict(float)
    for guest in there:
        if guest.disk_own is not None:
            busy[guest.place] += guest.disk_own
    hosts |= {at: replace(hosts[at], disk_busy=seconds) for at, seconds in busy.items()}
    apps, unclear = [], {}
    for key, found in _apps(reading, there, past):
        if isinstance(found, str):
            unclear[key] = found
        else:
            apps.append(found)
    return Seen(hosts, there, apps, unclear)


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


def guests(reading: Reading, mapped: Mapping[tuple[str, str], set[str]] | None = None) -> Iterator[Guest]:
    """Those of all hosts; `mapped` are applications by platform and guest. Raises `AdviceError`."""

    def by_guest(expr: str) -> dict[Key, float]:
        return {(labels["vserver"], place_of(labels)): value for labels, value in reading.now(expr)}

    memory = by_guest('avg_over_time(vserver:memory:bytes{$hosts,role="guest"}[$present])')
    caps = by_guest('vserver:cpu_limit:cpus{$hosts,role="guest"}')
    vcpus = by_guest("vserver:vcpus:count{$hosts}")
    qemu = by_guest("avg_over_time(vserver:overhead_cpu:rate{$hosts}[$present])")
    # Dom0 works for its guests. What a host of containers does beside them isn't for them.
    dom0 = _by_place(reading, 'avg_over_time(host:overhead_per_guest_cpu:ratio{$hosts,platform="xen"}[$present])')
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
        apps = tuple(sorted((mapped or {}).get((at.platform, name), ())))
        overhead = qemu.get(key, cpu * dom0.get(at, 0.0))
        limits = caps.get(key), vcpus.get(key)
        yield Guest(name, at, cpu, overhead, memory.get(key), *limits, apps, own.get(key), waits.get(key, 0.0))


def _apps(reading: Reading, there: Sequence[Guest], past: History) -> Iterator[tuple[Key, App | str]]:
    """Each application at the host of its web tier, or why nothing can be said of it."""

    def by_app(expr: str) -> dict[Key, float]:
        return {(labels["app"], place_of(labels)): value for labels, value in reading.now(expr)}

    requests = by_app(requests_query("count", "$present"))
    answered = answers(reading)
    means = by_app('app:slo_threshold:seconds{$hosts,objective="mean"}')
    ratios = by_app(
        'max by (host, platform, app) (avg_over_time(app:slo_response:ratio{$hosts,objective!="mean"}[$present]))'
    )
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
        if rate <= 0 or key not in answered:
            yield key, IDLE
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
            if key in ratios:
                limits.append(response / ratios[key] if ratios[key] > 0 else np.inf)
            total = sum(its_rate for (app, _), its_rate in requests.items() if app == name)
            of = {guest.name: rate if guest.place == at else total for guest in its}
            allowed = min(limits, default=None)
            yield key, App(name, at, rate, response, allowed, tuple(its), of, past.pasts[name])
