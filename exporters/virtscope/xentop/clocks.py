"""CPU time that doesn't go back while a domain lives, though the clocks of the physical CPUs are never quite the same.

Of a running vCPU Xen tells the time up to its last start, and what has passed since: the clock of the CPU that asks
less that of the CPU it runs on (vcpu_runstate_get in xen/common/sched/core.c). If the first is ahead, a vCPU that has
just stopped shows less than before. Prometheus would take that for a restart from 0, and add the whole counter to a
rate.
"""

from __future__ import annotations

from virtscope.xentop.model import Domain, Host

MOST_APART = 1.0  # seconds; also what one tick takes from a text's whole seconds. A greater fall is another domain's


class Clocks:
    """Remembers each domain's CPU time from one look at the host to the next."""

    def __init__(self) -> None:
        self._last: dict[tuple[int | None, str, int | None], Domain] = {}

    def steady(self, host: Host) -> Host:
        """Return the host without CPU times that are a little less than before; to be given each look in its turn."""
        domains = [self._steady_domain(domain) for domain in host.domains]
        self._last = {_key(domain): domain for domain in domains}
        return host._replace(domains=tuple(domains))

    def _steady_domain(self, domain: Domain) -> Domain:
        last = self._last.get(_key(domain))
        if last is None:
            return domain
        vcpus = [
            vcpu._replace(cpu_seconds=_steady(before.cpu_seconds, vcpu.cpu_seconds))
            for before, vcpu in zip(last.vcpus, domain.vcpus)
        ]
        return domain._replace(
            cpu_seconds=_steady(last.cpu_seconds, domain.cpu_seconds), vcpus=(*vcpus, *domain.vcpus[len(vcpus) :])
        )


def _key(domain: Domain) -> tuple[int | None, str, int | None]:
    return domain.domid, "" if domain.domid is not None else domain.name, domain.namesake


def _steady(before: float | None, now: float | None) -> float | None:
    return before if before is not None and now is not None and 0 < before - now <= MOST_APART else now
