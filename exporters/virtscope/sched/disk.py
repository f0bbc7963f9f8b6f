"""Delay of disk requests by pairs of cgroups and device: the BPF programs of disk.bpf.c, in the block layer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable, NamedTuple

from virtscope.sched.libbpf import Object
from virtscope.sched.names import REST, Found
from virtscope.sched.pairs import Pair, Pairs, Waited
from virtscope.sched.reasons import Machine

OBJECT = Path(__file__).with_name("disk.bpf.o")

OTHER = 2**64 - 1  # from disk.bpf.c
# Those of this reader: the device's own service, and the time in which the kernel throttled requests.
DEVICE, THROTTLED = 2**64 - 2, 2**64 - 3

NOBODY = {DEVICE: "(device)", THROTTLED: "(throttled)", OTHER: REST}

MAX_DEVICES = 64  # size of the kernel's array
MAX_PAIRS = 8192  # of its map

_MINOR_BITS = 20
_OF_IO_MAX = b"on_throttle"  # some kernels refuse it
# Which arguments of events of requests and of bios these are. The second ones first: no kernel accepts them by mistake.
_ARGUMENTS = ((1, 1), (0, 1), (0, 0))


class Device(NamedTuple):
    """The first fields of struct device, since the programs were loaded."""

    number: int
    requests: int
    waited: int  # attributed ns
    lost: int  # ns not attributed because a map was full
    asynchronous: int  # requests for which nobody waits

    @property
    def numbers(self) -> str:
        """The device's major and minor number, as in /sys/dev/block."""
        return f"{self.number >> _MINOR_BITS}:{self.number & (1 << _MINOR_BITS) - 1}"


class Delays:
    """The loaded programs, until close()."""

    def __init__(self, version: int, machine: Machine, open_library: Callable[..., Any] = ctypes.CDLL) -> None:
        """Load and attach them, for cgroups of this version. Raises like Object."""
        programs = [b"on_queue", b"on_split", b"on_issue", b"on_requeue", b"on_complete", _OF_IO_MAX]
        constants = [(version, request, bio) for request, bio in _ARGUMENTS]
        self.loaded = Object(OBJECT, constants, programs, machine, open_library, without=[[], [_OF_IO_MAX]])
        self._pairs, self._victims, self._devices = map(self.loaded.table, (b"pairs", b"victims", b"devices"))
        self.close = self.loaded.close

    @property
    def sees_io_max(self) -> bool:
        """Whether the wait for io.max is measured."""
        return _OF_IO_MAX not in self.loaded.without

    def pairs(self) -> dict[int, dict[Pair, Waited]]:
        """Return the totals of each device's pairs, by its number; raises SourceError."""
        found: dict[int, dict[Pair, Waited]] = {}
        for (waiting, served, device), (ns,) in self._pairs.entries():
            found.setdefault(device, {})[waiting, served] = Waited(ns, 0)
        for (waiting, device), (requests, service, own, throttled, rest, *_) in self._victims.entries():
            of_device = found.setdefault(device, {})
            known = of_device.get((waiting, OTHER), Waited(0, 0)).ns
            of_device[waiting, DEVICE] = Waited(service, requests)
            of_device[waiting, waiting] = Waited(own, 0)
            of_device[waiting, THROTTLED] = Waited(throttled, 0)
            of_device[waiting, OTHER] = Waited(rest + known, 0)
        return found

    def devices(self) -> list[Device]:
        """Return the devices that had requests; raises SourceError."""
        found = (Device(*self._devices.element(at)[: len(Device._fields)]) for at in range(MAX_DEVICES))
        return [device for device in found if device.requests]

    def forget(self, device: int, pairs: Iterable[Pair]) -> None:
        """Delete these pairs of a device from the map; raises SourceError."""
        for waiting, served in pairs:
            if _is_of_two((waiting, served)):
                self._pairs.delete((waiting, served, device))
            else:
                self._victims.delete((waiting, device))


class Ledger:
    """Each device's delays by name."""

    def __init__(self) -> None:
        self.devices: dict[int, Pairs] = {}  # by number

    def add(self, delayed: Mapping[int, dict[Pair, Waited]], found: Found, now: float) -> dict[int, list[Pair]]:
        """Add the growth, like Pairs.add; returns pairs to delete from the kernel's maps, by device."""
        unneeded = {}
        for number, pairs in delayed.items():
            device = self.devices.setdefault(number, Pairs(NOBODY, MAX_PAIRS))
            # Most containers never use most devices: only users of a device have series.
            use = {found.names[waiting].waiting for waiting, _ in pairs if waiting in found.names}
            shown = found.shown & (use | device.rows.keys())
            unneeded[number] = [
                pair
                for pair in device.add(pairs, found._replace(shown=shown), now)
                if pair[0] not in found.names or _is_of_two(pair)
            ]
            device.forget(unneeded[number])
        return unneeded


def _is_of_two(pair: Pair) -> bool:
    """Whether it is in the map of pairs; the others of a cgroup are one entry of the map of victims."""
    waiting, served = pair
    return served not in (waiting, *NOBODY)
