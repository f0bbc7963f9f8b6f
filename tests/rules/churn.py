"""Simulated hosts whose guests come and go: what their exporters show at any moment, and the true values.

A host of each platform has slots for guests. In a slot one guest follows another, for 30 s to an hour each: batch jobs,
replicas that share a few names, servers that are rebooted, one that migrates away and back, two with the same name.
Guests start and end anywhere between scrapes; each one's CPU usage changes every 20 s. The host itself uses a constant
amount and a share of what its guests use, as Dom0 does to forward their packets.

Pure: seeded, no clock and no files. Times are seconds since the simulation began.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

PHASE = 20.0  # seconds for which a guest's CPU usage is constant
OWN = 0.4  # CPUs that the host uses, whatever its guests do
SHARE = 0.06  # CPUs that it uses in addition for each CPU used by its guests
SERVICES = 0.5  # CPUs of a container host's own services, in their own slice
CPUS = 24
MINUTE = 60.0  # the range of a rate
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
    cpus: tuple[float, ...]  # its usage, PHASE seconds each, repeated
    brought: float = 0.0  # CPU seconds on its counter at the start: a container that migrates keeps its counter
    names: tuple[tuple[float, str], ...] = ()  # other names, each with the time until which it is used, in order

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
    """Guests that follow one another: their names in turn, ranges of lifetimes and of gaps, maximum CPU usage."""

    names: tuple[str, ...]
    lives: tuple[float, float]
    apart: tuple[float, float]
    cpus: float
    migrates: bool = False


PLACES = (
    # An application whose servers are rebooted, and whose replicas share three names.
    Place(("shop-1-web",), (700, 1500), (4, 15), 1.2),
    Place(("shop-1-db",), (1200, 3600), (4, 15), 1.0),
    Place(("shop-1-web-a", "shop-1-web-b", "shop-1-web-c"), (90, 600), (1, 40), 1.0),
    Place(("shop-1-web-d", "shop-1-web-e"), (60, 400), (1, 40), 1.0),
    # Another, of short jobs only: the runners of a build server.
    *(Place(tuple(f"runner-{place}{turn}" for turn in "abc"), (30, 120), (1, 10), 0.8) for place in range(4)),
    # Of no application.
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
        """CPU seconds used by its guests until then, ended ones included."""
        if at not in self._known:
            self._known[at] = sum(life.used(at) for life in self.lives)
        return self._known[at]

    def application(self, pattern: str, at: float) -> float:
        prefix = pattern.removesuffix(".+")
        return sum(life.used(at) for life in self.lives if life.name.startswith(prefix))

    def itself(self, at: float) -> float:
        """CPU seconds of the host's own work: in Dom0, or in the kernel."""
        return OWN * (at + MINUTE) + SHARE * self.guests(at)

    def services(self, at: float) -> float:
        """CPU seconds of processes on the host that are in no guest."""
        return SERVICES * (at + MINUTE) if self.name in (SLICES, CONTAINERS) else 0.0

    def overhead(self, at: float) -> float:
        return self.itself(at) + (self.services(at) if self.name == CONTAINERS else 0.0)

    def all(self, at: float) -> float:
        return self.itself(at) + self.services(at) + self.guests(at)


def host(name: str, seed: int, seconds: float, places: Sequence[Place] = PLACES, load: float = 1.0) -> Host:
    """A host's history up to `seconds`."""
    if name == BASE:
        # The same work, by processes that come and go.
        return Host(name, host(XEN, seed, seconds, places, load).lives)
    random_ = random.Random(f"{name} {seed}")
    lives = [life for place in places for life in _in_turn(place, random_, seconds, load, name)]
    return Host(name, tuple(sorted(lives, key=lambda life: life.begun)))


def _in_turn(place: Place, random_: random.Random, seconds: float, load: float, host: str) -> Iterator[Life]:
    names = itertools.cycle(place.names)
    # The first guest has been running for some time.
    begun = -3000.0 if place.migrates else -random_.uniform(0, place.lives[1])
    brought = 0.0
    while begun < seconds:
        name, ended = next(names), max(begun, 0.0) + random_.uniform(*place.lives)
        cpus = tuple(load * place.cpus * random_.uniform(0.2, 1) for _ in range(random_.randint(3, 9)))
        others: tuple[tuple[float, str], ...] = ()
        if place.migrates and host == XEN:
            # libxl's names for incoming domains, and for those that have migrated away.
            others = ((begun + 6, f"{name}--incoming"), (ended - 12, name), (EVER, f"{name}--migratedaway"))
        life = Life(name, begun, ended, cpus, brought if host == OPENVZ else 0.0, others)
        if life.ended > 0:
            yield life
        if place.migrates:
            brought = life.brought + life.used(ended) + 500
        begun = ended + random_.uniform(*place.apart)


