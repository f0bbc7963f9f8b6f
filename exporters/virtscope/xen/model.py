"""A Xen host and its domains in plain typed values: seconds, bytes, the guest's point of view. Pure functions only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Callable, NamedTuple, TypeVar

from virtscope.xen.source.libxenstat import RawDomain, RawNetwork, RawNode, RawVbd
from virtscope.xen.source.runstate import RawRunstate
from virtscope.xen.text import TextDomain, TextHost, TextVbd
from virtscope.xen.toolstack.model import Guest

DOM0 = 0
DOM0_NAME = b"Domain-0"
STATES = ("running", "blocked", "paused", "shutdown", "crashed", "dying")
# DOMAIN_RUNSTATE_* from 0 on, in the public/domctl.h of XenServer's Xen.
RUNSTATES = ("full_run", "full_contention", "concurrency_hazard", "blocked", "partial_run", "partial_contention")

_UNLIMITED = 2**64 - 1
_SECTOR_BYTES = 512
# Releases whose libxenstat gives, for the sectors read, what happened to lie in memory: from commit 91c3e3dc91d6, which
# scans the number into the sectors written, to 89d57f291e37.
_LOST_READ_SECTORS = re.compile(r"4\.(?:13\.[0-3]|14\.[0-2]|15\.0)(?![0-9])")
_VBD_TYPES = {1: "BlkBack", 2: "BlkTap", 3: "Tapdisk3"}  # as xentop names them


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
    namesake: int | None = None  # tells domains of one name apart where there is no domid
    vifs: int | None = None  # interfaces that the source counts, where it may not show all of them
    told: Guest | None = None  # what the toolstack tells of it; None where it doesn't (yet)


class Missing(NamedTuple):
    """What the source counts and doesn't describe, or so that one can't be told from another; in no domain's parts."""

    vcpus: int
    networks: int
    blocks: int


class Host(NamedTuple):
    """A Xen host at one moment."""

    xen_version: str | None  # None, here and below: the source doesn't say
    cpus: int | None
    cpu_hertz: int | None
    memory_bytes: int | None
    memory_free_bytes: int | None
    domains: tuple[Domain, ...]
    missing: Missing = Missing(0, 0, 0)


class Waiting(NamedTuple):
    """How long a domain's vCPUs ran and waited, where the hypervisor tells; only differences mean anything."""

    domid: int
    name: str
    runstate_seconds: dict[str, float]  # by RUNSTATES: what all its vCPUs were in together
    missed_changes: int  # of the run state, that the hypervisor did not record
    runnable_seconds: float | None  # summed over the vCPUs; None: this hypervisor doesn't say


def from_libxenstat(node: RawNode) -> Host:
    """Return the host that libxenstat described."""
    xen_version = _text(node.xen_version)
    domains = tuple([_domain(domain, tells_read_sectors(xen_version)) for domain in node.domains])
    return Host(
        xen_version=xen_version,
        cpus=node.num_cpus,
        cpu_hertz=node.cpu_hz,
        memory_bytes=node.tot_mem,
        memory_free_bytes=node.free_mem,
        domains=domains,
        missing=Missing(
            vcpus=0,
            networks=sum([len(raw.networks) - len(domain.networks) for raw, domain in zip(node.domains, domains)]),
            blocks=sum([len(raw.vbds) - len(domain.blocks) for raw, domain in zip(node.domains, domains)]),
        ),
    )


def waiting(node: RawNode, accounts: Iterable[RawRunstate]) -> list[Waiting]:
    """Return the accounts of these domains."""
    domains = {domain.id: domain for domain in node.domains}
    return [
        Waiting(
            domid=raw.domid,
            name=_text(domains[raw.domid].name),
            runstate_seconds={state: time / 1e9 for state, time in zip(RUNSTATES, raw.times)},
            missed_changes=raw.missed_changes,
            # A mean over all vCPUs, online or not: the hypervisor divided by their number. A domain that is being
            # destroyed has none any more.
            runnable_seconds=raw.runnable * len(domains[raw.domid].vcpus) / 1e9
            if raw.runnable is not None and domains[raw.domid].vcpus
            else None,
        )
        for raw in accounts
    ]


def tells_read_sectors(xen_version: str | None) -> bool:
    """Return whether this Xen's libxenstat, and so its xentop, can be believed on sectors read; if unknown, it can."""
    return not _LOST_READ_SECTORS.match(xen_version or "")


