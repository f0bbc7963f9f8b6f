"""Keeps each reading of the host consistent with the previous one: clocks, duplicate names, reused names.

**Clocks.** CPU time must not go back while a domain lives, but the clocks of physical CPUs differ slightly. For a
running vCPU, Xen adds the time since its last start: the clock of the asking CPU minus that of the vCPU's CPU
(vcpu_runstate_get in xen/common/sched/core.c). If the asking CPU is ahead, a vCPU that has just stopped shows less than
before. The same holds for the time in each run state. Prometheus would see a counter reset, and add the whole counter
to a rate.

**Duplicate names.** xentop's text identifies domains only by name and interfaces only by position. Names and positions
that aren't unique or stable get a number.

**Totals.** A sum over the guests falls when one ends, so what ended guests used is kept.

**Reused names.** A name may have passed to another guest since the toolstack was asked.

Pass every reading of a source to each object here, in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple, Optional

from virtscope.toolkit import totals
from virtscope.xen.model import DOM0, Domain, Host, Totals, Waiting

MAX_APART = 1.0  # seconds, also one tick of a text's whole seconds. If CPU time drops by more, it is another domain

# Readings for which the numbers of an unused name are remembered: an hour at one scrape a second. Rates look back less
# far, so no rate spans two domains with the same number.
_REMEMBERED = 3600

Times = list[Optional[float]]
Key = tuple[Optional[int], str, Optional[int]]


class Clocks:
    """Remembers the CPU time of each domain and vCPU between readings."""

    def __init__(self) -> None:
        self._last: dict[Key, Times] = {}

    def steady(self, host: Host) -> Host:
        """Return the host without small drops of CPU time."""
        last, self._last = self._last, {}
        return host._replace(domains=tuple([self._steady_domain(domain, last) for domain in host.domains]))

    def _steady_domain(self, domain: Domain, last: dict[Key, Times]) -> Domain:
        key = _identity(domain)
        now = [domain.cpu_seconds, *[vcpu.cpu_seconds for vcpu in domain.vcpus]]
        # Times missing now, such as those of an offline vCPU, are remembered until the source has them again.
        self._last[key] = reached = _reached(last.get(key, []), now)
        if reached == now:
            return domain
        cpu_seconds, *vcpus = [None if time is None else most for time, most in zip(now, reached)]
        return domain._replace(
            cpu_seconds=cpu_seconds,
            vcpus=tuple([vcpu._replace(cpu_seconds=seconds) for vcpu, seconds in zip(domain.vcpus, vcpus)]),
        )


class WaitingClocks:
    """Remembers how long each domain's vCPUs ran and waited between readings."""

    def __init__(self) -> None:
        self._last: dict[int, Waiting] = {}

    def steady(self, domains: Iterable[Waiting]) -> list[Waiting]:
        """Return the domains without small drops of times."""
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
    """Return the greater of each two times; the current ones if another domain has taken over id or name."""
    if any(was is not None and time is not None and was - time > MAX_APART for was, time in zip(before, now)):
        return now
    return _greater(before, now) + now[len(before) :]


def _greater(before: Times, now: Times) -> Times:
    return [was if time is None or (was is not None and was > time) else time for was, time in zip(before, now)]


class Accounts:
    """Totals of the host and its guests since the first reading."""

    def __init__(self) -> None:
        self._dom0, self._totals = totals.Totals(), totals.Totals()
        self._counted = 0.0  # CPU seconds of Dom0 and guests
        self._idle: Sequence[int] = ()  # nanoseconds of each CPU at the previous reading, 0 if offline
        self._read_at = 0.0
        self._cpu_seconds = 0.0
        self._reached = 0.0

    def add_to(self, host: Host, now: float, idle: Sequence[int] | None = None) -> Host:
        """Return the host with its totals. Its domains are distinct and complete.

        `now` is in seconds of a clock that never jumps. `idle` has the idle nanoseconds of each physical CPU. Without
        it, the host's CPU time is the sum over its domains, with an estimate of what guests used at their ends.
        """
        # Numbers of domains that share a name change whenever one of them ends.
        ambiguous = {_identity(domain) for domain in host.domains if domain.duplicate}
        cpus = host.cpus or sum(len(domain.vcpus) for domain in host.domains)
        dom0 = {each.domid: {totals.CPU: each.cpu_seconds} for each in host.domains if each.domid == DOM0}
        self._dom0.add(dom0, now, cpus=cpus)
        counters = {_identity(domain): _account(domain) for domain in host.domains if domain.domid != DOM0}
        self._totals.add(counters, now, cpus=cpus, ambiguous=ambiguous)
        before, self._counted = self._counted, self._dom0.with_ends("cpu") + self._totals.with_ends("cpu")
        busy = self._busy(idle or (), now)
        self._cpu_seconds += self._counted - before if busy is None else busy
        self._reached = max(self._reached, self._cpu_seconds)
        values, unknown = self._totals.values, self._totals.unknown
        devices = [values.get(name, None if name in unknown else 0.0) for name in Totals._fields[2:]]
        return host._replace(totals=Totals(self._reached, values.get("cpu", 0.0), *devices))

    def _busy(self, idle: Sequence[int], now: float) -> float | None:
        """Return the CPU seconds since the previous reading by idle times; None without both.

        The two clocks differ slightly, so an idle CPU's time may be slightly negative; add_to() keeps the highest sum.
        A CPU that was or is offline has no time, nor has one whose idle time fell.
        """
        last, self._idle = self._idle, idle
        elapsed, self._read_at = now - self._read_at, now
        if not last or not idle:
            return None
        return sum(elapsed - (time - was) / 1e9 for was, time in zip(last, idle) if 0 < was <= time)


