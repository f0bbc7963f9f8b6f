"""Networks for the domains in xentop's text, from Dom0's /proc/net/dev, joined by the toolstack's ids.

xentop numbers a domain's interfaces by position, and prints none with Open vSwitch (see netdev.py). The file has all of
them, with the domain's id and the interface's own number. The text has no ids, but the toolstack maps names to ids.

A number and a position can mean different interfaces: QEMU's end of an HVM guest's interface often comes first. So a
domain uses either numbers or positions for as long as it lives, and has no networks until that is decided.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Callable

from virtscope.xen.devices import known_apart
from virtscope.xen.model import Domain, Host
from virtscope.xen.netdev import RawNetwork, guests_end

# Maximum wait until the toolstack lists a new domain, which triggers an early poll.
PATIENCE = 60.0  # seconds


class TextNetworks:
    """Adds interfaces to the domains of a text; needs every reading of the host, in order."""

    def __init__(
        self, read: Callable[[], Mapping[int, Sequence[RawNetwork]] | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        """`read` returns the interfaces by domid, None if they can't be read."""
        self._read = read
        self._now = now
        # By name and duplicate number: when the domain was first seen, and whether its networks go by number (True) or
        # position (False; None: not decided).
        self._named: dict[tuple[str, int | None], tuple[float, bool | None]] = {}

    def add_to(self, host: Host) -> Host:
        """Return the host with these interfaces, or with the text's own if they can't be read.

        `duplicate` must be set already, and the toolstack's values joined.
        """
        by_domid = self._read()
        if by_domid is None:
            return host
        guests = host.guests or (None,) * len(host.domains)
        last, self._named = self._named, {}
        domains = []
        for domain, guest in zip(host.domains, guests):
            domid = guest.domid if guest and domain.domid is None else domain.domid
            key = domain.name, domain.duplicate
            since, by_number = last.get(key, (self._now(), None))
            if by_number is None:
                by_number = self._decided(domain, domid, since)
            self._named[key] = since, by_number
            raw = () if domid is None else by_domid.get(domid, ())
            domains.append(domain if by_number is False else _with_networks(domain, raw))
        return host._replace(domains=tuple(domains))

    def _decided(self, domain: Domain, domid: int | None, since: float) -> bool | None:
        if domid is not None:
            return True
        # Several domains have this name, or the toolstack hasn't answered in time. Without interfaces in the text,
        # there is no hurry.
        given_up = domain.duplicate is not None or self._now() - since > PATIENCE
        return False if given_up and domain.networks else None


def _with_networks(domain: Domain, raw: Sequence[RawNetwork]) -> Domain:
    networks = known_apart(tuple(map(guests_end, raw)))
    return domain._replace(networks=networks, missing=domain.missing._replace(networks=len(raw) - len(networks)))
