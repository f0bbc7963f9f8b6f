"""Simulated hosts whose guests come and go: their exporters' pages at any moment, and the true values.

A host of each platform has slots for guests. In a slot, guests follow each other, for 30 s to an hour each: batch jobs,
replicas that share a few names, servers that are rebooted, one that migrates away and back, two with the same name.
Guests start and end anywhere between scrapes; each one's CPU usage changes every 20 s. The host itself uses a constant
amount plus a share of its guests' usage, like Dom0 for forwarding their packets.

Pure: seeded, no clock and no files. Times are seconds since the simulation began.
"""

import functools
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.hosts import Line, Target, Value
from virtscope.openvz.exporter import READ_SECONDS
from virtscope.toolkit.totals import CPU, Totals

PHASE = 20.0  # seconds for which a guest's CPU usage is constant
OWN = 0.4  # CPUs used by the host itself
SHARE = 0.06  # CPUs of host usage per CPU used by its guests
SERVICES = 0.5  # CPUs of a container host's own services, in a separate slice
CPUS = 24
RANGE = 120.0  # of a rate, in seconds
EVER = 1e9

XEN, KVM, OPENVZ, SLICES, CONTAINERS, BASE = "xen", "kvm", "openvz", "slices", "containers", "base"
"""The hosts: by default cAdvisor reports slices too; with --docker_only, containers only."""
HOSTS = (XEN, KVM, OPENVZ, SLICES, CONTAINERS, BASE)
PLATFORM = {XEN: "xen", KVM: "kvm", OPENVZ: "openvz", SLICES: "cgroup", CONTAINERS: "cgroup", BASE: "base"}


@dataclass(frozen=True)
class Life:
    """One life of a guest: a domain, or a container between its start and its stop."""

    name: str
    begun: float
    ended: float
    cpus: tuple[float, ...]  # usage for PHASE seconds each, repeated
    brought: float = 0.0  # initial CPU seconds: a migrated container keeps its counter
    names: tuple[tuple[float, str], ...] = ()  # earlier names in order, each with the time until which it is used

    def used(self, at: float) -> float:
        """CPU seconds used on this host until then."""
        age = min(max(at, self.begun), self.ended) - self.begun
        rounds, rest = divmod(age, PHASE * len(self.cpus))
        phases, part = divmod(rest, PHASE)
        whole = int(phases)
        in_round = sum(self.cpus[:whole]) * PHASE + (self.cpus[whole] * part if part else 0.0)
        return rounds * sum(self.cpus) * PHASE + in_round

    def alive(self, at: float) -> bool:
        return self.begun <= at < self.ended

    def called(self, at: float) -> str:
        return next((name for until, name in self.names if at < until), self.name)


@dataclass(frozen=True)
class Place:
    """Consecutive guests: names in turn, ranges of lifetimes and gaps, maximum CPU usage."""

    names: tuple[str, ...]
    lives: tuple[float, float]
    apart: tuple[float, float]
    cpus: float
    migrates: bool = False


PLACES = (
    # An application with servers that are rebooted and replicas that share three names.
    Place(("shop-1-web",), (700, 1500), (4, 15), 1.2),
    Place(("shop-1-db",), (1200, 3600), (4, 15), 1.0),
    Place(("shop-1-web-a", "shop-1-web-b", "shop-1-web-c"), (90, 600), (1, 40), 1.0),
    Place(("shop-1-web-d", "shop-1-web-e"), (60, 400), (1, 40), 1.0),
    # An application with only short jobs: the runners of a build server.
    *(Place(tuple(f"runner-{place}{turn}" for turn in "abc"), (30, 120), (1, 10), 0.8) for place in range(4)),
    # Guests without an application.
    *(Place((f"vm-{place}",), (300, 3600), (5, 60), 1.2) for place in range(5)),
    Place(("same-name",), (100, 500), (2, 30), 0.6),
    Place(("same-name",), (100, 500), (2, 30), 0.6),
    Place(("mover",), (150, 400), (60, 240), 0.8, migrates=True),
)
APPLICATIONS = {"shop-1": "shop-1-.+", "runners": "runner-.+"}


