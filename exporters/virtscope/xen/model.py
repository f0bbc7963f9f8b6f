"""A Xen host and its domains in plain typed values: seconds, bytes, the guest's point of view; they know no source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_DIGITS = re.compile(rb"[0-9]{1,20}")

DOM0 = 0
DOM0_NAME = b"Domain-0"
IDLE = 0x7FFF  # DOMID_IDLE in public/xen.h: the domain that a physical CPU runs when it has nothing to do
REST = -1  # no domain's id: all those that are not named
STATES = ("running", "blocked", "paused", "shutdown", "crashed", "dying")
# DOMAIN_RUNSTATE_* from 0 on, in the public/domctl.h of XenServer's Xen.
RUNSTATES = ("full_run", "full_contention", "concurrency_hazard", "blocked", "partial_run", "partial_contention")


class Traffic(NamedTuple):
    """One direction of a virtual interface, counted since the interface was made."""

    bytes: int
    packets: int
    errors: int
    drops: int


class Network(NamedTuple):
    """A virtual interface, seen from its guest."""

    vif: str  # its number, "0-emu" for QEMU's end; from text its place in xentop's list, where each end has one
    receive: Traffic
    transmit: Traffic


class Requests(NamedTuple):
    """One direction of a virtual block device, counted since the device was made."""

    requests: int
    bytes: int | None  # None: the source counts requests alone


class Block(NamedTuple):
    """A virtual block device. Its counters are None while the back end has none (some back ends keep no statistics)."""

    vbd: str  # as the guest names it: "xvda"; the number in decimal where it follows no known scheme
    device: str  # major:minor in hex, as xentop prints it: "ca:0"
    type: str  # the back end: BlkBack, BlkTap, Tapdisk3, Unidentified; "" where the source doesn't say
    read: Requests | None
    write: Requests | None
    out_of_requests: int | None  # how often the back end had no request slot left


class Vcpu(NamedTuple):
    """A virtual CPU; its number is its place among the domain's vCPUs."""

    online: bool | None  # None: the source doesn't say
    cpu_seconds: float | None  # likewise


class Missing(NamedTuple):
    """How many of a domain's parts the source counts and doesn't describe, or describes ambiguously; none is shown."""

    vcpus: int
    networks: int
    blocks: int


NOTHING_MISSING = Missing(0, 0, 0)


class Domain(NamedTuple):
    """A domain: Dom0 (domid 0) or a guest."""

    domid: int | None  # None: the source knows names alone
    name: str
    cpu_seconds: float | None  # None: the source gave what can't be CPU time
    memory_bytes: int
    memory_limit_bytes: int | None  # None: no limit
    ssid: int
    states: frozenset[str]  # of STATES; none of them means runnable and waiting for a CPU
    vcpus: tuple[Vcpu, ...]
    networks: tuple[Network, ...]
    blocks: tuple[Block, ...]
    missing: Missing = NOTHING_MISSING
    duplicate: int | None = None  # distinguishes domains of the same name where there is no domid
    vifs: int | None = None  # interfaces that the source counts, where it may not show all of them


class Share(NamedTuple):
    """What a scheduler grants a domain. None: this scheduler has no such thing, or the toolstack doesn't say."""

    weight: int | None = None
    cap: int | None = None  # percent of a CPU; 0: no cap
    period: float | None = None  # seconds; each vCPU may run `budget` of each `period`
    budget: float | None = None
    cpupool: str = ""  # the CPU pool under which it is listed; "" before Xen 4.2


class Placement(NamedTuple):
    """Where a vCPU runs."""

    cpu: int | None  # the physical CPU it ran on last; None: the vCPU is offline
    hard: str  # CPUs it may run on: "all", "none" or such as "0-3,7"
    soft: str  # CPUs it is best run on; "" where the toolstack doesn't say


class Bandwidth(NamedTuple):
    """Memory bandwidth of a domain in bytes per second, by socket."""

    total: dict[int, int]
    local: dict[int, int]


