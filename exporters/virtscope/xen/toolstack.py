"""The toolstack's (xl's or xm's) values of the domains: merged, cached and joined to a scrape.

A polling round takes seconds, so ToolstackPoller runs in the background, and a scrape gets the last round's answers.
Meanwhile domains start, end and take over each other's names: `joined` matches the listed domains to those that live
now.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Callable, NamedTuple, TypeVar

from virtscope.toolkit.collect import Background, SourceMalformed
from virtscope.xen.continuity import Successors
from virtscope.xen.model import Bandwidth, Domain, Guest, Host, Pool, Problem, Share, Timing, Toolstack, decoded
from virtscope.xen.xl import RawToolstack, Xl
from virtscope.xen.xl_domains import parse_details, parse_list, parse_vcpus
from virtscope.xen.xl_host import PSR_KINDS, SCHEDULER_COMMANDS, parse_info, parse_pools, parse_psr, parse_shares

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_OS = 100  # characters
# Seconds by which the source's values may be older than the toolstack's: xentop's iterations are up to two.
_BEHIND = 3.0
_AHEAD = 1.0  # seconds by which a vCPU's run time may seem to exceed the elapsed time
_ROUNDING = 2**-23  # xl converts CPU time to a float
_NO_TIME = 2**63 / 1e9  # seconds: Xen 4.10 to 4.12 sometimes sets bit 63 of the nanoseconds


def parse(raw: RawToolstack) -> Toolstack:
    """Merge the answers by domid; raises SourceMalformed if the list of domains can't be parsed."""
    answers = {answer.command: answer for answer in raw.answers}
    problems = [
        Problem(answer.command, "error" if answer.failed else "stderr", answer.problem)
        for answer in raw.answers
        if answer.problem
    ]

    def output(command: str) -> bytes:
        return answers[command].output if command in answers else b""

    def refuse(command: str, lines: list[bytes]) -> None:
        if lines:
            words = f"{len(lines)} lines, of which the first is {lines[0][:200]!r}"
            problems.append(Problem(command, "malformed", words))

    def read(command: str, parser: Callable[[bytes], tuple[T, list[bytes]]]) -> T:
        parsed, unknown = parser(output(command))
        refuse(command, unknown)
        return parsed

    listed = read("list", parse_list)
    pools = read("cpupool-list", parse_pools)
    placements = read("vcpu-list", parse_vcpus)
    shares: dict[int, Share] = {}
    timings: dict[str, Timing] = {}
    for command in SCHEDULER_COMMANDS.values():
        some_shares, some_timings, unknown = parse_shares(output(command))
        refuse(command, unknown)
        shares.update(some_shares)
        timings.update(some_timings)
    cache, total, local = (read(f"psr-cmt-show {kind}", parse_psr) for kind in PSR_KINDS)
    try:
        detailed = parse_details(output("list -l"))
    except SourceMalformed as error:
        detailed = {}
        problems.append(Problem("list -l", "malformed", str(error)))

    host = parse_info(output("info"))
    # Windows agents add "|" and folders. Guests can write anything.
    os_names = {domid: decoded(name.split(b"|")[0].strip())[:_MAX_OS] for domid, name in raw.os_names}
    guests = {}
    for each in listed:
        domid, detail = each.domid, detailed.get(each.domid)
        share = shares.get(domid, Share())
        if detail and each.uuid and detail.uuid and each.uuid != detail.uuid:
            detail = None  # of an earlier domain with this id
        guests[domid] = Guest(
            domid=domid,
            name=each.name,
            cpu_seconds=each.cpu_seconds,
            uuid=each.uuid or (detail.uuid if detail else ""),
            type=detail.type if detail else "",
            os=os_names.get(domid, ""),
            cpupool=share.cpupool or each.cpupool,  # in the list, it may directly follow an XSM label
            share=share,
            placements=placements.get(domid, {}),
            cache_bytes=cache.get(domid, {}),
            bandwidth=Bandwidth(total.get(domid, {}), local.get(domid, {})),
        )
    if not pools and host.scheduler:
        pools = [Pool("", host.scheduler, host.cpus)]
    with_timings = tuple([pool._replace(timing=timings.get(pool.name, pool.timing)) for pool in pools])
    return Toolstack(raw.program, host, with_timings, guests, tuple(problems))


def joined(host: Host, toolstack: Toolstack, age: float = math.inf, passed_on: AbstractSet[str] = frozenset()) -> Host:
    """Return the host with the toolstack's values: for each running domain, and for fields that the source lacks.

    A domain is matched by id, or without ids by its name, if unique. A domain with less CPU time than in the
    toolstack's list, which is at most `age` seconds old, is another one that took over id or name. So is a domain
    matched by name whose CPU time grew faster than its vCPUs allow. (Ids can't be swapped, names can.) Names that may
    have been `passed_on` to another guest since aren't matched.
    """
    without_ids = any(domain.domid is None for domain in host.domains)
    by_name = _known_by_name(host, toolstack.guests.values(), passed_on) if without_ids else {}

    def guest(domain: Domain) -> Guest | None:
        known = by_name.get(domain.name.strip()) if domain.domid is None else toolstack.guests.get(domain.domid)
        return known if known and _may_be(known, domain, age) else None

    known = toolstack.host._asdict().items()
    return host._replace(
        guests=tuple([guest(domain) for domain in host.domains]),
        **{field: value for field, value in known if getattr(host, field) is None},
    )