@dataclass(frozen=True)
class Watching:
    """How hosts are watched: seconds between scrapes, and when scrapes fail.

    phase: time of the first scrape; evaluations are at whole intervals, which real scrapes never coincide with.
    failed: by job, periods in which its exporter doesn't answer; away: periods in which Prometheus doesn't run.
    """

    scrape: int
    seconds: int
    phase: int = 0
    failed: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    away: Sequence[tuple[float, float]] = ()

    @property
    def times(self) -> range:
        return range(self.phase, self.seconds + 1, self.scrape)

    @property
    def interval(self) -> int:
        """promtool's interval between values of a series: each scrape is at a multiple of it."""
        return math.gcd(self.scrape, self.phase)

    def values(self, job: str, value: Callable[[float], float | None]) -> str:
        """The values of a series of this job in promtool's notation; empty if no scrape sees it."""
        out: list[str] = []
        there = False
        for at in self.times:
            if _within(at, self.away):
                out.append("_")
                continue
            failed = _within(at, self.failed.get(job, ()))
            now = None if failed else value(at)
            out.append(f"{now:.6f}" if now is not None else "stale" if there else "_")
            there = now is not None
        if not any(value[0].isdigit() for value in out):
            return ""
        between = self.scrape // self.interval - 1
        before = self.phase // self.interval
        return f"{f'_x{before} ' if before else ''}{(f' _x{between} ' if between else ' ').join(out)}"


def _within(at: float, stretches: Iterable[tuple[float, float]]) -> bool:
    return any(begin <= at < end for begin, end in stretches)


@dataclass(frozen=True)
class Series:
    """A series of an exporter; its value at a time, None where it isn't there."""

    job: str
    platform: str  # of the target
    metric: str
    labels: str
    value: Callable[[float], float | None]

    @property
    def name(self) -> str:
        return f"{self.metric}{{{self.labels}}}"


def all_series(host: Host) -> Iterator[Series]:
    """All series of the host's exporters."""
    if host.platform == "xen":
        yield from _xentop(host)
    elif host.platform == "kvm":
        yield from _kvm(host)
    elif host.platform == "openvz":
        yield from _vestat(host)
    elif host.platform == "cgroup":
        yield from _cadvisor(host)
    if host.platform not in ("xen", "kvm"):
        yield from _node(host)


def exposed(host: Host, watching: Watching, series: Iterable[Series] | None = None) -> Iterator[tuple[str, str]]:
    """All series of the host, or these, and `up` of its targets; with their stored values in promtool's notation."""
    given = list(all_series(host) if series is None else series)
    targets = dict.fromkeys((each.job, each.platform) for each in given)
    up = [Series(job, platform, "up", "", lambda _: 1) for job, platform in targets]
    for each in [*up, *given]:
        target = f'host="{host.name}",platform="{each.platform}",job="{each.job}",instance="{host.name}:{each.job}"'
        if values := watching.values(each.job, each.value):
            yield f"{each.metric}{{{f'{target},{each.labels}'.removesuffix(',')}}}", values


def _xentop(host: Host) -> Iterator[Series]:
    series = functools.partial(Series, "xentop", host.platform)
    yield series("xentop_up", "", lambda _: 1)
    yield series("xen_host_cpus", "", lambda _: CPUS)
    yield series("xen_domain_cpu_seconds_total", 'domid="0",domain="Domain-0"', lambda at: 5e4 + host.itself(at))
    for domid, life in enumerate(host.lives, start=1):
        for name in dict.fromkeys([*(name for _, name in life.names), life.name]):

            def there(at: float, life: Life = life, name: str = name) -> float | None:
                return life.used(at) if life.alive(at) and life.called(at) == name else None

            yield series("xen_domain_cpu_seconds_total", f'domid="{domid}",domain="{name}"', there)