class Guest(NamedTuple):
    """What the toolstack knows of a domain, Dom0 included."""

    domid: int
    name: str
    cpu_seconds: float  # when it was listed, to a tenth
    uuid: str  # "", here and below: the toolstack doesn't say
    type: str  # pv, hvm or pvh
    os: str  # in the words of an agent in the guest
    cpupool: str
    share: Share
    placements: dict[int, Placement]  # by the vCPU's number
    cache_bytes: dict[int, int]  # of the last-level cache, by socket; empty where the machine can't measure it
    bandwidth: Bandwidth
    weight_changes: int = 0  # seen since the domain first ran
    cap_changes: int = 0


class Host(NamedTuple):
    """A Xen host at one moment, as a source describes it, or the toolstack, which does so without its domains.

    Where a source leaves a field None, the toolstack's value is shown (toolstack.joined).
    """

    xen_version: str | None = None  # None, here and below: the source doesn't say
    cpus: int | None = None
    cpu_hertz: int | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    domains: tuple[Domain, ...] = ()
    guests: tuple[Guest | None, ...] = ()  # what the toolstack knows of each of `domains`; () where it isn't asked
    scheduler: str = ""  # that of Pool-0; "" where the source doesn't say

    def missing(self) -> Missing:
        """Return what is missing of all domains together."""
        of_domains = [domain.missing for domain in self.domains if any(domain.missing)]
        return Missing(*map(sum, zip(*of_domains))) if of_domains else NOTHING_MISSING


class Waiting(NamedTuple):
    """How long a domain's vCPUs ran and waited, where the hypervisor keeps account; only differences mean anything."""

    domid: int
    name: str
    runstate_seconds: dict[str, float]  # by RUNSTATES: what all its vCPUs were in together
    missed_changes: int  # of the run state, that the hypervisor did not record
    runnable_seconds: float | None  # summed over the vCPUs; None: this hypervisor doesn't say


class WaitEstimates(NamedTuple):
    """How long domains waited for a CPU while which ran, scaled from windows of a trace to all of the time."""

    seconds: dict[int, dict[int, float]]  # by the id of the domain that waited, and of the one that ran, IDLE or REST
    windows: int
    lost_records: int


class Timing(NamedTuple):
    """How long a scheduler lets a vCPU run, in seconds; None: it has no such limit or the toolstack doesn't say."""

    timeslice: float | None = None
    ratelimit: float | None = None


class Pool(NamedTuple):
    """A CPU pool and its scheduler."""

    name: str  # "" on a host whose toolstack knows no pools
    scheduler: str
    cpus: int | None
    timing: Timing = Timing()


class Problem(NamedTuple):
    """What was wrong with an answer of the toolstack; the rest of the answer is used."""

    command: str
    reason: str  # error: exit status other than 0; stderr: output on standard error; malformed: lines not parsed
    words: str


class Toolstack(NamedTuple):
    """What a toolstack answered in one round."""

    program: str
    host: Host
    pools: tuple[Pool, ...]
    guests: dict[int, Guest]
    problems: tuple[Problem, ...]
    problem_counts: Mapping[tuple[str, str], int] = MappingProxyType({})  # of all rounds, by command and reason


class Child(NamedTuple):
    """The xentop that is run, and its last iteration."""

    iteration_age: float  # seconds at most
    unknown_lines: int
    starts: int | None  # None: another one for each iteration


def decoded(name: bytes | None) -> str:
    """Decode a name that anyone may have chosen freely; bytes that are no UTF-8 stay visible as \\x escapes."""
    return "" if name is None else name.decode("utf-8", "backslashreplace")


def number(digits: bytes) -> int | None:
    """Return an unsigned 64 bit number, or None where these are not the digits of one."""
    value = int(digits) if _DIGITS.fullmatch(digits) else 1 << 64
    return value if value < 1 << 64 else None