def from_text(host: TextHost, xen_version: str | None = None) -> Host:
    """Return the host that an iteration of xentop described. Its guests have no domid, and the host no figures.

    `xen_version` is that of the running hypervisor, where it is known.

    Dom0 is the one domain named Domain-0, if it is running: it always is when xentop asks, which runs in it. Where
    several bear that name, none is taken for Dom0.
    """
    named_dom0 = [domain for domain in host.domains if domain.name == DOM0_NAME]
    dom0 = named_dom0[0] if len(named_dom0) == 1 and named_dom0[0].state.endswith(b"r") else None
    told = tells_read_sectors(xen_version)
    domains = tuple(_text_domain(domain, DOM0 if domain is dom0 else None, told) for domain in host.domains)
    pairs = list(zip(host.domains, domains))
    return Host(
        xen_version=xen_version,
        cpus=None,
        cpu_hertz=None,
        memory_bytes=None,
        memory_free_bytes=None,
        domains=domains,
        missing=Missing(
            vcpus=sum(raw.vcpus for raw in host.domains if raw.vcpu_seconds is None),
            networks=sum(
                max(raw.network_count or 0, len(raw.networks)) - len(domain.networks) for raw, domain in pairs
            ),
            blocks=sum(max(raw.vbd_count or 0, len(raw.vbds)) - len(domain.blocks) for raw, domain in pairs),
        ),
    )


def _text_domain(raw: TextDomain, domid: int | None, read_sectors_told: bool) -> Domain:
    return Domain(
        domid=domid,
        name=_text(raw.name),
        cpu_seconds=_whole_cpu_seconds(raw.cpu_seconds),
        memory_bytes=raw.memory_kib * 1024,
        memory_limit_bytes=None if raw.memory_limit_kib is None else raw.memory_limit_kib * 1024,
        ssid=raw.ssid,
        states=frozenset(state for state in STATES if state[0].encode() in raw.state),
        vcpus=tuple(_text_vcpu(raw.vcpu_seconds, number) for number in range(raw.vcpus)),
        networks=_known_apart(list(map(_network, raw.networks)), _VIF, raw.network_count),
        blocks=_known_apart([_text_block(vbd, read_sectors_told) for vbd in raw.vbds], _VBD, raw.vbd_count),
        vifs=raw.network_count,
    )


def _text_vcpu(seconds: dict[int, int] | None, number: int) -> Vcpu:
    """Return a vCPU; xentop leaves those out that are offline."""
    if seconds is None:
        return Vcpu(None, None)
    return Vcpu(number in seconds, _whole_cpu_seconds(seconds[number]) if number in seconds else None)


def _whole_cpu_seconds(seconds: int) -> float | None:
    """Return CPU time, or None where bit 63 of the nanoseconds slipped out: what is left isn't known to the second."""
    return None if seconds >= (1 << 63) // 10**9 else float(seconds)


def _text_block(raw: TextVbd, read_sectors_told: bool) -> Block:
    return Block(
        vbd=vbd_name(raw.number),
        device=_device(raw.number),
        type=raw.type,
        read=_requests(raw.read_requests, raw.read_sectors if read_sectors_told else None),
        write=_requests(raw.write_requests, raw.write_sectors),
        out_of_requests=_unwrapped(raw.out_of_requests),
    )


def _requests(count: int | None, sectors: int | None) -> Requests | None:
    count, sectors = _unwrapped(count), _unwrapped(sectors)
    return None if count is None else Requests(count, None if sectors is None else sectors * _SECTOR_BYTES)


def _unwrapped(counter: int | None) -> int | None:
    """Undo what blkback did that keeps 32 bits and prints them with a sign, which libxenstat reads as 2^64 - n.

    Modulo 2^32 that is the counter again, which goes on over 2^31 and begins anew at 2^32. Anything else above 2^63
    is no counter of that kind, and None.
    """
    if counter is None or counter < 1 << 63:
        return counter
    return counter % (1 << 32) if counter >= (1 << 64) - (1 << 31) else None


def _domain(raw: RawDomain, read_sectors_told: bool) -> Domain:
    return Domain(
        domid=raw.id,
        name=_text(raw.name),
        cpu_seconds=_cpu_seconds(raw.cpu_ns),
        memory_bytes=raw.cur_mem,
        memory_limit_bytes=None if raw.max_mem == _UNLIMITED else raw.max_mem,
        ssid=raw.ssid,
        states=frozenset(state for state in STATES if getattr(raw, state)),
        vcpus=tuple(Vcpu(bool(vcpu.online), _cpu_seconds(vcpu.ns)) for vcpu in raw.vcpus),
        networks=_known_apart(list(map(_network, raw.networks)), _VIF),
        blocks=_known_apart([_block(vbd, read_sectors_told) for vbd in raw.vbds], _VBD),
    )


