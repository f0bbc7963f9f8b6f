"""Keeps each look at the host consistent with the one before: clocks, duplicate names, reused names.

**Clocks.** CPU time must not go back while a domain lives, though the clocks of the physical CPUs are never quite the
same. Of a running vCPU Xen gives the time up to its last start, and what has passed since: the clock of the CPU that
asks less that of the CPU it runs on (vcpu_runstate_get in xen/common/sched/core.c). If the first is ahead, a vCPU that
has just stopped shows less than before. So it is with the time in each run state. Prometheus would take that for a
restart from 0, and add the whole counter to a rate.

**Duplicate names.** xentop's text identifies domains by name and interfaces by position only: where these are not
unique or not stable, they are numbered.

**Reused names.** A name may belong to another guest than when the toolstack was asked.

Each object here is shown every look at the host, in order, by the source whose values it keeps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple, Optional

from virtscope.xen.model import DOM0, Domain, Host, Waiting

MAX_APART = 1.0  # seconds; also what one tick takes from a text's whole seconds. By more, it is another domain

# For how many looks the numbers of an unused name are remembered: an hour at a scrape a second, longer than rates look
# back, so that no rate spans two domains that were given the same number.
_REMEMBERED = 3600

Times = list[Optional[float]]
Key = tuple[Optional[int], str, Optional[int]]


class Clocks:
    """Remembers each domain's CPU time, and that of its vCPUs, from one look at the host to the next."""

    def __init__(self) -> None:
        self._last: dict[Key, Times] = {}

    def steady(self, host: Host) -> Host:
        """Return the host without CPU times that are a little less than before."""
        last, self._last = self._last, {}
        return host._replace(domains=tuple([self._steady_domain(domain, last) for domain in host.domains]))

    def _steady_domain(self, domain: Domain, last: dict[Key, Times]) -> Domain:
        key = domain.domid, "" if domain.domid is not None else domain.name, domain.duplicate
        now = [domain.cpu_seconds, *[vcpu.cpu_seconds for vcpu in domain.vcpus]]
        # A time that the source doesn't give now, as of a vCPU that is offline, is remembered till it does again.
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
        """Return the domains without times that are less than before."""
        last, self._last = self._last, {}
        return [self._steady_domain(domain, last.get(domain.domid)) for domain in domains]

    def _steady_domain(self, now: Waiting, last: Waiting | None) -> Waiting:
        was, states = last.runstate_seconds if last else {}, now.runstate_seconds
        reached = now
        if last and all(was[state] - seconds <= MAX_APART for state, seconds in states.items()):
            [runnable] = _greater([last.runnable_seconds], [now.runnable_seconds])
            states = {state: max(was[state], seconds) for state, seconds in states.items()}
            reached = now._replace(runstate_seconds=states, runnable_seconds=runnable)
        self._last[now.domid] = reached
        return reached if now.runnable_seconds is not None else reached._replace(runnable_seconds=None)


def _reached(before: Times, now: Times) -> Times:
    """Return the greater of each two times; those of now where it is another domain's, which took over id or name."""
    if any(was is not None and time is not None and was - time > MAX_APART for was, time in zip(before, now)):
        return now
    return _greater(before, now) + now[len(before) :]


def _greater(before: Times, now: Times) -> Times:
    return [was if time is None or (was is not None and was > time) else time for was, time in zip(before, now)]


