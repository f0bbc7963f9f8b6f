"""What a toolstack told in one round, in plain typed values: seconds, bytes, CPUs. Pure functions only."""

from __future__ import annotations

from typing import NamedTuple

from virtscope.toolkit.sources import SourceRubbish
from virtscope.xen.source.xl import RawToolstack
from virtscope.xen.toolstack import columns, details, info, listing, psr, schedulers, vcpus

_LONGEST_OS = 100


class Bandwidth(NamedTuple):
    """Memory bandwidth of a domain in bytes per second, by socket."""

    total: dict[int, int]
    local: dict[int, int]


class Guest(NamedTuple):
    """What the toolstack knows of a domain, Dom0 included."""

    domid: int
    name: str
    cpu_seconds: float  # when it was listed, to a tenth
    uuid: str  # "", here and below: not told
    type: str  # pv, hvm or pvh
    os: str  # in the words of an agent in the guest
    cpupool: str
    share: schedulers.Share
    placements: dict[int, vcpus.Placement]  # by the vCPU's number
    cache_bytes: dict[int, int]  # of the last-level cache, by socket; empty where the machine doesn't tell
    bandwidth: Bandwidth
    weight_changes: int = 0  # seen since the domain was first listed
    cap_changes: int = 0


class Pool(NamedTuple):
    """A CPU pool and its scheduler."""

    name: str  # "" on a host whose toolstack knows no pools
    scheduler: str
    cpus: int | None
    timing: schedulers.Timing


class Problem(NamedTuple):
    """What was wrong with an answer; the rest of it is used."""

    command: str
    reason: str  # error: it ended with another status than 0; complaint: it said something on standard error; rubbish
    words: str


class Toolstack(NamedTuple):
    """What a toolstack told in one round."""

    program: str
    info: info.Info
    pools: tuple[Pool, ...]
    guests: dict[int, Guest]
    problems: tuple[Problem, ...]


def understand(raw: RawToolstack) -> Toolstack:
    """Put the answers together by domid; raises SourceRubbish where the list of domains can't be read."""
    answers = {answer.command: answer for answer in raw.answers}
    problems = [
        Problem(answer.command, "error" if answer.failed else "complaint", answer.problem)
        for answer in raw.answers
        if answer.problem
    ]

    def output(command: str) -> bytes:
        return answers[command].output if command in answers else b""

    def refuse(command: str, lines: list[bytes]) -> None:
        if lines:
            words = f"{len(lines)} lines, of which the first is {lines[0][:200]!r}"
            problems.append(Problem(command, "rubbish", words))

    listed, unknown = listing.parse(output("list"))
    refuse("list", unknown)
    known_pools, unknown = schedulers.parse_pools(output("cpupool-list"))
    refuse("cpupool-list", unknown)
    placements, unknown = vcpus.parse(output("vcpu-list"))
    refuse("vcpu-list", unknown)
    shares: dict[int, schedulers.Share] = {}
    timings: dict[str, schedulers.Timing] = {}
    for command in schedulers.COMMANDS.values():
        some_shares, some_timings, unknown = schedulers.parse_shares(output(command))
        refuse(command, unknown)
        shares.update(some_shares)
        timings.update(some_timings)
    figures: dict[str, dict[int, dict[int, int]]] = {}
    for kind in psr.KINDS:
        figures[kind], unknown = psr.parse(output(f"psr-cmt-show {kind}"))
        refuse(f"psr-cmt-show {kind}", unknown)
    try:
        detailed = details.parse(output("list -l"))
    except SourceRubbish as error:
        detailed = {}
        problems.append(Problem("list -l", "rubbish", str(error)))

    host = info.parse(output("info"))
    cache, total, local = (figures[kind] for kind in psr.KINDS)
    os_names = {domid: _os(name) for domid, name in raw.os_names}
    guests = {}
    for each in listed:
        domid, detail = each.domid, detailed.get(each.domid)
        share = shares.get(domid, schedulers.Share())
        if detail and each.uuid and detail.uuid and each.uuid != detail.uuid:
            detail = None  # an earlier domain's of this id
        guests[domid] = Guest(
            domid=domid,
            name=each.name,
            cpu_seconds=each.cpu_seconds,
            uuid=each.uuid or (detail.uuid if detail else ""),
            type=detail.type if detail else "",
            os=os_names.get(domid, ""),
            cpupool=share.cpupool or each.cpupool,  # the list may print it right behind an XSM label
            share=share,
            placements=placements.get(domid, {}),
            cache_bytes=cache.get(domid, {}),
            bandwidth=Bandwidth(total.get(domid, {}), local.get(domid, {})),
        )
    return Toolstack(raw.program, host, _pools(known_pools, timings, host), guests, tuple(problems))


def _os(name: bytes) -> str:
    """Return the name that a guest gives its system; Windows agents add "|" and folders. Guests can write anything."""
    return columns.text(name.split(b"|")[0].strip())[:_LONGEST_OS]


def _pools(pools: list[schedulers.Pool], timings: dict[str, schedulers.Timing], host: info.Info) -> tuple[Pool, ...]:
    untold = schedulers.Timing(None, None)
    if not pools and host.scheduler:
        return (Pool("", host.scheduler, host.cpus, untold),)
    return tuple(Pool(pool.name, pool.scheduler, pool.cpus, timings.get(pool.name, untold)) for pool in pools)
