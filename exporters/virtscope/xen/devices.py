"""Converts Dom0's counters of a guest's devices to the model, for libxenstat, xentop and /proc/net/dev.

Dom0 counts its own end of an interface, so receive and transmit are swapped here. Block devices have numbers, which are
converted to the guest's names. Devices that share a name are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar

from virtscope.xen.model import Block, Network, Requests, Traffic

_SECTOR_BYTES = 512
# Releases whose libxenstat returns uninitialised memory as the sectors read: commit 91c3e3dc91d6 scans that number into
# the sectors written; 89d57f291e37 fixes it.
_LOST_READ_SECTORS = re.compile(r"4\.(?:13\.[0-3]|14\.[0-2]|15\.0)(?![0-9])")

T = TypeVar("T", Network, Block)
_name = itemgetter(0)  # of both: vif, vbd


def network(number: int, counters: Sequence[int], emulated: bool = False) -> Network:
    """Return an interface from its number and the counters of Dom0's end, which receives the guest's packets.

    `counters` are bytes, packets, errors and drops received, then sent. `emulated`: it is QEMU's end of the interface.
    """
    rbytes, rpackets, rerrs, rdrop, tbytes, tpackets, terrs, tdrop = counters
    return Network(
        f"{number}-emu" if emulated else str(number),
        Traffic(tbytes, tpackets, terrs, tdrop),
        Traffic(rbytes, rpackets, rerrs, rdrop),
    )


def block(backend: str, number: int, counters: Sequence[int | None]) -> Block:
    """Return a block device from its back end, its number and the back end's counters.

    `counters` are: times out of requests, read requests, write requests, sectors read and written; None: not counted.
    """
    oo, rd, wr, rsect, wsect = counters
    return Block(vbd_name(number), _device(number), backend, _requests(rd, rsect), _requests(wr, wsect), _unwrapped(oo))


def _requests(count: int | None, sectors: int | None) -> Requests | None:
    count, sectors = _unwrapped(count), _unwrapped(sectors)
    return None if count is None else Requests(count, None if sectors is None else sectors * _SECTOR_BYTES)


def _unwrapped(counter: int | None) -> int | None:
    """Undo the sign of a 32-bit blkback counter, which libxenstat reads as 2^64 - n.

    Modulo 2^32 it is the counter again, which passes 2^31 and wraps at 2^32. Any other value above 2^63 is no such
    counter: None.
    """
    if counter is None or counter < 1 << 63:
        return counter
    return counter % (1 << 32) if counter >= (1 << 64) - (1 << 31) else None


def loses_read_sectors(xen_version: str | None) -> bool:
    """Return whether this Xen's libxenstat, and so xentop, returns garbage for sectors read."""
    return _LOST_READ_SECTORS.match(xen_version or "") is not None


def known_apart(devices: Sequence[T], maximum: int | None = None) -> tuple[T, ...]:
    """Leave out a domain's devices that share a name; leave out all if there are more than `maximum`.

    An HVM guest's interface has two ends in Dom0, vif3.0 and QEMU's vif3.0-emu; the guest uses one or the other,
    depending on its driver, and QEMU may remove its own. /proc/net/dev names each, libxenstat numbers both 0. Their sum
    would drop when one of them disappears. Two block devices with one number may be of two back ends.
    """
    if maximum is not None and len(devices) > maximum:
        return ()  # some lines belong to another domain, whose row is lost
    times = Counter(map(_name, devices))
    return tuple(devices) if len(times) == len(devices) else tuple([each for each in devices if times[each[0]] == 1])


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
    if major in {202, 8}:  # major<<8 | disk<<4 | partition
        return _disk("xvd" if major == 202 else "sd", minor >> 4, minor & 0xF)
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