class DuplicateNames:
    """Numbers domains of the same name, from one iteration to the next, so that no number is passed to another guest.

    xentop prints domains in the order of their ids, so the n-th of a name is the same guest as long as their number is
    the same and none of their counters has decreased. After any other change it can't be known which one went or came:
    all domains of that name get new numbers, even if only one is left. A name that has been unused for long is
    forgotten.
    """

    def __init__(self) -> None:
        # Of the iteration before, by name: the domains and the first one's number, 0 where no other ever had the name.
        self._last: dict[str, tuple[list[Domain], int]] = {}
        self._highest: dict[str, int] = {}  # number ever given to a domain of the name
        self._in_use: dict[str, int] = {}  # of these names, the last look at which a domain had it
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with `duplicate` set in the domains that need it."""
        by_name: defaultdict[str, list[Domain]] = defaultdict(list)
        for domain in host.domains:
            if domain.domid != DOM0:
                by_name[domain.name].append(domain)
        self._last = {name: (domains, self._first_number(name, domains)) for name, domains in by_name.items()}
        self._forget_unused_names()
        numbers = {name: count(first) for name, (_, first) in self._last.items() if first}
        if not numbers:
            return host
        return host._replace(
            domains=tuple(
                domain._replace(duplicate=next(numbers[domain.name]))
                if domain.domid != DOM0 and domain.name in numbers
                else domain
                for domain in host.domains
            )
        )

    def _first_number(self, name: str, domains: list[Domain]) -> int:
        if len(domains) == 1 and name not in self._highest:
            return 0
        last, first = self._last.get(name, ([], 0))
        if first and len(last) == len(domains):
            pairs = zip(last, domains)
            if not any(was > now for before, after in pairs for was, now in zip(_counters(before), _counters(after))):
                return first
        first = self._highest.get(name, 0) + 1
        self._highest[name] = first + len(domains) - 1
        return first

    def _forget_unused_names(self) -> None:
        self._look += 1
        for name in list(self._highest):
            if name in self._last:
                self._in_use[name] = self._look
            elif self._look - self._in_use[name] > _REMEMBERED:
                del self._highest[name], self._in_use[name]


def _counters(domain: Domain) -> tuple[float, ...]:
    """Return counters that never decrease while a domain exists and keeps its devices."""
    ways = [way for network in domain.networks for way in (network.receive, network.transmit)]
    requests = [way.requests for block in domain.blocks for way in (block.read, block.write) if way]
    bytes_and_packets = sum(way.bytes for way in ways), sum(way.packets for way in ways)
    return (domain.cpu_seconds or 0, *bytes_and_packets, sum(requests))


class _Seen(NamedTuple):
    look: int  # the last at which the domain was there
    cpu_seconds: float
    vifs: int  # interfaces that there were, shown or not
    packets: dict[str, int]  # of each that was shown, by place
    generation: int


class Places:
    """Names a domain's interfaces by position, from one iteration to the next, so that no name is passed to another.

    xentop numbers the existing interfaces, in Dom0's order: after one was added or removed it can't be known which is
    which. All of them then start again under their position and a number: "0-2", "1-2". Packets show that
    an interface was replaced, as bytes wrap on 32-bit Dom0s.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None, int | None], _Seen] = {}
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with interfaces named so; `duplicate` must be set already."""
        self._look += 1
        named = host._replace(domains=tuple([self._named(domain) for domain in host.domains]))
        if len(self._seen) > len(host.domains):
            self._seen = {key: seen for key, seen in self._seen.items() if self._look - seen.look <= _REMEMBERED}
        return named

    def _named(self, domain: Domain) -> Domain:
        key = domain.name, domain.domid, domain.duplicate
        vifs = len(domain.networks) if domain.vifs is None else domain.vifs
        packets = {network.vif: network.receive.packets + network.transmit.packets for network in domain.networks}
        cpu_seconds, generation = domain.cpu_seconds or 0, 0
        if before := self._seen.get(key):
            generation = before.generation
            # Of a domain that was created again, and where there was none before, all interfaces are new.
            if before.vifs and cpu_seconds >= before.cpu_seconds - MAX_APART:
                fell = any(packets.get(vif, counted) < counted for vif, counted in before.packets.items())
                generation += 1 if fell or vifs != before.vifs else 0
        self._seen[key] = _Seen(self._look, cpu_seconds, vifs, packets, generation)
        if not generation:
            return domain
        return domain._replace(
            networks=tuple([network._replace(vif=f"{network.vif}-{generation + 1}") for network in domain.networks])
        )


class Successors:
    """Notes when the only domain of a name appears, or its CPU time goes back: it was made, renamed or rebooted.

    A young guest's CPU time alone doesn't show that. Only for a source without ids.
    """

    def __init__(self) -> None:
        self._last: dict[str, float | None] | None = None  # CPU seconds by name; None: before the first look
        self._noted: dict[str, float] = {}  # by name, when last

    def note(self, host: Host, now: float) -> bool:
        """Look at a host; return whether there was anything to note."""
        names = Counter(domain.name.strip() for domain in host.domains)
        without_id = {domain.name.strip(): domain.cpu_seconds for domain in host.domains if domain.domid is None}
        cpu_seconds = {name: seconds for name, seconds in without_id.items() if names[name] == 1}
        last = cpu_seconds if self._last is None else self._last
        new = {name for name, seconds in cpu_seconds.items() if name not in last or _went_back(last[name], seconds)}
        self._noted = {name: then for name, then in self._noted.items() if name in cpu_seconds}
        self._noted.update(dict.fromkeys(new, now))
        self._last = cpu_seconds
        return bool(new)

    def since(self, moment: float) -> set[str]:
        """Return the names that something was noted of then or later."""
        return {name for name, then in self._noted.items() if then >= moment}


def _went_back(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now < before
