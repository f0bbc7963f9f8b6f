"""Random loads and moves: which sites are on which host, with how much load, and which one moves next. Pure."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HOSTS = ("a", "b")
LOADS_EVERY = 4  # moves
MIN_SITE = 0.05  # of a host
TOTAL = (0.4, 1.05)  # of all sites together, in hosts: clients and sensors use some of both
MAX_HOST = 0.75
THINK_SECONDS = (1.0, 7.0)


@dataclass(frozen=True)
class Step:
    """What changes before a state: the loads and the placement of all sites, or the host of one.

    Attributes:
        number: counts from 0.
        utilisation: what each site is to use, as a share of a host.
        placement: the host of each site from now on.
        moved: the site that moves; None if loads change.
    """

    number: int
    utilisation: Mapping[str, float]
    think_seconds: float
    placement: Mapping[str, str]
    moved: str | None

    def clients(self, request_cpu_seconds: float, host_cpus: int) -> dict[str, int]:
        """The number of clients of each site: each sends a request per think time and response time."""
        per_request = self.think_seconds + request_cpu_seconds
        return {
            site: max(1, round(share * host_cpus / request_cpu_seconds * per_request))
            for site, share in self.utilisation.items()
        }


def other(host: str) -> str:
    [found] = set(HOSTS) - {host}
    return found


def plan(seed: int, moves: int, sites: Sequence[str], every: int = LOADS_EVERY) -> tuple[Step, ...]:
    """Steps with this many moves; loads change first, and after `every` moves."""
    chance = random.Random(f"placements/{seed}")
    steps: list[Step] = []
    for move in range(moves):
        if move % every == 0:
            steps.append(_loads(len(steps), sites, chance))
        steps.append(_move(steps[-1], chance))
    return tuple(steps)


def planned(utilisation: Mapping[str, float], placement: Mapping[str, str]) -> dict[str, float]:
    """What the sites of each host are to use."""
    return {host: sum(share for site, share in utilisation.items() if placement[site] == host) for host in HOSTS}


def _loads(number: int, sites: Sequence[str], chance: random.Random) -> Step:
    """New loads in a new placement, from which a site can move."""
    while True:
        parts = [chance.expovariate(1) for _ in sites]
        spread = chance.uniform(*TOTAL) - len(sites) * MIN_SITE
        utilisation = {
            site: round(MIN_SITE + max(spread, 0) * part / sum(parts), 3)
            for site, part in zip(sites, parts, strict=True)
        }
        placement = {site: chance.choice(HOSTS) for site in sites}
        think_seconds = round(chance.uniform(*THINK_SECONDS), 1)
        found = Step(number, utilisation, think_seconds, placement, None)
        if _fits(utilisation, placement) and _movable(found):
            return found


def _move(before: Step, chance: random.Random) -> Step:
    site = chance.choice(_movable(before))
    return Step(before.number + 1, before.utilisation, before.think_seconds, _moved(before.placement, site), site)


def _movable(step: Step) -> list[str]:
    """The sites for which the other host has room."""
    return [site for site in step.utilisation if _fits(step.utilisation, _moved(step.placement, site))]


def _moved(placement: Mapping[str, str], site: str) -> dict[str, str]:
    return {**placement, site: other(placement[site])}


def _fits(utilisation: Mapping[str, float], placement: Mapping[str, str]) -> bool:
    return max(planned(utilisation, placement).values()) <= MAX_HOST
