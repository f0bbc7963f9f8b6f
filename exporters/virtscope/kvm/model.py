"""A KVM host and its guests as plain values: seconds, bytes and CPUs, independent of the source.

Unknown values are None or empty, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MAX_CHARACTERS = 200  # of a label's value


def clean(text: str) -> str:
    """Return user-chosen text as a label's value: control characters escaped, and truncated."""
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:MAX_CHARACTERS]
        )
    return text[:MAX_CHARACTERS]


class Vcpu(NamedTuple):
    """A virtual CPU: its QEMU thread, and earlier threads of it in this guest's life."""

    name: str  # its number; "all": one thread runs all of them (TCG without threads)
    run_seconds: float | None  # None: this kernel has no schedstat
    wait_seconds: float | None  # runnable without a CPU, or throttled
    guest_seconds: float  # as the kernel reports it; see Guest.guest_time_absent
    system_seconds: float


class Limits(NamedTuple):
    """The CPU limits by the guest's cgroups; None: unlimited, or unreadable."""

    cpus: float | None = None  # the smallest cap that applies
    weight: float | None = None  # cpu.weight, or cpu.shares of version 1


class Throttling(NamedTuple):
    """A quota's throttling so far: of the whole guest, or summed over its vCPUs' cgroups."""

    part: str  # "all", "vcpu", "emulator", "iothread"
    periods: int
    throttled_periods: int
    throttled_seconds: float


class Traffic(NamedTuple):
    """One direction of a network interface."""

    bytes: int
    packets: int
    errors: int
    drops: int


class Network(NamedTuple):
    """An interface from the guest's side: it receives what the host's tap transmits."""

    device: str  # the host's name, such as "vnet0"
    receive: Traffic
    transmit: Traffic


class Requests(NamedTuple):
    """Reads, writes or flushes of a block device."""

    requests: int | None
    bytes: int | None
    seconds: float | None


class Block(NamedTuple):
    """A block device: of the guest by libvirt, or of the host by the guest's cgroup."""

    device: str  # in the guest, such as "vda", or on the host, such as "dm-6"
    read: Requests
    write: Requests
    flush: Requests


class Domain(NamedTuple):
    """libvirt's or Proxmox's values of a guest, which /proc lacks."""

    state: str = ""  # "running", "paused"...
    title: str = ""
    tags: str = ""  # Proxmox's, "a;b"
    pool: str = ""  # Proxmox's
    balloon_bytes: int | None = None
    blocks: tuple[Block, ...] = ()
    interfaces: tuple[str, ...] = ()  # the host's names
    exits: Mapping[str, int] = {}  # by vCPU; empty if kernel or libvirt have no binary statistics
    halt_poll_seconds: Mapping[str, float] = {}  # by result: "success", "fail"


# How far a guest's cgroup confirms the name and id of its command line: started by a user of the host, unknown, or
# started by its manager.
A_USERS, UNKNOWN, VOUCHED_FOR = range(3)


class Guest(NamedTuple):
    """A guest: a virtual machine monitor's process, and its kernel threads."""

    pid: int
    name: str  # may not be unique
    uuid: str
    id: str  # Proxmox's VMID, or libvirt's number of the domain
    manager: str  # "libvirt", "proxmox", or else the program: "qemu", "firecracker"...; "": another one
    accelerator: str  # "kvm", "tcg" or another one; "": not known
    start_time: float  # Unix time in seconds
    vcpu_count: int | None
    cpu_seconds: float
    guest_seconds: float  # sum of all vCPUs, ended ones included, as the kernel reports it
    guest_time_absent: str  # why guest_seconds, also of vCPUs, are invalid; "" if valid
    vcpus: tuple[Vcpu, ...]  # empty if QEMU's threads have no names
    role_seconds: Mapping[str, float]  # of the other threads, by role; empty if threads have no names
    memory_resident_bytes: int | None
    memory_limit_bytes: int | None  # as configured by QEMU's -m
    limits: Limits = Limits()
    cgroup: str = ""  # its path, or its pod's; "" where it shares one with others
    throttling: tuple[Throttling, ...] = ()
    taps: tuple[str, ...] = ()  # names of its interfaces, as far as known from QEMU's process
    network_namespace: int = 0  # of these interfaces; 0: unknown, or the host's in a recording
    networks: tuple[Network, ...] = ()
    disks: tuple[Block, ...] = ()  # of the host; empty for libvirt's guests, whose domain has blocks
    domain: Domain | None = None
    standing: int = UNKNOWN  # of its name and id
    started: int = 0  # the process, in ticks since boot; pid and this identify it
    served_seconds: float = 0.0  # of cpu_seconds, by kernel threads, which are read less often
    counted_guest_seconds: float = 0.0  # guest time before it is limited to user time, as in the host's
    wait_seconds: float | None = None  # of all vCPUs, ended ones included


class Total(NamedTuple):
    """Counters of all guests since the exporter started, ended guests included; None: no guest has had one."""

    cpu_seconds: float
    wait_seconds: float | None
    received_bytes: float | None
    sent_bytes: float | None
    read_bytes: float | None
    written_bytes: float | None


class Host(NamedTuple):
    """The machine and its guests."""

    cpus: int
    cpu_seconds: float  # of everything on it
    guest_seconds: float | None  # of guests' code; None if the kernel doesn't count it
    guests: tuple[Guest, ...]
    total: Total | None = None


def owners(claims: Iterable[tuple[str, Guest]]) -> dict[str, int]:
    """Return the owner's pid of each claimed name: the claimant with the highest standing.

    Claimants of equal standing own nothing, because any user may start a process that claims a name.
    """
    found: dict[str, Guest | None] = {}
    contested: dict[str, int] = {}  # the claimants' highest standing
    for thing, guest in claims:
        other = found.setdefault(thing, guest)
        if other is guest:
            continue
        highest = contested.get(thing, other.standing if other else guest.standing)
        if guest.standing >= highest:
            found[thing] = guest if guest.standing > highest else None
        contested[thing] = max(guest.standing, highest)
    return {thing: guest.pid for thing, guest in found.items() if guest}