@dataclass(frozen=True)
class Host:
    """A host, and all lives on it in order of their start."""

    name: str
    lives: tuple[Life, ...]
    _known: dict[float, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def platform(self) -> str:
        return PLATFORM[self.name]

    def guests(self, at: float) -> float:
        """CPU seconds used by its guests until then, including ended ones."""
        if at not in self._known:
            self._known[at] = sum(life.used(at) for life in self.lives)
        return self._known[at]

    def application(self, pattern: str, at: float) -> float:
        prefix = pattern.removesuffix(".+")
        return sum(life.used(at) for life in self.lives if life.name.startswith(prefix))

    def itself(self, at: float) -> float:
        """CPU seconds of the host's own work: in Dom0, or in the kernel."""
        return OWN * (at + RANGE) + SHARE * self.guests(at)

    def services(self, at: float) -> float:
        """CPU seconds of processes on the host that are in no guest."""
        return SERVICES * (at + RANGE) if self.name in (SLICES, CONTAINERS) else 0.0

    def overhead(self, at: float) -> float:
        return self.itself(at) + (self.services(at) if self.name == CONTAINERS else 0.0)

    def all(self, at: float) -> float:
        return self.itself(at) + self.services(at) + self.guests(at)


def host(name: str, seed: int, seconds: float, places: Sequence[Place] = PLACES, load: float = 1.0) -> Host:
    """A host's history up to `seconds`."""
    if name == BASE:
        # The same work in short-lived processes.
        return Host(name, host(XEN, seed, seconds, places, load).lives)
    random_ = random.Random(f"{name} {seed}")
    lives = [life for place in places for life in _in_turn(place, random_, seconds, load, name)]
    return Host(name, tuple(sorted(lives, key=lambda life: life.begun)))


def _in_turn(place: Place, random_: random.Random, seconds: float, load: float, host: str) -> Iterator[Life]:
    names = itertools.cycle(place.names)
    # The first guest started before the simulation.
    begun = -3000.0 if place.migrates else -random_.uniform(0, place.lives[1])
    brought = 0.0
    while begun < seconds:
        name, ended = next(names), max(begun, 0.0) + random_.uniform(*place.lives)
        cpus = tuple(load * place.cpus * random_.uniform(0.2, 1) for _ in range(random_.randint(3, 9)))
        others: tuple[tuple[float, str], ...] = ()
        if place.migrates and host == XEN:
            # libxl's names for incoming domains, and for migrated ones.
            others = ((begun + 6, f"{name}--incoming"), (ended - 12, name), (EVER, f"{name}--migratedaway"))
        life = Life(name, begun, ended, cpus, brought if host == OPENVZ else 0.0, others)
        if life.ended > 0:
            yield life
        if place.migrates:
            brought = life.brought + life.used(ended) + 500
        begun = ended + random_.uniform(*place.apart)


def targets(host: Host) -> list[Target]:
    own: dict[str, tuple[str, Callable[[Host], Iterator[Line]]]] = {
        "xen": ("xentop", _xentop),
        "kvm": ("kvm", _kvm),
        "openvz": ("vestat", _vestat),
        "cgroup": ("cadvisor", _cadvisor),
    }
    found = []
    if host.platform in own:
        job, lines = own[host.platform]
        found.append(Target(job, host.name, host.platform, [*lines(host)]))
    if host.platform not in ("xen", "kvm"):
        found.append(Target("node", host.name, "base" if host.platform == "cgroup" else host.platform, [*_node(host)]))
    return found


def _while(life: Life, value: Callable[[float], float], name: str = "") -> Value:
    """A value while a guest lives and has this name."""
    return lambda at: value(at) if life.alive(at) and name in ("", life.called(at)) else None


def _xentop(host: Host) -> Iterator[Line]:
    yield f"xen_host_cpus {CPUS}"
    yield "xen_host_cpu_seconds_total", host.all
    yield 'xen_domain_cpu_seconds_total{domid="0",domain="Domain-0"}', lambda at: 5e4 + host.itself(at)
    for domid, life in enumerate(host.lives, start=1):
        for name in dict.fromkeys([*(name for _, name in life.names), life.name]):
            used = _while(life, life.used, name)
            yield f'xen_domain_cpu_seconds_total{{domid="{domid}",domain="{name}"}}', used


def _kvm(host: Host) -> Iterator[Line]:
    yield f"kvm_host_cpus {CPUS}"
    yield "kvm_host_cpu_seconds_total", lambda at: 5e4 + host.all(at)
    yield "kvm_host_guest_seconds_total", lambda at: 3e4 + host.guests(at)
    # Guest time is known to the end of each guest.
    overhead = _kept(host, SHARE / 2)
    yield "kvm_host_guests_cpu_seconds_total", lambda at: host.guests(at) + overhead(at)
    for pid, life in enumerate(host.lives, start=1000):
        # If two guests have the same name, their process ids are added meanwhile.
        others = [other for other in host.lives if other.name == life.name and other is not life]
        for name in [life.name, f"{life.name} ({pid})"] if others else [life.name]:
            labels = f'guest="{name}",pid="{pid}"'
            used = _while_shared(life, others, name != life.name)
            yield f"kvm_guest_guest_seconds_total{{{labels}}}", functools.partial(used, 1)
            # Half of the host's work for guests is done by their QEMUs.
            yield f"kvm_guest_cpu_seconds_total{{{labels}}}", functools.partial(used, 1 + SHARE / 2)


def _while_shared(life: Life, others: Sequence[Life], shared: bool) -> Callable[[float, float], float | None]:
    """A guest's usage times this factor, while another guest has its name, or while none has."""

    def used(times: float, at: float) -> float | None:
        so = life.alive(at) and any(other.alive(at) for other in others) == shared
        return times * life.used(at) if so else None

    return used


def _kept(host: Host, times: float) -> Callable[[float], float]:
    """All guests' usage times this factor, as an exporter keeps it that reads the guests at these times."""
    totals, last = Totals(), 0.0

    def used(at: float) -> float:
        nonlocal totals, last
        if at <= last:  # another history
            totals = Totals()
        last = at
        alive = {number: {CPU: times * life.used(at)} for number, life in enumerate(host.lives) if life.alive(at)}
        totals.add(alive, at, cpus=CPUS)
        return totals.values.get("cpu", 0.0)

    return used


def ctid(name: str) -> str:
    """A container's number: 101 to 199 for shop-1, 201 to 299 for runners, above that for guests without an
    application."""
    names = sorted({name for place in PLACES for name in place.names})
    hundred = 100 if name.startswith("shop-1") else 200 if name.startswith("runner") else 300
    return str(hundred + 1 + names.index(name))


def _vestat(host: Host) -> Iterator[Line]:
    yield "openvz_host_containers", lambda at: sum(life.alive(at) for life in host.lives)
    accounts: dict[str, list[Life]] = {}
    for life in host.lives:
        number = ctid(life.name)
        # Two with the same name are two containers.
        if any(life.begun < other.ended and other.begun < life.ended for other in accounts.get(number, ())):
            number += "9"
        accounts.setdefault(number, []).append(life)
    counters = {
        number: (
            _of_the_living(lives, lambda life, at: at - life.begun + (1e5 if life.brought else 0)),
            _of_the_living(lives, lambda life, at: life.brought + life.used(at)),
        )
        for number, lives in accounts.items()
    }
    yield "openvz_host_containers_cpu_seconds_total", _read_each_second(counters)
    for number, (uptime, used) in counters.items():
        yield f'openvz_container_cpu_used_seconds_total{{ctid="{number}"}}', used
        yield f'openvz_container_uptime_seconds{{ctid="{number}"}}', uptime


def _read_each_second(counters: Mapping[str, tuple[Value, Value]]) -> Value:
    """The exporter's total, which it reads half a second after each whole one: when some guests end."""
    totals = Totals(remembered=1)
    known = [0.0]

    def total(at: float) -> float:
        while len(known) * READ_SECONDS <= at:
            now = (len(known) - 0.5) * READ_SECONDS
            ages = {ctid: age for ctid, (uptime, _) in counters.items() if (age := uptime(now)) is not None}
            totals.add({ctid: {CPU: counters[ctid][1](now)} for ctid in ages}, now, ages=ages)
            known.append(totals.with_ends("cpu"))
        return known[int(max(at, 0) // READ_SECONDS)]

    return total


def _of_the_living(lives: Sequence[Life], value: Callable[[Life, float], float]) -> Value:
    return lambda at: next((value(life, at) for life in lives if life.alive(at)), None)


def _cadvisor(host: Host) -> Iterator[Line]:
    yield f"machine_cpu_cores {CPUS}"
    yield 'container_start_time_seconds{id="/"} 1e9'
    yield 'container_cpu_usage_seconds_total{id="/",cpu="total"}', host.all
    if host.name == SLICES:
        slices: dict[str, Value] = {
            "/system.slice": lambda at: 1e4 + host.services(at) + host.guests(at),
            "/system.slice/cron.service": lambda at: 1e3 + host.services(at),
            "/user.slice": lambda _: 3.0,
        }
        for cgroup, used in slices.items():
            yield f'container_start_time_seconds{{id="{cgroup}"}} 1e9'
            yield f'container_cpu_user_seconds_total{{id="{cgroup}"}}', used
            yield f'container_cpu_usage_seconds_total{{id="{cgroup}",cpu="total"}}', used
    for number, life in enumerate(host.lives):
        labels, used = f'id="{_cgroup(number)}",name="{life.name}"', _while(life, life.used)
        yield f"container_start_time_seconds{{{labels}}}", _while(life, functools.partial(_started, life))
        yield f"container_cpu_user_seconds_total{{{labels}}}", used
        yield f'container_cpu_usage_seconds_total{{{labels},cpu="total"}}', used


def _started(life: Life, _at: float) -> float:
    return 1e9 + life.begun


def _cgroup(number: int) -> str:
    return f"/system.slice/docker-{number:064x}.scope"


def _node(host: Host) -> Iterator[Line]:
    for cpu in range(2):
        yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="user"}}', lambda at: 5e4 + host.all(at) / 2
        yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="idle"}}', lambda at: 5e4 + (CPUS * at - host.all(at)) / 2


