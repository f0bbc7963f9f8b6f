"""The events on the simulated hosts of the proof, generated from a seed.

Times are seconds since the story's begin; whatever exists at the begin started long before.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle

PLATFORMS = ("xen", "kvm", "openvz", "cgroup")
LONG_AGO = -86_400.0
NEVER = float("inf")
GUESTS = (5, 10)  # per host at first: minimum, maximum
APPLICATIONS = 2  # each with its web tier on one host and its database on another
CHANGE_SECONDS = 150.0  # mean time between two guest changes of a host
INCIDENT_SECONDS = 200.0  # long enough for alerts with `for` of two minutes
INCIDENT_EVERY = 45.0

Interval = tuple[float, float]


@dataclass(frozen=True)
class Life:
    """A guest until it ends or is renamed. `number` is its domid, PID or cgroup; its counters started at `born`."""

    number: int
    name: str
    born: float
    factor: float  # of all its counters' rates, so that guests differ
    begin: float
    end: float = NEVER
    crashed: Interval | None = None


@dataclass
class Host:
    """A host's guests and incidents. `app` is the application whose requests are counted here, or None."""

    name: str
    platform: str
    factor: float
    lives: list[Life]
    down: Interval | None = None  # nothing on it answers
    failing: Interval | None = None  # its exporter can't read its source
    app: str = ""
    tiers: bool = False  # has application tiers, so it stays up and they keep running

    def changes(self) -> list[float]:
        """Sorted times of changes other than growing counters."""
        found = {time for life in self.lives for time in (life.begin, life.end, *(life.crashed or ()))}
        found |= {time for interval in (self.down, self.failing) for time in interval or ()}
        return sorted(time for time in found if LONG_AGO < time < NEVER)


def tell(seed: int, names: Sequence[str], seconds: float, pairs: Sequence[tuple[str, str]], quiet: float) -> list[Host]:
    """The hosts of these names and their story of this many seconds; nothing changes in the first ones.

    pairs: the hosts of each application's web tier and database.
    """
    chance = random.Random(seed)
    platforms = cycle(PLATFORMS)
    hosts = [_host(chance, name, next(platforms)) for name in names]
    by_name = {host.name: host for host in hosts}
    for number, (web, db) in enumerate(pairs, 1):
        by_name[web].app = f"auction-{number}"
        for name, tier in ((web, "web"), (db, "db")):
            host = by_name[name]
            host.tiers = True
            host.lives.append(_new(chance, host, f"virtscope/auction-{number}-{tier}", LONG_AGO))
    for host in hosts:
        _change_guests(chance, host, quiet, seconds)
    _add_incidents(chance, [host for host in hosts if not host.tiers], quiet, seconds)
    return hosts


def _host(chance: random.Random, name: str, platform: str) -> Host:
    host = Host(name, platform, chance.uniform(0.5, 1.5), [])
    for number in range(chance.randint(*GUESTS)):
        host.lives.append(_new(chance, host, f"guest{number}", LONG_AGO))
    return host


def _new(chance: random.Random, host: Host, name: str, begin: float) -> Life:
    number = 1 + max((life.number for life in host.lives), default=0)
    return Life(number, name, begin, chance.uniform(0.5, 1.5), begin)


def _change_guests(chance: random.Random, host: Host, quiet: float, seconds: float) -> None:
    """Guests end, start, are renamed and come back under an earlier name; those of applications stay."""
    names = (f"new{number}" for number in count())
    gone: list[str] = []
    time = quiet + chance.expovariate(1 / CHANGE_SECONDS)
    while time < seconds:
        running = [
            place
            for place, life in enumerate(host.lives)
            if life.end == NEVER and not life.name.startswith("virtscope/")
        ]
        change = chance.choice(("start", "end", "rename", "return"))
        if change == "start" or len(running) < 2:
            host.lives.append(_new(chance, host, next(names), time))
        elif change == "return" and gone:
            host.lives.append(_new(chance, host, gone.pop(0), time))
        else:
            place = chance.choice(running)
            life = host.lives[place]
            host.lives[place] = replace(life, end=time)
            if change == "rename":
                host.lives.append(replace(life, name=next(names), begin=time))
            else:
                gone.append(life.name)
        time += 1 + chance.expovariate(1 / CHANGE_SECONDS)


def _add_incidents(chance: random.Random, hosts: list[Host], quiet: float, seconds: float) -> None:
    """Hosts are down, or their exporter's source fails, one after the other over the whole time, each once. On two
    other hosts a guest crashes repeatedly.
    """
    crashing = [next(host for host in hosts if host.platform == platform) for platform in ("xen", "kvm")]
    others = sorted((host for host in hosts if host not in crashing), key=lambda _: chance.random())
    for number, host in enumerate(others):
        time = quiet + number * (seconds - quiet) / len(others)
        interval = (time, time + INCIDENT_SECONDS)
        if number % 2 and host.platform != "cgroup":  # its exporter doesn't report source failures
            host.failing = interval
        else:
            host.down = interval
    for number in range(int((seconds - quiet) / INCIDENT_EVERY)):
        time = quiet + number * INCIDENT_EVERY
        host = crashing[number % len(crashing)]
        life = _new(chance, host, f"crashes{number}", LONG_AGO)
        host.lives.append(replace(life, crashed=(time, time + INCIDENT_SECONDS)))
