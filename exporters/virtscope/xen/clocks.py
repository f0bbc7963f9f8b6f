"""Times that don't go back while a domain lives, though the clocks of the physical CPUs are never quite the same.

Of a running vCPU Xen tells the time up to its last start, and what has passed since: the clock of the CPU that asks
less that of the CPU it runs on (vcpu_runstate_get in xen/common/sched/core.c). If the first is ahead, a vCPU that has
just stopped shows less than before. So it is with the time in each run state. Prometheus would take that for a restart
from 0, and add the whole counter to a rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from virtscope.xen.model import Domain, Host, Waiting

MOST_APART = 1.0  # seconds; also what one tick takes from a text's whole seconds. A greater fall is another domain's

Times = list[Optional[float]]
Key = tuple[Optional[int], str, Optional[int]]


class Clocks:
    """Remembers each domain's CPU time, and that of its vCPUs, from one look at the host to the next."""

    def __init__(self) -> None:
        self._last: dict[Key, Times] = {}

    def steady(self, host: Host) -> Host:
        """Return the host without CPU times that are a little less than before; to be given each look in its turn."""
        last, self._last = self._last, {}
        return host._replace(domains=tuple([self._steady_domain(domain, last) for domain in host.domains]))

    def _steady_domain(self, domain: Domain, last: dict[Key, Times]) -> Domain:
        key = domain.domid, "" if domain.domid is not None else domain.name, domain.namesake
        now = [domain.cpu_seconds, *[vcpu.cpu_seconds for vcpu in domain.vcpus]]
        # A time that isn't told now, as of a vCPU that is offline, is remembered till it is told again.
        self._last[key] = reached = _reached(last.get(key, []), now)
        if reached == now:
            return domain
        cpu_seconds, *vcpus = [None if time is None else most for time, most in zip(now, reached)]
        return domain._replace(
            cpu_seconds=cpu_seconds,
            vcpus=tuple([vcpu._replace(cpu_seconds=seconds) for vcpu, seconds in zip(domain.vcpus, vcpus)]),
        )


class WaitingClocks:
    """Remembers how long each domain's vCPUs ran and waited, likewise."""

    def __init__(self) -> None:
        self._last: dict[int, Waiting] = {}

    def steady(self, domains: Iterable[Waiting]) -> list[Waiting]:
        """Return the domains without times that are less than before; to be given each look in its turn."""
        last, self._last = self._last, {}
        return [self._steady_domain(domain, last.get(domain.domid)) for domain in domains]

    def _steady_domain(self, domain: Waiting, last: Waiting | None) -> Waiting:
        reached = domain if last is None else _waited(last, domain)
        self._last[domain.domid] = reached
        return reached if domain.runnable_seconds is not None else reached._replace(runnable_seconds=None)


def _waited(before: Waiting, now: Waiting) -> Waiting:
    """Return what the domain has now with the greater of each two times, unless it is another domain's."""
    was, states = list(before.runstate_seconds.values()), list(now.runstate_seconds.values())
    if any(last - seconds > MOST_APART for last, seconds in zip(was, states)):
        return now  # whose id came round again
    (runnable,) = _greater([before.runnable_seconds], [now.runnable_seconds])
    return now._replace(
        runstate_seconds=dict(zip(now.runstate_seconds, map(max, was, states))), runnable_seconds=runnable
    )


def _reached(before: Times, now: Times) -> Times:
    """Return the greater of each two times; those of now where it is another domain's, which took over id or name."""
    if any(was is not None and time is not None and was - time > MOST_APART for was, time in zip(before, now)):
        return now
    return _greater(before, now) + now[len(before) :]


def _greater(before: Times, now: Times) -> Times:
    return [was if time is None or (was is not None and was > time) else time for was, time in zip(before, now)]