@dataclass(frozen=True)
class Truth:
    """The true value of a record: CPU seconds used until a time; the record is their rate over RANGE."""

    record: str
    labels: Mapping[str, str]
    used: Callable[[float], float]

    def rate(self, at: float) -> float:
        """CPUs used on average in the range before."""
        return (self.used(at) - self.used(at - RANGE)) / RANGE


def truths(host: Host) -> Iterator[Truth]:
    """The host's true values that records are compared with."""
    labels = {"host": host.name, "platform": host.platform}
    yield Truth("host:cpu_usage:rate", labels, host.all)
    if host.name != BASE:
        yield Truth("host:overhead_cpu:rate", labels, host.overhead)
        yield Truth("host:guests_cpu_usage:rate", labels, host.guests)
        for app, pattern in APPLICATIONS.items():
            used = functools.partial(host.application, pattern)
            yield Truth("app:cpu_usage:rate", {**labels, "app": app}, used)


def mapping() -> dict[str, object]:
    """Rules as written by `make rules`: the application of each virtual server."""
    numbers = {"shop-1": "1..", "runners": "2.."}
    rules = [
        {
            "record": "vserver:app:info",
            "expr": "group by (host, platform, vserver, role) ("
            f'vserver:cpu_usage:rate{{vserver=~"{pattern}|{numbers[app]}"}})',
            "labels": {"app": app, "tier": "web"},
        }
        for app, pattern in APPLICATIONS.items()
    ]
    return {"groups": [{"name": "objectives of churn", "rules": rules}]}
