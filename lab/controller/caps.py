"""Caps from predicted responses: for each site the smallest ones with which its objective will hold. Pure.

Bounds: caps of all sites together are never more than the CPUs that they share. While these are enough, a cap is at
least `LEAST` and falls by at most a fifth at a time. Without enough requests to learn from, a site has an equal share.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from advise.model import DRAWS, Fit, Past, Predicted, fit, predict
from advise.queueing import FULL, delay

LEAST = 0.05  # CPUs: smaller quotas are used up by single requests
FALLS = 0.8
ENOUGH = 20  # requests
SATURATED = 0.9  # of its cap: nobody knows how much more a tier would use,
GROWTH = 1.5  # so it is taken for this many times as much
# Caps to try, beyond the CPU used: so many times its square root. Of all caps with the same sum, these have the
# shortest response: Kleinrock's capacity assignment (Queueing Systems, volume 2, 1976, chapter 5).
SPARE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)

Caps = Mapping[str, Mapping[str, float]]
"""CPUs, by site and tier."""


@dataclass(frozen=True)
class Seen:
    """A site in an interval: its requests, their mean response in seconds, and CPU seconds by tier."""

    seconds: float
    requests: float
    response: float
    cpu: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def work(self) -> float:
        """CPU seconds of a request."""
        return sum(self.cpu.values()) / self.requests


class Loop:
    """Learns how each site's response depends on its caps, and sets them.

    cpus: that the sites share.
    objective: of each site's mean response, in seconds.
    equal: caps that divide the CPUs equally between sites.
    """

    def __init__(self, cpus: float, objective: float, equal: Caps) -> None:
        self._cpus = cpus
        self._objective = objective
        self._equal = equal
        self._pasts: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        self._fits: dict[str, Fit] = {}

    def learn(self, caps: Caps, seen: Mapping[str, Seen]) -> None:
        """What came of these caps."""
        demands = _demands(caps, seen, growth=1.0)
        for site, of in seen.items():
            if of.requests >= ENOUGH:
                waiting = self._waiting(of, demands[site], caps[site], _total(demands))
                self._pasts[site].append((of.response, of.work, waiting))
                self._fits[site] = fit(Past(*np.array(self._pasts[site]).T))

    def decide(self, caps: Caps, seen: Mapping[str, Seen]) -> Caps:
        """The next caps, from the present ones and what was seen with them."""
        demands = _demands(caps, seen)
        return bounded({site: self._least(site, of, demands) for site, of in seen.items()}, caps, demands, self._cpus)

    def predict(self, caps: Caps, seen: Mapping[str, Seen]) -> dict[str, Predicted]:
        """The responses with these caps if the load stays as it was seen; only of sites of which enough is known."""
        demands = _demands(caps, seen, growth=1.0)
        found = {site: self._predicted(site, of, demands, caps[site]) for site, of in seen.items()}
        return {site: predicted for site, predicted in found.items() if predicted}

    def _least(self, site: str, seen: Seen, demands: Caps) -> Mapping[str, float]:
        """The smallest of the caps to try that hold the objective in 19 of 20 cases, the largest if none does."""
        for spare in SPARE:
            caps = {tier: max(LEAST, demand + spare * math.sqrt(demand)) for tier, demand in demands[site].items()}
            predicted = self._predicted(site, seen, demands, caps)
            if predicted is None:
                return self._equal[site]
            if predicted.high <= self._objective:
                return caps
        return caps

    def _predicted(self, site: str, seen: Seen, demands: Caps, caps: Mapping[str, float]) -> Predicted | None:
        if site not in self._fits or seen.requests < ENOUGH:
            return None
        waiting = self._waiting(seen, demands[site], caps, min(_total(demands), 0.999 * FULL * self._cpus))
        return predict(self._fits[site], seen.work, np.full(DRAWS, waiting))

    def _waiting(self, seen: Seen, demand: Mapping[str, float], caps: Mapping[str, float], used: float) -> float:
        """What queueing theory expects, in seconds per request."""
        return sum(
            float(
                delay(
                    seen.cpu[tier] / seen.requests,
                    demand[tier],
                    cap=caps[tier],
                    vcpus=np.nan,
                    used=used,
                    cpus=self._cpus,
                )
            )
            for tier in demand
        )


def bounded(wanted: Caps, present: Caps, demands: Caps, cpus: float) -> Caps:
    """These caps within the bounds; where there isn't enough for all, what is beyond the demands is less for each."""
    least = {site: {tier: max(LEAST, demand) for tier, demand in of.items()} for site, of in demands.items()}
    slower = {
        site: {tier: max(least[site][tier], cap, FALLS * present[site][tier]) for tier, cap in of.items()}
        for site, of in wanted.items()
    }
    asked, needed = _total(slower), _total(least)
    if asked <= cpus:
        return slower
    if needed >= cpus:
        return _scaled(least, cpus / needed)
    share = (cpus - needed) / (asked - needed)
    return {
        site: {tier: least[site][tier] + share * (cap - least[site][tier]) for tier, cap in of.items()}
        for site, of in slower.items()
    }


def equal(cpu: Mapping[str, float], sites: int, cpus: float) -> dict[str, float]:
    """Caps of a site's tiers, if all sites have the same share of the CPUs; `cpu` is what tiers use, in any unit."""
    share, total = cpus / sites, sum(cpu.values())
    small = {tier for tier, used in cpu.items() if share * used < LEAST * total}
    rest, others = share - LEAST * len(small), sum(used for tier, used in cpu.items() if tier not in small)
    return {tier: LEAST if tier in small else rest * used / others for tier, used in cpu.items()}


def _demands(caps: Caps, seen: Mapping[str, Seen], growth: float = GROWTH) -> Caps:
    """The CPUs that each tier would use without its cap."""
    return {
        site: {
            tier: (used := seconds / of.seconds) * (growth if used >= SATURATED * caps[site][tier] else 1.0)
            for tier, seconds in of.cpu.items()
        }
        for site, of in seen.items()
    }


def _scaled(caps: Caps, factor: float) -> Caps:
    return {site: {tier: factor * cap for tier, cap in of.items()} for site, of in caps.items()}


def _total(caps: Caps) -> float:
    return sum(sum(of.values()) for of in caps.values())
