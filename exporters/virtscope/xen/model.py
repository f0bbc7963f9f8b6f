"""A Xen host and its domains as plain typed values, independent of sources: seconds, bytes, the guest's view."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_DIGITS = re.compile(rb"[0-9]{1,20}")

DOM0 = 0
DOM0_NAME = b"Domain-0"
IDLE = 0x7FFF  # DOMID_IDLE in public/xen.h: the domain of idle physical CPUs
REST = -1  # not a domid: all domains that aren't named
STATES = ("running", "blocked", "paused", "shutdown", "crashed", "dying")
# DOMAIN_RUNSTATE_* from 0 on, in the public/domctl.h of XenServer's Xen.
RUNSTATES = ("full_run", "full_contention", "concurrency_hazard", "blocked", "partial_run", "partial_contention")


class Traffic(NamedTuple):
    """One direction of a virtual interface, counted since its creation."""

    bytes: int
    packets: int
    errors: int
    drops: int


class Network(NamedTuple):
    """A virtual interface, seen from its guest."""

    vif: str  # its number, "0-emu" for QEMU's end; from text its position in xentop's list, which has both ends
    receive: Traffic
    transmit: Traffic


class Requests(NamedTuple):
    """One direction of a virtual block device, counted since its creation."""

    requests: int
    bytes: int | None  # None: the source counts only requests


class Block(NamedTuple):
    """A virtual block device. Counters are None if the back end has none (some keep no statistics)."""

    vbd: str  # the guest's name: "xvda"; the decimal number if it follows no known scheme
    device: str  # major:minor in hex, as in xentop: "ca:0"
    type: str  # the back end: BlkBack, BlkTap, Tapdisk3, Unidentified; "" if unknown
    read: Requests | None
    write: Requests | None
    out_of_requests: int | None  # how often the back end had no request slot left


class Vcpu(NamedTuple):
    """A virtual CPU; its number is its index among the domain's vCPUs."""

    online: bool | None  # None: unknown
    cpu_seconds: float | None  # None: unknown


class Missing(NamedTuple):
    """Numbers of parts that the source counts but doesn't describe, or describes ambiguously; they aren't shown."""

    vcpus: int
    networks: int
    blocks: int


NOTHING_MISSING = Missing(0, 0, 0)


class Domain(NamedTuple):
    """A domain: Dom0 (domid 0) or a guest."""

    domid: int | None  # None: the source has only names
    name: str
    cpu_seconds: float | None  # None: the source's value can't be CPU time
    memory_bytes: int
    memory_limit_bytes: int | None  # None: no limit
    ssid: int
    states: frozenset[str]  # of STATES; empty: runnable and waiting for a CPU
    vcpus: tuple[Vcpu, ...]
    networks: tuple[Network, ...]
    blocks: tuple[Block, ...]
    missing: Missing = NOTHING_MISSING
    duplicate: int | None = None  # distinguishes domains of the same name without domid
    vifs: int | None = None  # interfaces counted by a source that may not show all


class Share(NamedTuple):
    """A domain's scheduler parameters. None: this scheduler doesn't have it, or the toolstack doesn't show it."""

    weight: int | None = None
    cap: int | None = None  # percent of a CPU; 0: no cap
    period: float | None = None  # seconds; each vCPU may run `budget` of each `period`
    budget: float | None = None
    cpupool: str = ""  # CPU pool; "" before Xen 4.2


class Placement(NamedTuple):
    """Where a vCPU runs."""

    cpu: int | None  # last physical CPU; None: the vCPU is offline
    hard: str  # allowed CPUs: "all", "none" or such as "0-3,7"
    soft: str  # preferred CPUs; "" if unknown


class Bandwidth(NamedTuple):
    """Memory bandwidth of a domain in bytes per second, by socket."""

    total: dict[int, int]
    local: dict[int, int]