def _text(name: bytes | None) -> str:
    """Decode a name that its guest's owner chose freely; bytes that are no UTF-8 stay visible as \\x escapes."""
    return "" if name is None else name.decode("utf-8", "backslashreplace")


def _cpu_seconds(nanoseconds: int) -> float:
    """Convert CPU time, without bit 63.

    Xen keeps a vCPU's state update flag in that bit and some releases (4.10 to 4.12) let it slip out, which would be a
    jump of 292 years: xen-devel, 2019-10-06, J. Gross; fixed in Xen by commit f28c4c4c10bd.
    """
    return (nanoseconds & ~(1 << 63)) / 1e9


T = TypeVar("T", Network, Block)
_VIF: Callable[[Network], str] = attrgetter("vif")
_VBD: Callable[[Block], str] = attrgetter("vbd")


def _known_apart(devices: Sequence[T], name: Callable[[T], str], most: int | None = None) -> tuple[T, ...]:
    """Leave out the devices of a domain that nothing tells apart; all of them where there are more than there can be.

    An HVM guest's interface has two ends in Dom0, vif3.0 and QEMU's vif3.0-emu; the guest uses one or the other,
    depending on its driver, and QEMU may take its own away. /proc/net/dev tells them apart, libxenstat gives both the
    number 0. Their sum would go back when one of them goes. Two block devices of one number may be of two back ends.
    """
    names = list(map(name, devices))
    if most is not None and len(devices) > most:
        return ()  # the lines of another domain, whose row is lost, are among them
    if len(set(names)) == len(names):
        return tuple(devices)
    borne = Counter(names)
    return tuple(device for device, its_name in zip(devices, names) if borne[its_name] == 1)


def _network(raw: RawNetwork) -> Network:
    """Turn the interface round: libxenstat reads Dom0's vif, which receives what the guest transmits."""
    return Network(
        vif=f"{raw.id}-emu" if raw.emulated else str(raw.id),
        receive=Traffic(raw.tbytes, raw.tpackets, raw.terrs, raw.tdrop),
        transmit=Traffic(raw.rbytes, raw.rpackets, raw.rerrs, raw.rdrop),
    )


def _block(raw: RawVbd, read_sectors_told: bool) -> Block:
    counted = not raw.error
    return Block(
        vbd=vbd_name(raw.dev),
        device=_device(raw.dev),
        type=_VBD_TYPES.get(raw.type, "Unidentified"),
        read=_requests(raw.rd_reqs, raw.rd_sects if read_sectors_told else None) if counted else None,
        write=_requests(raw.wr_reqs, raw.wr_sects) if counted else None,
        out_of_requests=_unwrapped(raw.oo_reqs) if counted else None,
    )


@lru_cache(maxsize=1024)  # hosts have few numbers, guests many devices
def _device(number: int) -> str:
    return f"{number >> 8:x}:{number & 0xFF:x}"


@lru_cache(maxsize=1024)
def vbd_name(number: int) -> str:
    """Return the guest's name of a virtual block device, such as "xvda" or "xvdb1" for 51712 and 51729.

    The number's scheme: docs/man/xen-vbd-interface.7 in Xen's source.
    """
    if number >> 28 == 1:  # 1<<28 | disk<<8 | partition: beyond the sixteenth disk or the fifteenth partition
        return _disk("xvd", number >> 8 & 0xFFFFF, number & 0xFF)
    major, minor = number >> 8, number & 0xFF
    if major == 202:  # xvd: 202<<8 | disk<<4 | partition
        return _disk("xvd", minor >> 4, minor & 0xF)
    if major == 8:  # sd: 8<<8 | disk<<4 | partition
        return _disk("sd", minor >> 4, minor & 0xF)
    if major in {3, 22}:  # hd: 3<<8 | disk<<6 | partition for the first two, 22<<8 for the next two
        return _disk("hd", (2 if major == 22 else 0) + (minor >> 6), minor & 0x3F)
    return str(number)


def _disk(prefix: str, disk: int, partition: int) -> str:
    letters = ""
    place = disk + 1
    while place:  # a..z, aa..az, ba..: digits from 1, without a zero
        place, letter = divmod(place - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return f"{prefix}{letters}{partition or ''}"
