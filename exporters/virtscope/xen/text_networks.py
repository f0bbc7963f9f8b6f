"""The networks of the domains in xentop's text, from Dom0's /proc/net/dev: whose they are, the toolstack knows.

xentop numbers a domain's interfaces by their place, and with Open vSwitch prints none (netdev.py says why). The file
has all, with the domain's id and the interface's own number. The text has no ids, but the toolstack tells the id of a
name.

A number and a place can be those of two interfaces: QEMU's end of an HVM guest's often comes first. So a domain has the
one or the other for as long as it lives, and none until that is decided.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple

from virtscope.xen.devices import VIF, known_apart
from virtscope.xen.model import Domain, Guest, Host
from virtscope.xen.netdev import RawNetwork, guests_end

# For how long a domain may wait to be listed by the toolstack, which is asked early when there is a new one.
PATIENCE = 60.0  # seconds


class _Named(NamedTuple):
    since: float  # when the domain was first seen
    by_number: bool | None  # else by place; None: not decided


class TextNetworks:
    """Gives the domains of a text their interfaces; to be shown every look at the host, in order."""

    def __init__(
        self, read: Callable[[], Mapping[int, Sequence[RawNetwork]] | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        """`read` returns the interfaces by domid, or None where they can't be read."""
        self._read = read
        self._now = now
        self._named: dict[tuple[str, int | None], _Named] = {}

    def add_to(self, host: Host) -> Host:
        """Return the host with these interfaces, or with the text's own where they can't be read.

        `duplicate` must be set already, and what the toolstack knows be joined.
        """
        by_domid = self._read()
        if by_domid is None:
            return host
        guests = host.guests or (None,) * len(host.domains)
        last, self._named = self._named, {}
        return host._replace(
            domains=tuple(
                [self._with_networks(domain, guest, by_domid, last) for domain, guest in zip(host.domains, guests)]
            )
        )

    def _with_networks(
        self,
        domain: Domain,
        guest: Guest | None,
        by_domid: Mapping[int, Sequence[RawNetwork]],
        last: Mapping[tuple[str, int | None], _Named],
    ) -> Domain:
        domid = guest.domid if guest and domain.domid is None else domain.domid
        key = domain.name, domain.duplicate
        named = last.get(key, _Named(self._now(), None))
        if named.by_number is None:
            named = named._replace(by_number=self._decided(domain, domid, named.since))
        self._named[key] = named
        if named.by_number is False:
            return domain
        networks = () if domid is None else tuple(map(guests_end, by_domid.get(domid, ())))
        shown = known_apart(networks, VIF)
        return domain._replace(networks=shown, missing=domain.missing._replace(networks=len(networks) - len(shown)))

    def _decided(self, domain: Domain, domid: int | None, since: float) -> bool | None:
        if domid is not None:
            return True
        # The toolstack is asked for names, which several have, or its answer doesn't come. Where the text has no
        # interfaces, there is time.
        given_up = domain.duplicate is not None or self._now() - since > PATIENCE
        return False if given_up and domain.networks else None
