"""A KVM host and its guests as plain values: seconds, bytes and CPUs, whichever source they come from.

What a source doesn't know is None or empty, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MAX_CHARACTERS = 200  # of a label's value


def clean(text: str) -> str:
    """Return what a guest's user chose as a label's value: control characters and the like escaped, its length cut."""
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:MAX_CHARACTERS]
        )
    return text[:MAX_CHARACTERS]


class Vcpu(NamedTuple):
    """A virtual CPU: the thread of QEMU's that runs it, and those that ran it before in this guest's life."""

    name: str  # its number; "all": one thread runs all of them (TCG without threads)
    run_seconds: float | None  # None: this kernel has no schedstat
    wait_seconds: float | None  # runnable and waiting, throttled too
    guest_seconds: float  # as the kernel says; what that is worth, Guest.guest_time_absent says
    system_seconds: float


class Limits(NamedTuple):
    """What the cgroups above a guest allow it; None: nothing does, or it can't be read."""

    cpus: float | None = None  # the smallest cap that stands over the guest
    weight: float | None = None  # cpu.weight, or cpu.shares of version 1


class Throttling(NamedTuple):
    """What a quota has done so far, where it stands: over the whole guest, or summed over its vCPUs' groups."""

    part: str  # "all", "vcpu", "emulator", "iothread"
    periods: int
    throttled_periods: int
    throttled_seconds: float


class Traffic(NamedTuple):
    """One way of a network interface."""

    bytes: int
    packets: int
    errors: int
    drops: int


class Network(NamedTuple):
    """An interface, from the guest's side: what it receives is what the host's tap transmits."""

    device: str  # the host's name of it, such as "vnet0"
    receive: Traffic
    transmit: Traffic


class Requests(NamedTuple):
    """One kind of requests to a block device."""

    requests: int | None
    bytes: int | None
    seconds: float | None


class Block(NamedTuple):
    """A block device, as libvirt counts it."""

    device: str  # the guest's, such as "vda"
    read: Requests
    write: Requests
    flush: Requests


class Domain(NamedTuple):
    """What libvirt knows of a guest beside what /proc says."""

    state: str = ""  # "running", "paused"...
    title: str = ""
    balloon_bytes: int | None = None
    blocks: tuple[Block, ...] = ()
    interfaces: tuple[str, ...] = ()  # the host's names of them
    exits: Mapping[str, int] = {}  # by vCPU; empty where kernel or libvirt have no binary statistics
    halt_poll_seconds: Mapping[str, float] = {}  # by result: "success", "fail"


# What a guest's cgroup says of its name and id, which its command line claims: that a user of the host started it, no
# more than that, or that its manager did.
A_USERS, UNKNOWN, VOUCHED_FOR = range(3)


class Guest(NamedTuple):
    """A guest: a virtual machine monitor's process, and the kernel's threads that work for it."""

    pid: int
    name: str  # its own; two may have the same
    uuid: str
    id: str  # Proxmox's VMID, or libvirt's number of the domain
    manager: str  # "libvirt", "proxmox", or else the program: "qemu", "firecracker"...; "": another one
    accelerator: str  # "kvm", "tcg" or another one; "": not known
    start_time: float  # Unix time in seconds
    vcpu_count: int | None
    cpu_seconds: float
    guest_seconds: float  # summed over the vCPUs, those that have ended included; as the kernel says
    guest_time_absent: str  # why guest_seconds, also those of the vCPUs, mean nothing; "" where they do mean something
    vcpus: tuple[Vcpu, ...]  # none where QEMU's threads have no names
    role_seconds: Mapping[str, float]  # of the other threads, by role; empty where the threads have no names
    memory_resident_bytes: int | None
    memory_limit_bytes: int | None  # what QEMU was started to give
    limits: Limits = Limits()
    cgroup: str = ""  # its path, or its pod's; "" where it shares one with others
    throttling: tuple[Throttling, ...] = ()
    taps: tuple[str, ...] = ()  # names of its interfaces, as far as QEMU's process says
    network_namespace: int = 0  # that these are in; 0: not known, as where it is the host's in a recording
    networks: tuple[Network, ...] = ()
    domain: Domain | None = None
    standing: int = UNKNOWN  # of its name and id


class Host(NamedTuple):
    """The machine and its guests."""

    cpus: int
    cpu_seconds: float  # all that ran on it
    guest_seconds: float | None  # of it guests' code; None where the kernel can't tell
    guests: tuple[Guest, ...]


def owners(claims: Iterable[tuple[str, Guest]]) -> dict[str, int]:
    """Return the owner's pid of each claimed thing: the claimant with the highest standing.

    Two claimants of equal standing own nothing, as any user who may start processes may claim anything.
    """
    found: dict[str, Guest | None] = {}
    contested: dict[str, int] = {}  # the highest standing of those that claim it
    for thing, guest in claims:
        other = found.setdefault(thing, guest)
        if other is guest:
            continue
        highest = contested.get(thing, other.standing if other else guest.standing)
        if guest.standing >= highest:
            found[thing] = guest if guest.standing > highest else None
        contested[thing] = max(guest.standing, highest)
    return {thing: guest.pid for thing, guest in found.items() if guest}
