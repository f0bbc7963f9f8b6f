"""Hosts of one CPU whose requests take as long as an M/M/1 queue says, as records that the rules would write."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

STEP = 60  # seconds
PLATFORM = "kvm"


@dataclass(frozen=True)
class Site:
    """An application with one guest, `NAME-web` if it isn't named."""

    name: str
    requests: float  # per second
    work: float  # CPU seconds per request
    rest: float = 0.0  # seconds per request that no CPU shortens
    memory: float = 1e9
    allowed: float = 0.1  # seconds
    bursts: float = 1.0  # how many times as long as with arrivals at random requests wait

    vserver: str = ""

    @property
    def guest(self) -> str:
        return self.vserver or f"{self.name}-web"


@dataclass
class World:
    """`places` says at each time which host each site is on; one that isn't named doesn't run."""

    sites: Sequence[Site]
    hosts: Sequence[str] = ("a", "b")
    memory_free: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0.05
    varies: float = 0.2
    """How much load varies, relatively."""
    slow: Mapping[str, float] = field(default_factory=dict)
    """Seconds that requests take longer on a host for reasons that nothing records."""
    uncounted: frozenset[str] = frozenset()
    """Sites whose requests nothing counts."""
    failing: frozenset[str] = frozenset()
    """Sites that answer all requests with an error."""
    caps: Sequence[tuple[int, Mapping[str, float]]] = ()
    """Unix times from which on sites have these caps, in CPUs."""

    def used(self, on: Mapping[str, str], load: float = 1.0) -> dict[str, float]:
        """CPUs of each host."""
        return {
            host: sum(load * site.requests * site.work for site in self.sites if on.get(site.name) == host)
            for host in self.hosts
        }

    def response(self, site: Site, on: Mapping[str, str], load: float = 1.0, cap: float = 1.0) -> float:
        """Mean seconds: M/M/1 with processor sharing, T = S / (1 - rho), and the rest.

        With a cap there is a slower queue, before CPUs that are as fast: short requests fit into its quota.
        """
        busy = self.used(on, load)[on[site.name]]
        queue = site.bursts * site.work * busy / (1 - busy)
        if cap < 1:
            own = load * site.requests * site.work / cap
            queue = max(queue, site.work / cap * own / (1 - own))
        return site.work + site.rest + queue + self.slow.get(on[site.name], 0.0)

    def samples(self, end: int, seconds: int, moves: Sequence[tuple[int, Mapping[str, str]]]) -> Iterator[str]:
        """OpenMetrics of all records. moves: Unix times from which on the sites are on these hosts."""
        series: dict[str, list[str]] = {}

        def add(name: str, value: float, at: int, **labels: str) -> None:
            text = ",".join(f'{label}="{its}"' for label, its in {**labels, "platform": PLATFORM}.items())
            series.setdefault(f"{name}{{{text}}}", []).append(f"{value:.9g} {at}")

        chance = random.Random(1)
        for at in range(end - seconds, end + 1, STEP):
            on = [where for since, where in moves if since <= at][-1]
            load = chance.uniform(1 - self.varies, 1 + self.varies)
            for host, used in self.used(on, load).items():
                add("host:cpu_usage:rate", used, at, host=host)
                add("host:cpu_capacity:cpus", 1, at, host=host)
                if host in self.memory_free:
                    add("host:memory_available:bytes", self.memory_free[host], at, host=host)
            capped = [of for since, of in ((0, dict[str, float]()), *self.caps) if since <= at][-1]
            for number, site in enumerate(self.sites):
                if site.name not in on:
                    continue
                where = {"host": on[site.name]}
                guest = {**where, "vserver": site.guest, "role": "guest"}
                cap = capped.get(site.name, 1.0)
                response = self.response(site, on, load, cap) * chance.gauss(1, self.noise)
                rate = load * site.requests
                add("vserver:cpu_usage:rate", rate * site.work, at, **guest)
                add("group:mapped_cpu_usage:rate", rate * site.work, at, **guest)
                add("vserver:memory:bytes", site.memory, at, **guest)
                if cap < 1:
                    add("vserver:cpu_limit:cpus", cap, at, **guest)
                add("kvm_guest_info", 1, at, **where, guest=site.guest, manager="proxmox", id=str(100 + number))
                add("vserver:app:info", 1, at, **guest, app=site.name, tier="web")
                if site.name in self.uncounted:
                    continue
                status = "5xx" if site.name in self.failing else "2xx"
                web = {**where, "app": site.name, "tier": "web", "status": status}
                add("requests:duration_seconds_count:rate1m", rate, at, **web)
                add("requests:duration_seconds_sum:rate1m", rate * response, at, **web)
                add("app:slo_threshold:seconds", site.allowed, at, **where, app=site.name, objective="mean")
        names = sorted({name.partition("{")[0] for name in series})
        for name in names:
            yield f"# TYPE {name} gauge\n"
            for labels, values in series.items():
                if labels.startswith(f"{name}{{"):
                    yield "".join(f"{labels} {value}\n" for value in values)
