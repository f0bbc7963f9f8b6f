"""Which of the domains that the toolstack listed some time ago is which of those that live at this scrape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from virtscope.xen.model import Domain, Host
from virtscope.xen.toolstack.model import Guest, Toolstack

# Seconds that the source's figures may be older than the toolstack's: xentop's iterations are up to two.
_BEHIND = 3.0
_AHEAD = 1.0  # seconds that a vCPU may seem to have run longer than the clock here went on
_ROUNDING = 2**-23  # xl takes CPU time through a float
_NO_TIME = 2**63 / 1e9  # seconds: Xen 4.10 to 4.12 lets bit 63 of the nanoseconds slip now and then


def joined(host: Host, toolstack: Toolstack, age: float = math.inf, passed_on: AbstractSet[str] = frozenset()) -> Host:
    """Return the host with what the toolstack told of each domain that lives, and of the host what the source doesn't.

    A domain is known by its id; where the source has none, by its name if nobody else has it. One that has used less
    CPU time than it had when the toolstack listed it, `age` seconds ago at most, is another one, which took over id or
    name; so is one by name that has used more since than its vCPUs can. (Ids are not swapped, as names may be.)
    Nothing is told by a name that may have been `passed_on` to another guest since.
    """
    by_name = _unique_names(toolstack.guests.values())
    names = Counter(domain.name.strip() for domain in host.domains)

    def told(domain: Domain) -> Guest | None:
        if domain.domid is not None:
            guest = toolstack.guests.get(domain.domid)
        else:
            name = domain.name.strip()
            guest = by_name.get(name) if names[name] == 1 and name not in passed_on else None
        return guest if guest and _may_be(guest, domain, age) else None

    info = toolstack.info
    return host._replace(
        xen_version=host.xen_version or info.xen_version or None,
        cpus=info.cpus if host.cpus is None else host.cpus,
        cpu_hertz=info.cpu_hertz if host.cpu_hertz is None else host.cpu_hertz,
        memory_bytes=info.memory_bytes if host.memory_bytes is None else host.memory_bytes,
        memory_free_bytes=info.memory_free_bytes if host.memory_free_bytes is None else host.memory_free_bytes,
        domains=tuple(domain._replace(told=told(domain)) for domain in host.domains),
    )


def _unique_names(guests: Iterable[Guest]) -> dict[str, Guest]:
    guests = list(guests)
    names = Counter(guest.name.strip() for guest in guests)
    return {guest.name.strip(): guest for guest in guests if names[guest.name.strip()] == 1}


def _may_be(guest: Guest, domain: Domain, age: float) -> bool:
    if domain.cpu_seconds is None or guest.cpu_seconds >= _NO_TIME:
        return True
    rounding = guest.cpu_seconds * _ROUNDING + 1
    least = guest.cpu_seconds - rounding - _BEHIND * len(domain.vcpus)
    most = guest.cpu_seconds + rounding + (age + _AHEAD) * len(domain.vcpus)
    return least <= domain.cpu_seconds and (domain.domid is not None or domain.cpu_seconds <= most)
