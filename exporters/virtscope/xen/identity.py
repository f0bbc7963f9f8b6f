"""Who is who in xentop's text, which tells names and places: what these don't tell apart is kept apart by a number."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from virtscope.xen.clocks import MOST_APART
from virtscope.xen.model import DOM0, Domain, Host

# Looks that a name's numbers are kept for when nobody bears it: an hour at a scrape a second, longer than rates look
# back, so that no rate goes from the last bearer of a number to the one it is given to again.
_REMEMBERED = 3600


class _Namesakes(NamedTuple):
    domains: list[Domain]
    first: int  # number of the first of them; 0: the name's only bearer, and the first one


class Namesakes:
    """Numbers the domains of one name, from one iteration to the next, so that no number ever passes to another guest.

    xentop prints namesakes in the order of their ids, so the n-th is the same guest as long as there are as many of
    them and none of their counters has gone back. After any other change it can't be known which one went or came:
    all of that name get new numbers, and so does the one that is left when the others are gone. A name that nobody has
    borne for long is forgotten.
    """

    def __init__(self) -> None:
        self._last: dict[str, _Namesakes] = {}  # of the iteration before, and names that ever had several bearers
        self._highest: dict[str, int] = {}  # number ever given to a bearer of the name
        self._borne: dict[str, int] = {}  # of these names, the last look at which somebody bore it
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with `namesake` set in the domains that need it; to be given each iteration in its turn."""
        by_name: defaultdict[str, list[Domain]] = defaultdict(list)
        for domain in host.domains:
            if domain.domid != DOM0:
                by_name[domain.name].append(domain)
        self._last = {name: self._number(name, domains) for name, domains in by_name.items()}
        self._forget_names_of_nobody()
        numbers = {
            name: iter(range(named.first, named.first + len(named.domains))) for name, named in self._last.items()
        }
        return host._replace(
            domains=tuple(
                domain if domain.domid == DOM0 else domain._replace(namesake=next(numbers[domain.name]) or None)
                for domain in host.domains
            )
        )

    def _number(self, name: str, domains: list[Domain]) -> _Namesakes:
        if len(domains) == 1 and name not in self._highest:
            return _Namesakes(domains, 0)
        last = self._last.get(name)
        if last and last.first and len(last.domains) == len(domains):
            pairs = zip(last.domains, domains)
            if not any(was > now for before, after in pairs for was, now in zip(_counters(before), _counters(after))):
                return _Namesakes(domains, last.first)
        first = self._highest.get(name, 0) + 1
        self._highest[name] = first + len(domains) - 1
        return _Namesakes(domains, first)

    def _forget_names_of_nobody(self) -> None:
        self._look += 1
        for name in list(self._highest):
            if name in self._last:
                self._borne[name] = self._look
            elif self._look - self._borne[name] > _REMEMBERED:
                del self._highest[name], self._borne[name]


class _Seen(NamedTuple):
    look: int  # the last at which the domain was there
    cpu_seconds: float
    vifs: int  # interfaces that there were, shown or not
    packets: dict[str, int]  # of each that was shown, by place
    generation: int


class Places:
    """Names a domain's interfaces by their places, from one iteration to the next, so that no name ever passes on.

    xentop numbers the interfaces that there are, in Dom0's order: after one was added or taken out it can't be known
    which is which. All that there are then begin anew under their places and a number: "0-2", "1-2". Packets show that
    one took the place of another, not bytes: those wrap on Dom0s of 32 bits.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None, int | None], _Seen] = {}
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with such names; to be given each iteration in its turn, with `namesake` set."""
        self._look += 1
        named = host._replace(domains=tuple([self._named(domain) for domain in host.domains]))
        if len(self._seen) > len(host.domains):
            self._seen = {key: seen for key, seen in self._seen.items() if self._look - seen.look <= _REMEMBERED}
        return named

    def _named(self, domain: Domain) -> Domain:
        key = domain.name, domain.domid, domain.namesake
        vifs = len(domain.networks) if domain.vifs is None else domain.vifs
        packets = {network.vif: network.receive.packets + network.transmit.packets for network in domain.networks}
        cpu_seconds, generation = domain.cpu_seconds or 0, 0
        if before := self._seen.get(key):
            generation = before.generation
            # Of a domain that was made anew, and where there was none before, all interfaces are new.
            if before.vifs and cpu_seconds >= before.cpu_seconds - MOST_APART:
                fell = any(packets.get(vif, counted) < counted for vif, counted in before.packets.items())
                generation += 1 if fell or vifs != before.vifs else 0
        self._seen[key] = _Seen(self._look, cpu_seconds, vifs, packets, generation)
        if not generation:
            return domain
        return domain._replace(
            networks=tuple([network._replace(vif=f"{network.vif}-{generation + 1}") for network in domain.networks])
        )


def _counters(domain: Domain) -> tuple[float, ...]:
    """Return what never gets less while a domain lives (and keeps its devices)."""
    ways = [way for network in domain.networks for way in (network.receive, network.transmit)]
    requests = [way.requests for block in domain.blocks for way in (block.read, block.write) if way]
    return (
        domain.cpu_seconds or 0,
        sum(way.bytes for way in ways),
        sum(way.packets for way in ways),
        sum(requests),
    )
