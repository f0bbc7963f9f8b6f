"""Caps from predicted responses: for each site the smallest of a few with which its objective will hold. Pure.

Caps of all sites together are never more than the CPUs that they share, and none is below `MIN_CAP`. While the CPUs
suffice for all caps, one falls by at most a fifth at a time; otherwise each is reduced towards what its tier uses. A
site with too few requests to learn from asks for an equal share.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from advise.model import Fit, Past, Predicted, fit, predict
from advise.queueing import FULL, delay
from lab.cgroups import CAP_PERIOD, SMALLEST_CAP

MIN_CAP = SMALLEST_CAP
MAX_FALL = 0.2
MIN_REQUESTS = 20  # in an interval
SATURATED = 0.9  # of its cap: a tier's demand beyond it is unknown,
GROWTH = 1.5  # and its use is multiplied by this
# Caps to try, beyond the CPU used: so many times its square root. Of all caps with the same sum, these have the
# shortest response: Kleinrock's capacity assignment (Queueing Systems, volume 2, 1976, chapter 5).
SPARE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)

Caps = Mapping[str, Mapping[str, float]]
"""CPUs, by site and tier."""


@dataclass(frozen=True)
class Seen:
    """A site in an interval of so many seconds: requests, their mean response in seconds, and CPU seconds by tier."""

    seconds: float
    requests: float
    response: float
    cpu: Mapping[str, float]
    failed: float = 0.0  # requests that got no answer, or an error of the server

    @property
    def work(self) -> float:
        """CPU seconds of a request."""
        return sum(self.cpu.values()) / self.requests


class Loop:
    """Learns how each site's response depends on its caps, and chooses them.

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
        """Fit each site's model to an interval with these caps, too."""
        used = _used(seen)
        for site, of in seen.items():
            if of.requests >= MIN_REQUESTS:
                waiting = self._waiting(of, used[site], caps[site], _total(used))
                self._pasts[site].append((of.response, of.work, waiting))
                self._fits[site] = fit(Past(*np.array(self._pasts[site]).T))

    def decide(self, caps: Caps, seen: Mapping[str, Seen]) -> Caps:
        """The next caps, from the present ones and the interval with them."""
        demands = {
            site: {tier: cpus * (GROWTH if cpus >= SATURATED * caps[site][tier] else 1.0) for tier, cpus in of.items()}
            for site, of in _used(seen).items()
        }
        return bounded(
            {site: self._smallest(site, of, demands) for site, of in seen.items()}, caps, demands, self._cpus
        )

    def predict(self, before: Caps, seen: Mapping[str, Seen], caps: Caps) -> dict[str, Predicted]:
        """The responses with new caps and the load of the interval with those before.

        Without sites that have too few requests, or whose demand is unknown as a cap was used up.
        """
        used, found = _used(seen), dict[str, Predicted]()
        for site, of in seen.items():
            predicted = self._predicted(site, of, used, caps[site])
            if predicted and all(cpus < SATURATED * before[site][tier] for tier, cpus in used[site].items()):
                found[site] = predicted
        return found

    def _smallest(self, site: str, seen: Seen, demands: Caps) -> Mapping[str, float]:
        """The smallest of the caps to try that hold the objective in 19 of 20 cases, the largest if none does."""
        for spare in SPARE:
            caps = {tier: max(MIN_CAP, demand + spare * math.sqrt(demand)) for tier, demand in demands[site].items()}
            predicted = self._predicted(site, seen, demands, caps)
            if predicted is None:
                return self._equal[site]
            if predicted.high <= self._objective:
                return caps
        return caps

    def _predicted(self, site: str, seen: Seen, demands: Caps, caps: Mapping[str, float]) -> Predicted | None:
        if site not in self._fits or seen.requests < MIN_REQUESTS:
            return None
        waiting = self._waiting(seen, demands[site], caps, min(_total(demands), 0.999 * FULL * self._cpus))
        return predict(self._fits[site], seen.work, waiting)

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
                    period=CAP_PERIOD,
                )
            )
            for tier in demand
        )


def bounded(wanted: Caps, present: Caps, demands: Caps, cpus: float) -> Caps:
    """These caps within the bounds."""
    least = {site: {tier: max(MIN_CAP, demand) for tier, demand in of.items()} for site, of in demands.items()}
    slower = {
        site: {tier: max(least[site][tier], cap, (1 - MAX_FALL) * present[site][tier]) for tier, cap in of.items()}
        for site, of in wanted.items()
    }
    if _total(slower) <= cpus:
        return slower
    minimum = {site: dict.fromkeys(of, MIN_CAP) for site, of in least.items()}
    floor, above = (least, slower) if _total(least) < cpus else (minimum, least)
    share = (cpus - _total(floor)) / (_total(above) - _total(floor))
    return {
        site: {tier: floor[site][tier] + share * (cap - floor[site][tier]) for tier, cap in of.items()}
        for site, of in above.items()
    }


def equal(cpu: Mapping[str, float], sites: int, cpus: float) -> dict[str, float]:
    """Caps of a site's tiers, if all sites have the same share of the CPUs; `cpu` is what tiers use, in any unit."""
    share, total = cpus / sites, sum(cpu.values())
    small = {tier for tier, used in cpu.items() if share * used < MIN_CAP * total}
    rest, others = share - MIN_CAP * len(small), sum(used for tier, used in cpu.items() if tier not in small)
    return {tier: MIN_CAP if tier in small else rest * used / others for tier, used in cpu.items()}


def _used(seen: Mapping[str, Seen]) -> dict[str, dict[str, float]]:
    """CPUs, by site and tier."""
    return {site: {tier: seconds / of.seconds for tier, seconds in of.cpu.items()} for site, of in seen.items()}


def _total(caps: Caps) -> float:
    return sum(sum(of.values()) for of in caps.values())
