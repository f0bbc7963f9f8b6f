"""Measures a state: responses of all sites over a time, from raw counters, and what balancers know of the hosts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from lab.clients.metrics import LATE_SHARE
from tests.proofs.placements.balancers import Guest, Host
from tests.proofs.placements.hosts import LATE_SECONDS, Counted
from tests.proofs.placements.judgement import Response, State
from tests.proofs.placements.plan import HOSTS
from tests.support import Prometheus

_REQUESTS = 'app_request_duration_seconds_{}{{tier="web", status!~"1xx|5xx"}}[{}s]'
_CGROUP = 'platform="cgroup"'
_GUESTS = f'{_CGROUP}, role="guest"'


class NoDataError(Exception):
    """Prometheus lacks something that a state is made of; the message has what."""


def increase(samples: Sequence[tuple[float, str]]) -> float:
    """How much a counter grew from the first sample to the last, in samples of (time, value)."""
    values = [float(value) for _, value in samples]
    return sum(after - before if after >= before else after for before, after in itertools.pairwise(values))


def measure(prometheus: Prometheus, placement: Mapping[str, str], objective_seconds: float, counted: Counted) -> State:
    """The state of the time in which `counted` was counted. Raises `NoDataError`, also if clients were late."""
    if counted.late > LATE_SHARE:  # they waited for sites, whose queues were then too short
        late = f"{counted.late:.1%} of requests were sent over {LATE_SECONDS * 1000:g} ms late"
        raise NoDataError(f"{late}: let other programs end, and go on by the same command")
    counts, sums = (_increases(prometheus, part, counted) for part in ("count", "sum"))
    responses = {}
    for site, host in placement.items():
        if not (requests := counts.get((host, site), 0)):
            raise NoDataError(f"no requests of {site} on host {host} in {counted.seconds:.0f} s")
        mean = sums[host, site] / requests
        responses[site] = Response(host, requests, mean, mean <= objective_seconds)
    return State(counted.began, counted.ended, responses, counted.used)


def hosts(prometheus: Prometheus, placement: Mapping[str, str], counted: Counted) -> dict[str, Host]:
    """What balancers know of the hosts at the end of that time; raises `NoDataError`."""

    def values(query: str) -> dict[str, float]:
        return _values(prometheus, query, counted.ended)

    cpus, usage = values(f"host:cpu_capacity:cpus{{{_CGROUP}}}"), values(f"host:cpu_usage:rate{{{_CGROUP}}}")
    memory = values(f"sum by (host) (vserver:memory:bytes{{{_GUESTS}}})")
    capacity = values("max by (host) (node_memory_MemTotal_bytes)")
    wait = values(f"sum by (host) (vserver:cpu_wait:rate{{{_GUESTS}}})")
    guests = values(f"host:guests:count{{{_CGROUP}}}")
    try:
        return {
            host: Host(
                cpus[host],
                usage[host],
                memory.get(host, 0.0),  # absent on a host without guests, as the wait
                capacity[host],
                wait.get(host, 0.0),
                round(guests[host]),
                max((counted.pressure.get(site, 0.0) for site, its in placement.items() if its == host), default=0.0),
            )
            for host in HOSTS
        }
    except KeyError as missing:
        raise NoDataError(f"Prometheus doesn't have all records of host {missing}") from None


def guest(prometheus: Prometheus, site: str, host: str, at: float) -> Guest:
    """What balancers know of a site; raises `NoDataError`."""
    its = f'{_GUESTS}, host="{host}", vserver=~"virtscope/{site}-(?:web|db)"'
    found = [
        _values(prometheus, f"sum by (host) ({record}{{{its}}})", at).get(host)
        for record in ("vserver:cpu_usage:rate", "vserver:memory:bytes")
    ]
    cpu_usage, memory = found
    if cpu_usage is None or memory is None:
        raise NoDataError(f"Prometheus doesn't have the use of {site} on host {host}")
    return Guest(cpu_usage, memory)


def _values(prometheus: Prometheus, query: str, at: float) -> dict[str, float]:
    """By host."""
    return {series["metric"]["host"]: float(series["value"][1]) for series in prometheus.query(query, at)}


def _increases(prometheus: Prometheus, part: str, counted: Counted) -> dict[tuple[str, str], float]:
    """How much a counter of requests grew, by host and site."""
    found: dict[tuple[str, str], float] = {}
    for series in prometheus.query(_REQUESTS.format(part, math.floor(counted.seconds)), counted.ended):
        key = series["metric"]["host"], series["metric"]["app"]
        found[key] = found.get(key, 0.0) + increase(series["values"])
    return found