def _identity(domain: Domain) -> Key:
    return domain.domid, "" if domain.domid is not None else domain.name, domain.duplicate


def _account(domain: Domain) -> totals.Counters:
    """Return the counters by the names of `Totals`."""
    counters: dict[totals.Counter, float | None] = {totals.CPU: domain.cpu_seconds}
    if domain.vifs and not domain.networks:  # undecided, see text_networks.py
        counters["receive_bytes", None] = counters["transmit_bytes", None] = None
    for network in domain.networks:
        counters["receive_bytes", network.vif] = network.receive.bytes
        counters["transmit_bytes", network.vif] = network.transmit.bytes
    for block in domain.blocks:
        counters["read_bytes", block.vbd] = block.read and block.read.bytes
        counters["write_bytes", block.vbd] = block.write and block.write.bytes
    return counters


class WaitingTotal:
    """How long guests have waited for a CPU since the first reading, by guests that have ended, too."""

    def __init__(self) -> None:
        self._totals = totals.Totals()

    def add(self, accounts: Sequence[Waiting], vcpus: int, now: float) -> float | None:
        """Return the total in seconds, None on a hypervisor that doesn't count it. `vcpus` of all guests can wait."""
        if all(each.runnable_seconds is None for each in accounts):
            return None
        waits = {each.domid: {totals.CPU: each.runnable_seconds} for each in accounts if each.domid != DOM0}
        self._totals.add(waits, now, cpus=vcpus)
        return self._totals.values.get("cpu", 0.0)


class DuplicateNames:
    """Numbers domains of the same name; a number never passes to another guest.

    xentop prints domains in the order of their ids. So the n-th domain of a name is the same guest while their count is
    the same and none of their counters has decreased. After any other change nobody knows which one went or came: all
    domains of that name get new numbers, even if only one is left. A name that is unused for long is forgotten.
    """

    def __init__(self) -> None:
        # Previous iteration, by name: the domains and the number of the first, 0 if no other ever had the name.
        self._last: dict[str, tuple[list[Domain], int]] = {}
        self._highest: dict[str, int] = {}  # highest number ever given for the name
        self._in_use: dict[str, int] = {}  # by name, the last reading with a domain of that name
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with `duplicate` set in domains that share a name."""
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
    look: int  # last reading with this domain
    cpu_seconds: float
    vifs: int  # interfaces, shown or not
    packets: dict[str, int]  # of each shown interface, by position
    generation: int


class Places:
    """Names a domain's interfaces by position; a name never passes to another interface.

    xentop numbers the existing interfaces in Dom0's order. After one was added or removed, nobody knows which is which:
    all of them start again under their position and a number: "0-2", "1-2". A decrease in packets shows that an
    interface was replaced; bytes don't, as they wrap on 32-bit Dom0s.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None, int | None], _Seen] = {}
        self._look = 0

    def tell_apart(self, host: Host) -> Host:
        """Return the host with these names; `duplicate` must be set already."""
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
            # All interfaces are new if the domain had none before, or was created again.
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
    """Notes when the only domain of a name appears or its CPU time goes back: it was created, renamed or rebooted.

    A young guest's CPU time alone doesn't show that. Used only for a source without ids.
    """

    def __init__(self) -> None:
        self._last: dict[str, float | None] | None = None  # CPU seconds by name; None: before the first reading
        self._noted: dict[str, float] = {}  # time of the last note, by name

    def note(self, host: Host, now: float) -> bool:
        """Compare a host with the previous one; return whether there was anything to note."""
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
        """Return the names with a note at that moment or later."""
        return {name for name, then in self._noted.items() if then >= moment}


def _went_back(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now < before