def _known_by_name(host: Host, guests: Collection[Guest], passed_on: AbstractSet[str]) -> dict[str, Guest]:
    """Return the guests whose name is unique, both in the host and in the toolstack's list."""
    here = Counter(domain.name.strip() for domain in host.domains)
    there = Counter(guest.name.strip() for guest in guests)
    named = ((guest.name.strip(), guest) for guest in guests)
    return {name: guest for name, guest in named if here[name] == there[name] == 1 and name not in passed_on}


def _may_be(guest: Guest, domain: Domain, age: float) -> bool:
    if domain.cpu_seconds is None or guest.cpu_seconds >= _NO_TIME:
        return True
    rounding = guest.cpu_seconds * _ROUNDING + 1
    least = guest.cpu_seconds - rounding - _BEHIND * len(domain.vcpus)
    most = guest.cpu_seconds + rounding + (age + _AHEAD) * len(domain.vcpus)
    return least <= domain.cpu_seconds and (domain.domid is not None or domain.cpu_seconds <= most)


class _Counted(NamedTuple):
    has_run: bool
    weight: int | None
    cap: int | None
    weight_changes: int
    cap_changes: int


class Rounds:
    """Parses the toolstack's answers round by round, and counts changes and problems.

    Weights and caps are compared with the previous round, for each domain from its first CPU time to its end, whatever
    its name. Before it runs, the toolstack applies its configuration, which is no change. PromQL's changes() over the
    weight would count that too, and would miss changes between scrapes.

    Two changes between two rounds count as one, or as none if the second reverts the first.
    """

    def __init__(self) -> None:
        self._problems: Counter[tuple[str, str]] = Counter()
        self._counted: dict[tuple[int, str], _Counted] = {}  # by domid and uuid: ids are reused

    def parse(self, raw: RawToolstack) -> Toolstack:
        """Parse the next round; raises SourceMalformed."""
        toolstack = parse(raw)
        for problem in toolstack.problems:
            key = (problem.command, problem.reason)
            if not self._problems[key]:
                fields = {"command": problem.command, "reason": problem.reason, "err": problem.words}
                log.warning("incomplete answer of the toolstack", extra={"fields": fields})
            self._problems[key] += 1
        before, self._counted = self._counted, {}
        guests = {}
        for domid, guest in toolstack.guests.items():
            counted = self._counted[domid, guest.uuid] = _counted(before.get((domid, guest.uuid)), guest)
            guests[domid] = guest._replace(weight_changes=counted.weight_changes, cap_changes=counted.cap_changes)
        return toolstack._replace(guests=guests, problem_counts=dict(self._problems))


def _counted(before: _Counted | None, guest: Guest) -> _Counted:
    weight, cap = guest.share.weight, guest.share.cap
    if before is None or not before.has_run:
        return _Counted(guest.cpu_seconds > 0, weight, cap, 0, 0)
    # Values missing from this round haven't changed.
    return _Counted(
        True,
        before.weight if weight is None else weight,
        before.cap if cap is None else cap,
        before.weight_changes + (None not in {weight, before.weight} and weight != before.weight),
        before.cap_changes + (None not in {cap, before.cap} and cap != before.cap),
    )


class ToolstackPoller:
    """Polls the toolstack in the background."""

    def __init__(self, interval: float, xl: Xl | None = None) -> None:
        """Poll every `interval` seconds, and early for new domains. `xl` replaces this machine's toolstack."""
        rounds, self._xl = Rounds(), xl or Xl()
        self._successors = Successors()
        self.background = Background("xl", lambda: rounds.parse(self._xl.read()), interval, self._xl.programs)

    def origin(self) -> str:
        """Return the path of xl or xm."""
        return self._xl.program

    def add_to(self, host: Host) -> Host:
        """Return the host with the toolstack's values, if recent enough."""
        now = time.monotonic()
        succeeded = self._successors.note(host, now)
        age = self.background.age()  # before the answers, which newer ones may replace meanwhile
        toolstack = self.background.peek()
        if toolstack is None:
            return host
        age = math.inf if age is None else age
        host = joined(host, toolstack, age, self._successors.since(now - age))
        strangers = {(domain.domid, domain.name) for domain, guest in zip(host.domains, host.guests) if guest is None}
        if succeeded:
            self.background.wake()
        self.background.wake_for(strangers)
        return host


class ReplayedToolstack:
    """Adds a recorded toolstack's values to recorded hosts, in either order within a scrape.

    It lives through all passes of a recording, so that the counts of changes never drop.
    """

    def __init__(self) -> None:
        self._rounds = Rounds()
        self._raw: RawToolstack | None = None
        self._latest: Toolstack | None = None

    def parse(self, raw: RawToolstack) -> Toolstack:
        """Parse a round; the same one may come repeatedly."""
        if self._latest is None or raw != self._raw:
            self._raw, self._latest = raw, self._rounds.parse(raw)
        return self._latest

    def add_to(self, host: Host) -> Host:
        """Return the host with the toolstack's values."""
        return joined(host, self._latest) if self._latest else host