def _kvm(host: Host) -> Iterator[Series]:
    series = functools.partial(Series, "kvm", host.platform)
    yield series("kvm_up", "", lambda _: 1)
    yield series("kvm_host_cpus", "", lambda _: CPUS)
    yield series("kvm_host_cpu_seconds_total", "", lambda at: 5e4 + host.all(at))
    yield series("kvm_host_guest_seconds_total", "", lambda at: 3e4 + host.guests(at))
    for pid, life in enumerate(host.lives, start=1000):
        # Two with one name have their process's number added, while both are there.
        others = [other for other in host.lives if other.name == life.name and other is not life]
        for name in [life.name, f"{life.name} ({pid})"] if others else [life.name]:

            def used(at: float, life: Life = life, name: str = name, others: Sequence[Life] = others) -> float | None:
                shared = any(other.alive(at) for other in others)
                return life.used(at) if life.alive(at) and shared == (name != life.name) else None

            def all_of_it(at: float, used: Callable[[float], float | None] = used) -> float | None:
                # Half of what the host does for guests is done by their QEMUs.
                return None if (computed := used(at)) is None else (1 + SHARE / 2) * computed

            labels = f'guest="{name}",pid="{pid}"'
            yield series("kvm_guest_guest_seconds_total", labels, used)
            yield series("kvm_guest_cpu_seconds_total", labels, all_of_it)


def ctid(name: str) -> str:
    """A container's number: 101 to 199 for shop-1, 201 to 299 for runners, above that for guests of no application."""
    names = sorted({name for place in PLACES for name in place.names})
    hundred = 100 if name.startswith("shop-1") else 200 if name.startswith("runner") else 300
    return str(hundred + 1 + names.index(name))


def _vestat(host: Host) -> Iterator[Series]:
    series = functools.partial(Series, "vestat", host.platform)
    yield series("vestat_up", "", lambda _: 1)
    yield series("openvz_host_containers", "", lambda at: sum(life.alive(at) for life in host.lives))
    accounts: dict[str, list[Life]] = {}
    for life in host.lives:
        number = ctid(life.name)
        # Two with the same name are two containers.
        if any(life.begun < other.ended and other.begun < life.ended for other in accounts.get(number, ())):
            number += "9"
        accounts.setdefault(number, []).append(life)
    for number, lives in accounts.items():

        def now(at: float, lives: list[Life] = lives) -> Life | None:
            return next((life for life in lives if life.alive(at)), None)

        def used(at: float, now: Callable[[float], Life | None] = now) -> float | None:
            return life.brought + life.used(at) if (life := now(at)) else None

        def uptime(at: float, now: Callable[[float], Life | None] = now) -> float | None:
            return at - life.begun + (1e5 if life.brought else 0) if (life := now(at)) else None

        yield series("openvz_container_cpu_used_seconds_total", f'ctid="{number}"', used)
        yield series("openvz_container_uptime_seconds", f'ctid="{number}"', uptime)


def _cadvisor(host: Host) -> Iterator[Series]:
    series = functools.partial(Series, "cadvisor", host.platform)
    yield series("machine_cpu_cores", "", lambda _: CPUS)
    yield series("container_start_time_seconds", 'id="/"', lambda _: 1e9)
    yield series("container_cpu_usage_seconds_total", 'id="/",cpu="total"', host.all)
    if host.name == SLICES:
        slices = {
            "/system.slice": lambda at: 1e4 + host.services(at) + host.guests(at),
            "/system.slice/cron.service": lambda at: 1e3 + host.services(at),
            "/user.slice": lambda _: 3.0,
        }
        for cgroup, used in slices.items():
            yield series("container_start_time_seconds", f'id="{cgroup}"', lambda _: 1e9)
            yield series("container_cpu_user_seconds_total", f'id="{cgroup}"', used)
            yield series("container_cpu_usage_seconds_total", f'id="{cgroup}",cpu="total"', used)
    for number, life in enumerate(host.lives):

        def used_by(at: float, life: Life = life) -> float | None:
            return life.used(at) if life.alive(at) else None

        def started(at: float, life: Life = life) -> float | None:
            return 1e9 + life.begun if life.alive(at) else None

        labels = f'id="/system.slice/docker-{number:064x}.scope",name="{life.name}"'
        yield series("container_start_time_seconds", labels, started)
        yield series("container_cpu_user_seconds_total", labels, used_by)
        yield series("container_cpu_usage_seconds_total", f'{labels},cpu="total"', used_by)


def _node(host: Host) -> Iterator[Series]:
    series = functools.partial(Series, "node", "base" if host.platform == "cgroup" else host.platform)
    for cpu in range(2):
        yield series("node_cpu_seconds_total", f'cpu="{cpu}",mode="user"', lambda at: 5e4 + host.all(at) / 2)
        yield series(
            "node_cpu_seconds_total", f'cpu="{cpu}",mode="idle"', lambda at: 5e4 + (CPUS * at - host.all(at)) / 2
        )


