"""A Xen host and its domains in plain typed values: seconds, bytes, the guest's point of view. Pure functions only."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

from virtscope.xentop.source.libxenstat import RawDomain, RawNetwork, RawNode, RawVbd

DOM0 = 0
STATES = ("running", "blocked", "paused", "shutdown", "crashed", "dying")

_UNLIMITED = 2**64 - 1
_SECTOR_BYTES = 512
_VBD_TYPES = {1: "BlkBack", 2: "BlkTap", 3: "Tapdisk3"}  # as xentop names them


class Traffic(NamedTuple):
    """One direction of a virtual interface, counted since the interface was made."""

    bytes: int
    packets: int
    errors: int
    drops: int


class Network(NamedTuple):
    """A virtual interface, seen from its guest."""

    vif: int
    receive: Traffic
    transmit: Traffic


class Requests(NamedTuple):
    """One direction of a virtual block device, counted since the device was made."""

    requests: int
    bytes: int


class Block(NamedTuple):
    """A virtual block device. Its counters are None while the back end has none (some back ends keep no statistics)."""

    vbd: str  # as the guest names it: "xvda"; the number in decimal where it follows no known scheme
    device: str  # major:minor in hex, as xentop prints it: "ca:0"
    type: str  # the back end: BlkBack, BlkTap, Tapdisk3, Unidentified
    read: Requests | None
    write: Requests | None
    out_of_requests: int | None  # how often the back end had no request slot left


class Vcpu(NamedTuple):
    """A virtual CPU; its number is its place among the domain's vCPUs."""

    online: bool
    cpu_seconds: float


class Domain(NamedTuple):
    """A domain: Dom0 (domid 0) or a guest."""

    domid: int
    name: str
    cpu_seconds: float
    memory_bytes: int
    memory_limit_bytes: int | None  # None: no limit
    ssid: int
    states: frozenset[str]  # of STATES; none of them means runnable and waiting for a CPU
    vcpus: tuple[Vcpu, ...]
    networks: tuple[Network, ...]
    blocks: tuple[Block, ...]


class Host(NamedTuple):
    """A Xen host at one moment."""

    xen_version: str
    cpus: int
    cpu_hertz: int
    memory_bytes: int
    memory_free_bytes: int
    domains: tuple[Domain, ...]


def from_libxenstat(node: RawNode) -> Host:
    """Return the host that libxenstat described."""
    return Host(
        xen_version=_text(node.xen_version),
        cpus=node.num_cpus,
        cpu_hertz=node.cpu_hz,
        memory_bytes=node.tot_mem,
        memory_free_bytes=node.free_mem,
        domains=tuple(_domain(domain) for domain in node.domains),
    )


def _domain(raw: RawDomain) -> Domain:
    return Domain(
        domid=raw.id,
        name=_text(raw.name),
        cpu_seconds=_cpu_seconds(raw.cpu_ns),
        memory_bytes=raw.cur_mem,
        memory_limit_bytes=None if raw.max_mem == _UNLIMITED else raw.max_mem,
        ssid=raw.ssid,
        states=frozenset(state for state in STATES if getattr(raw, state)),
        vcpus=tuple(Vcpu(bool(vcpu.online), _cpu_seconds(vcpu.ns)) for vcpu in raw.vcpus),
        networks=tuple(_network(network) for network in _one_per_vif(raw.networks)),
        blocks=tuple(_block(vbd) for vbd in raw.vbds),
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


def _one_per_vif(networks: Iterable[RawNetwork]) -> Iterable[RawNetwork]:
    """Add up what bears the same number: an HVM guest's interface has two ends in Dom0, vif3.0 and QEMU's vif3.0-emu.

    The guest uses one or the other, depending on its driver. libxenstat reads the number 0 from both names.
    """
    by_number: dict[int, RawNetwork] = {}
    for raw in networks:
        kept = by_number.get(raw.id)
        by_number[raw.id] = raw if kept is None else RawNetwork(raw.id, *map(add, kept[1:], raw[1:]))
    return by_number.values()


def _network(raw: RawNetwork) -> Network:
    """Turn the interface round: libxenstat reads Dom0's vif, which receives what the guest transmits."""
    return Network(
        vif=raw.id,
        receive=Traffic(raw.tbytes, raw.tpackets, raw.terrs, raw.tdrop),
        transmit=Traffic(raw.rbytes, raw.rpackets, raw.rerrs, raw.rdrop),
    )


def _block(raw: RawVbd) -> Block:
    counted = not raw.error
    return Block(
        vbd=vbd_name(raw.dev),
        device=f"{raw.dev >> 8 & 0xFF:x}:{raw.dev & 0xFF:x}",
        type=_VBD_TYPES.get(raw.type, "Unidentified"),
        read=Requests(raw.rd_reqs, raw.rd_sects * _SECTOR_BYTES) if counted else None,
        write=Requests(raw.wr_reqs, raw.wr_sects * _SECTOR_BYTES) if counted else None,
        out_of_requests=raw.oo_reqs if counted else None,
    )


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