class Guest(NamedTuple):
    """The toolstack's values of a domain, Dom0 included."""

    domid: int
    name: str
    cpu_seconds: float  # at the time of listing, rounded to 0.1 s
    uuid: str  # "", here and below: unknown
    type: str  # pv, hvm or pvh
    os: str  # reported by an agent in the guest
    cpupool: str
    share: Share
    placements: dict[int, Placement]  # by the vCPU's number
    cache_bytes: dict[int, int]  # of the last-level cache, by socket; empty if the machine can't measure it
    bandwidth: Bandwidth
    weight_changes: int = 0  # seen since the domain first ran
    cap_changes: int = 0


class Totals(NamedTuple):
    """What was used since the exporter started, by guests that have ended, too. None: the source doesn't count it."""

    cpu_seconds: float  # of the whole host
    guests_cpu_seconds: float
    receive_bytes: float | None
    transmit_bytes: float | None
    read_bytes: float | None
    write_bytes: float | None


class Host(NamedTuple):
    """A Xen host at one moment, from a source, or without domains from the toolstack.

    If a source leaves a field None, the toolstack's value is shown (toolstack.joined).
    """

    xen_version: str | None = None  # None, here and below: unknown
    cpus: int | None = None
    cpu_hertz: int | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    domains: tuple[Domain, ...] = ()
    guests: tuple[Guest | None, ...] = ()  # the toolstack's values of each of `domains`; () without toolstack
    scheduler: str = ""  # of Pool-0; "" if unknown
    totals: Totals | None = None

    def missing(self) -> Missing:
        """Return the sums over all domains."""
        of_domains = [domain.missing for domain in self.domains if any(domain.missing)]
        return Missing(*map(sum, zip(*of_domains))) if of_domains else NOTHING_MISSING


class Waiting(NamedTuple):
    """Run and wait times of a domain's vCPUs, if the hypervisor counts them; only differences are meaningful."""

    domid: int
    name: str
    runstate_seconds: dict[str, float]  # by RUNSTATES, which describe all vCPUs together
    missed_changes: int  # changes of the run state that the hypervisor didn't record
    runnable_seconds: float | None  # summed over the vCPUs; None: this hypervisor doesn't count it


class WaitEstimates(NamedTuple):
    """CPU wait by victim and by running domain, extrapolated from windows of a trace to all of the time."""

    seconds: dict[int, dict[int, float]]  # by domid of the waiting domain, then of the running one, IDLE or REST
    windows: int
    lost_records: int


class Timing(NamedTuple):
    """A scheduler's time limits, in seconds; None: it has no such limit, or the toolstack doesn't show it."""

    timeslice: float | None = None
    ratelimit: float | None = None


class Pool(NamedTuple):
    """A CPU pool and its scheduler."""

    name: str  # "" if the toolstack has no pools
    scheduler: str
    cpus: int | None
    timing: Timing = Timing()


class Problem(NamedTuple):
    """A problem with a toolstack's answer; the rest of the answer is used."""

    command: str
    reason: str  # error: exit status other than 0; stderr: output on standard error; malformed: lines not parsed
    words: str


class Toolstack(NamedTuple):
    """A toolstack's answers of one round."""

    program: str
    host: Host
    pools: tuple[Pool, ...]
    guests: dict[int, Guest]
    problems: tuple[Problem, ...]
    problem_counts: Mapping[tuple[str, str], int] = MappingProxyType({})  # of all rounds, by command and reason


class Child(NamedTuple):
    """The running xentop, and its last iteration."""

    iteration_age: float  # seconds at most
    unknown_lines: int
    starts: int | None  # None: a new xentop for each iteration


def decoded(name: bytes | None) -> str:
    """Decode an arbitrary name; bytes that aren't UTF-8 become \\x escapes."""
    return "" if name is None else name.decode("utf-8", "backslashreplace")


def number(digits: bytes) -> int | None:
    """Parse an unsigned 64-bit number; None if malformed."""
    value = int(digits) if _DIGITS.fullmatch(digits) else 1 << 64
    return value if value < 1 << 64 else None