def counted(host: Host, watching: Watching) -> Iterator[Series]:
    """What perf-exporter counts on a container host: a billion instructions for each CPU second used.

    It discovers a container at a scrape and counts its events from then on; their first sample is at the next scrape.
    """
    series = functools.partial(Series, "perf", "base")
    for cpu in range(2):
        labels = f'cpu="{cpu}",group="cache",pmu="",event="instructions"'
        yield series("perf_events_total", labels, lambda at: host.all(at) * 1e9 / 2)
    for number, life in enumerate(host.lives):
        found = next((at for at in watching.times if life.alive(at)), None)
        if found is None:
            continue

        def running(at: float, life: Life = life, found: float = found) -> float | None:
            return life.used(at) - life.used(found) if life.alive(at) else None

        def instructions(at: float, life: Life = life, found: float = found) -> float | None:
            return (life.used(at) - life.used(found)) * 1e9 if life.alive(at) and at > found else None

        cgroup = f'cgroup="/system.slice/docker-{number:064x}.scope",group="cache",pmu=""'
        yield series("perf_cgroup_group_running_seconds_total", cgroup, running)
        yield series("perf_cgroup_events_total", f'{cgroup},event="instructions"', instructions)


WAITED = 0.1  # seconds that the container `victim` waits for each CPU second that another one uses
VICTIM = f"/system.slice/docker-{10**6:064x}.scope"


def waited(host: Host) -> Iterator[Series]:
    """What sched-exporter shows of a container host where one container, which stays, waits while others run.

    A pair is shown from the scrape that finds it, with all that was waited until then, and while what ran is there.
    """
    cadvisor = functools.partial(Series, "cadvisor", host.platform)
    yield cadvisor("container_start_time_seconds", f'id="{VICTIM}",name="victim"', lambda _: 1e9)
    series = functools.partial(Series, "sched", "base")
    yield series("sched_switches_total", "", lambda at: 1e6 + 3e4 * at)
    yield series("sched_waits_total", f'cgroup="{VICTIM}"', lambda at: 1e4 + 100 * at)
    for number, life in enumerate(host.lives):
        cgroup = f"/system.slice/docker-{number:064x}.scope"

        def there(at: float, life: Life = life) -> float | None:
            return 1 if life.alive(at) else None

        def ran(at: float, life: Life = life) -> float | None:
            return WAITED * life.used(at) if life.alive(at) else None

        yield series("sched_waits_total", f'cgroup="{cgroup}"', there)
        yield series("sched_wait_seconds_total", f'cgroup="{VICTIM}",running="{cgroup}"', ran)


@dataclass(frozen=True)
class Truth:
    """The truth about a record: CPU seconds used until a time; the record is their rate over a minute."""

    record: str
    labels: Mapping[str, str]
    used: Callable[[float], float]

    def minute(self, at: float) -> float:
        """CPUs used on average in the minute before."""
        return (self.used(at) - self.used(at - MINUTE)) / MINUTE


def truths(host: Host) -> Iterator[Truth]:
    """The truths about the host that records are compared with."""
    labels = {"host": host.name, "platform": host.platform}
    yield Truth("host:cpu_usage:rate", labels, host.all)
    if host.name != BASE:
        yield Truth("host:overhead_cpu:rate", labels, host.overhead)
        yield Truth("host:guests_cpu_usage:rate", labels, host.guests)
        for app, pattern in APPLICATIONS.items():
            used = functools.partial(host.application, pattern)
            yield Truth("app:cpu_usage:rate", {**labels, "app": app}, used)


def truths_of_instructions(host: Host) -> Iterator[Truth]:
    """The same for instructions, a billion for each CPU second: of the whole machine, and of the host itself."""
    labels = {"host": host.name, "platform": host.platform}
    yield Truth("host:instructions:rate", labels, lambda at: 1e9 * host.all(at))
    own = {**labels, "vserver": host.name, "role": "host"}
    yield Truth("vserver:instructions:rate", own, lambda at: 1e9 * (host.itself(at) + host.services(at)))


def mapping() -> dict[str, object]:
    """Rules as `make rules` writes them: which virtual servers belong to which application."""
    numbers = {"shop-1": "1..", "runners": "2.."}
    return {
        "groups": [
            {
                "name": "objectives of churn",
                "rules": [
                    {
                        "record": "vserver:app:info",
                        "expr": "group by (host, platform, vserver, role) ("
                        f'vserver:cpu_usage:rate{{vserver=~"{pattern}|{numbers[app]}"}})',
                        "labels": {"app": app, "tier": "web"},
                    }
                    for app, pattern in APPLICATIONS.items()
                ],
            }
        ]
    }
