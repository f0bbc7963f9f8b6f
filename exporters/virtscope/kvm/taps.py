"""Guests' interfaces: the taps of each guest, and the host's counters of them in /proc/net/dev.

    Inter-|   Receive                                                |  Transmit
     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop ...
     vnet1:   90000      90    0    0    0     0          0         0       90       1    0    0 ...

A tap receives what the guest sends, so directions are swapped here. A macvtap has the guest's view and isn't swapped
(virDomainNetTypeSharesHostView() in libvirt).

Format: net/core/net-procfs.c in Linux. By hand: `ip -s link show vnet1`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from virtscope.kvm.host_files import Files
from virtscope.kvm.model import Guest, Network, Traffic, owners

_HOST_S = "proc/1/net/dev"
_MAX_OF_GUEST = 1 << 18  # bytes, enough for 1,700 interfaces: users may create any number
_COUNTERS = 16  # eight per direction; the first four are exposed
# Proxmox's taps have the VMID in their names; the firewall's interfaces don't count.
_PROXMOX = re.compile(r"tap([0-9]+)i[0-9]+")
IFF = re.compile(rb"(?m)^iff:\s*(\S+)$")


def parse(text: bytes, wanted: Collection[str] | None = None) -> dict[str, tuple[int, ...]]:
    """Return the sixteen counters of each interface, or of the `wanted` ones; skips malformed lines."""
    found: dict[str, tuple[int, ...]] = {}
    for line in text.split(b"\n"):
        name, colon, counters = line.rpartition(b":")
        if not colon:
            continue
        interface = name.strip().decode("utf-8", "backslashreplace")
        if wanted is None or interface in wanted:
            numbers = counters.split()
            if len(numbers) >= _COUNTERS and all(number.isdigit() and len(number) < 21 for number in numbers):
                found[interface] = tuple(map(int, numbers[:_COUNTERS]))
    return found


def network(device: str, counters: Sequence[int]) -> Network:
    """Return an interface from the guest's side."""
    first, second = Traffic(*counters[:4]), Traffic(*counters[8:12])
    if device.startswith("macvtap"):
        return Network(device, receive=first, transmit=second)
    return Network(device, receive=second, transmit=first)


def opened(files: Files, pid: int, descriptors: Sequence[int]) -> list[str]:
    """Return the names of the taps that a process has open; needs root. Raises Blocked.

    Reading them waits for the kernel's global lock of interfaces.
    """
    found = [IFF.search(files.beginning(f"proc/{pid}/fdinfo/{descriptor}") or b"") for descriptor in descriptors]
    return [name[1].decode("utf-8", "backslashreplace") for name in found if name]


class Taps:
    """Reads the counters of guests' interfaces below `files`."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def add_to(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        """Add the networks to the guests, if their names are known.

        Names are looked up in each guest's network namespace, which may be a pod's or container's. If several guests
        claim an interface of the host, the one confirmed by its manager gets it, otherwise none.
        """
        # Process 1's network namespace: the exporter's may be a container's.
        text = self._files.content(_HOST_S) or self._files.content("proc/net/dev") or b""
        there = parse(text)
        here = self._files.namespace(_HOST_S)
        proxmox: dict[str, list[str]] = {}  # by VMID
        for name in sorted(there):
            if tap := _PROXMOX.fullmatch(name):
                proxmox.setdefault(tap[1], []).append(name)
        claimed: list[tuple[str, Guest]] = []
        found: dict[int, tuple[Network, ...]] = {}
        for guest in guests:
            names = {*guest.taps, *(guest.domain.interfaces if guest.domain else ())}
            if names and guest.network_namespace not in {0, here}:
                text = self._files.content(f"proc/{guest.pid}/net/dev", _MAX_OF_GUEST) or b""
                counters = parse(text, names)
                found[guest.pid] = tuple([network(name, counters[name]) for name in sorted(counters)])
            else:
                names.update(proxmox.get(guest.id, ()) if guest.manager == "proxmox" else ())
                claimed += [(name, guest) for name in sorted(names) if name in there]
        for name, pid in owners(claimed).items():
            found[pid] = (*found.get(pid, ()), network(name, there[name]))
        return tuple([guest._replace(networks=found.get(guest.pid, ())) for guest in guests])
