"""The metrics of a KVM host: one table, from the model's values to families.

What it exposes, with the command that shows the same by hand:

    # pgrep -af qemu; ps -L -p PID -o comm,times; cat /proc/PID/task/*/schedstat
    kvm_guest_info{guest="web",pid="390",uuid="...",id="",title="",manager="libvirt",accelerator="kvm"} 1
    kvm_guest_cpu_seconds_total{guest="web",pid="390"} 51.8
    kvm_guest_guest_seconds_total{guest="web",pid="390"} 36.9
    kvm_vcpu_run_seconds_total{guest="web",pid="390",vcpu="0"} 46.9
    kvm_vcpu_wait_seconds_total{guest="web",pid="390",vcpu="0"} 32.3
    kvm_guest_thread_cpu_seconds_total{guest="web",pid="390",role="emulator"} 2.1

    # systemd-cgls; virsh schedinfo web; qm config 100
    kvm_guest_cpu_limit_cpus{guest="web",pid="390"} 0.4
    kvm_guest_throttled_seconds_total{guest="web",pid="390",part="all"} 88.0
    kvm_guest_cgroup_info{guest="web",pid="390",cgroup="/qemu.slice/100.scope"} 1

    # ip -s link show vnet0: RX there is transmit here
    kvm_guest_network_receive_bytes_total{guest="web",pid="390",device="vnet0"} 90

    # virsh domstats web
    kvm_guest_block_read_bytes_total{guest="web",pid="390",device="vda"} 165806592
    kvm_vcpu_exits_total{guest="web",pid="390",vcpu="0"} 43671

To add a metric, add a line to the table of the values that it is of: its name (a counter's ends in _total), its help,
and how such a value gives it. Every guest's series carry `guest` and `pid`: the name that its users know, and what
keeps one that was started again apart from itself before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.kvm.model import Block, Domain, Guest, Host, Network, Requests, Throttling, Traffic, Vcpu, owners
from virtscope.toolkit.families import Definition, Labels, info, series

STATES = ("running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")

HOST: list[Definition[Host]] = [
    Definition("kvm_host_cpus", "Online CPUs of the host.", lambda host: host.cpus),
    Definition(
        "kvm_host_cpu_seconds_total",
        "CPU time used on the host, in seconds, guests included.",
        lambda host: host.cpu_seconds,
    ),
    Definition(
        "kvm_host_guest_seconds_total",
        "Guest time of all guests of the host, in seconds; absent if the kernel doesn't count it.",
        lambda host: host.guest_seconds,
    ),
    Definition("kvm_host_guests", "Running guests.", lambda host: len(host.guests)),
]

GUEST: list[Definition[Guest]] = [
    Definition(
        "kvm_guest_start_time_seconds",
        "Start of the guest's process, as Unix time in seconds.",
        lambda guest: guest.start_time,
    ),
    Definition(
        "kvm_guest_vcpus",
        "vCPUs of the guest; if threads have no names, the configured number or that of the threads with guest time.",
        lambda guest: guest.vcpu_count,
    ),
    Definition(
        "kvm_guest_cpu_seconds_total",
        "CPU time used for the guest, in seconds: its process, with threads that have ended, and kernel threads that "
        "serve it alone.",
        lambda guest: guest.cpu_seconds,
    ),
    Definition(
        "kvm_guest_guest_seconds_total",
        "CPU time in which the guest's own code ran (guest time), in seconds; kvm_guest_time_absent has the reason "
        "if it is absent.",
        lambda guest: None if guest.guest_time_absent else guest.guest_seconds,
    ),
    Definition(
        "kvm_guest_memory_resident_bytes",
        "Resident memory of the guest's process on the host, in bytes, huge pages included.",
        lambda guest: guest.memory_resident_bytes,
    ),
    Definition(
        "kvm_guest_memory_limit_bytes",
        "Configured memory of the guest (-m), in bytes.",
        lambda guest: guest.memory_limit_bytes,
    ),
    Definition(
        "kvm_guest_cpu_limit_cpus",
        "Effective CPU limit of the guest, in CPUs: the lowest quota of its cgroup, the cgroups above, and the sum "
        "of its vCPUs' quotas; absent if unlimited.",
        lambda guest: guest.limits.cpus,
    ),
    Definition(
        "kvm_guest_cpu_weight",
        "CPU weight of the guest's cgroup: cpu.weight, or cpu.shares with cgroups v1; absent if it shares a cgroup "
        "with others.",
        lambda guest: guest.limits.weight,
    ),
]

VCPU: list[Definition[Vcpu]] = [
    Definition(
        "kvm_vcpu_run_seconds_total",
        "Time that the vCPU's thread ran on a CPU, in seconds: guest code, and KVM and QEMU for it.",
        lambda vcpu: vcpu.run_seconds,
    ),
    Definition(
        "kvm_vcpu_wait_seconds_total",
        "Time that the vCPU's thread was runnable without a CPU (CPU ready), in seconds, throttled time included.",
        lambda vcpu: vcpu.wait_seconds,
    ),
    Definition(
        "kvm_vcpu_system_seconds_total",
        "CPU time of the vCPU's thread in the kernel, in seconds: VM exits, and halt polling.",
        lambda vcpu: vcpu.system_seconds,
    ),
]
VCPU_GUEST: list[Definition[Vcpu]] = [
    Definition(
        "kvm_vcpu_guest_seconds_total",
        "CPU time in which the guest's own code ran on the vCPU (guest time), in seconds; absent if the kernel "
        "doesn't count it.",
        lambda vcpu: vcpu.guest_seconds,
    ),
]

THROTTLING: list[Definition[Throttling]] = [
    Definition(
        "kvm_guest_throttled_seconds_total",
        "Time that a quota throttled the guest, in seconds summed over CPUs, by part: all (the guest's quota), or "
        "vcpu (its vCPUs' quotas).",
        lambda throttling: throttling.throttled_seconds,
    ),
    Definition(
        "kvm_guest_periods_total",
        "Quota periods in which this part of the guest was active.",
        lambda throttling: throttling.periods,
    ),
    Definition(
        "kvm_guest_throttled_periods_total",
        "Quota periods in which this part of the guest was throttled.",
        lambda throttling: throttling.throttled_periods,
    ),
]


def _way(direction: str, way: Callable[[Network], Traffic]) -> list[Definition[Network]]:
    verb = "received" if direction == "receive" else "sent"
    name = f"kvm_guest_network_{direction}"
    return [
        Definition(f"{name}_bytes_total", f"Bytes {verb} by the guest.", lambda net: way(net).bytes),
        Definition(f"{name}_packets_total", f"Packets {verb} by the guest.", lambda net: way(net).packets),
        Definition(
            f"{name}_errors_total",
            f"Errors of the host's interface for packets {verb} by the guest.",
            lambda net: way(net).errors,
        ),
        Definition(
            f"{name}_drops_total",
            "Received packets dropped because the guest's queue was full."
            if direction == "receive"
            else "Sent packets dropped by the host's tap, such as when the bridge did not take them.",
            lambda net: way(net).drops,
        ),
    ]


NETWORK = _way("receive", lambda net: net.receive) + _way("transmit", lambda net: net.transmit)


def _requests(kind: str, made: str, of: Callable[[Block], Requests]) -> list[Definition[Block]]:
    name = f"kvm_guest_block_{kind}"
    return [
        Definition(
            f"{name}_requests_total", f"{made.capitalize()} requests of the guest.", lambda block: of(block).requests
        ),
        Definition(f"{name}_bytes_total", f"Bytes of the guest's {made} requests.", lambda block: of(block).bytes),
        Definition(
            f"{name}_seconds_total",
            f"Duration of the guest's {made} requests, in seconds summed over requests.",
            lambda block: of(block).seconds,
        ),
    ]


BLOCK = [
    *_requests("read", "read", lambda block: block.read),
    *_requests("write", "write", lambda block: block.write),
    *[each for each in _requests("flush", "flush", lambda block: block.flush) if "_bytes_" not in each.name],
]

DOMAIN: list[Definition[Domain]] = [
    Definition(
        "kvm_guest_memory_balloon_bytes",
        "Current guest memory after ballooning, in bytes; libvirt only.",
        lambda domain: domain.balloon_bytes,
    ),
]

Counted = tuple[Labels, float]


class _Value(NamedTuple):
    value: float


def _plain(name: str, documentation: str, counted: Sequence[Counted]) -> Iterator[Metric]:
    return series(
        [Definition(name, documentation, lambda each: each.value)],
        [(labels, _Value(value)) for labels, value in counted],
    )


def families(host: Host, label_sets: LabelSets | None = None) -> list[Metric]:
    """Return the families of a host, with the `label_sets` of its last scrape."""
    sets = label_sets or LabelSets()
    sets.turn()

    def _with(labels: Labels, label: str, value: str) -> Labels:
        return sets.get(labels["guest"], labels["pid"], label, value)

    guests = list(zip(sets.of_guests(host.guests), host.guests))
    vcpus = [(_with(labels, "vcpu", vcpu.name), vcpu) for labels, guest in guests for vcpu in guest.vcpus]
    splitting = [
        (_with(labels, "vcpu", vcpu.name), vcpu)
        for labels, guest in guests
        if not guest.guest_time_absent
        for vcpu in guest.vcpus
    ]
    domains = [(labels, guest.domain) for labels, guest in guests if guest.domain]
    return [
        *series(HOST, [({}, host)]),
        info(
            "kvm_guest",
            "UUID, id (Proxmox's VMID or libvirt's domain id), title, manager (libvirt, proxmox, or the program) and "
            "accelerator (kvm, tcg) of the guest; empty if unknown.",
            [{**labels, **_facts(guest)} for labels, guest in guests],
        ),
        info(
            "kvm_guest_cgroup",
            "Path of the guest's cgroup, as other exporters show it; absent if it shares one with others.",
            [{**labels, "cgroup": guest.cgroup} for labels, guest in _alone_in_a_cgroup(guests)],
        ),
        *series(GUEST, guests),
        *_plain(
            "kvm_guest_time_absent",
            "1 if the guest has no guest time, by reason: tcg (emulated processor), kernel (not counted), or "
            "accelerator not known (no guest time yet).",
            [
                (_with(labels, "reason", guest.guest_time_absent), 1)
                for labels, guest in guests
                if guest.guest_time_absent
            ],
        ),
        *_plain(
            "kvm_guest_thread_cpu_seconds_total",
            "CPU time of the guest's threads other than vCPUs, in seconds, by role: emulator, iothread, vhost, kvm, "
            "worker (with ended threads).",
            [
                (_with(labels, "role", role), seconds)
                for labels, guest in guests
                for role, seconds in guest.role_seconds.items()
            ],
        ),
        *series(VCPU, vcpus),
        *series(VCPU_GUEST, splitting),
        *series(
            THROTTLING,
            [(_with(labels, "part", each.part), each) for labels, guest in guests for each in guest.throttling],
        ),
        *series(
            NETWORK,
            [(_with(labels, "device", each.device), each) for labels, guest in guests for each in guest.networks],
        ),
        *series(DOMAIN, domains),
        *series(
            BLOCK, [(_with(labels, "device", block.device), block) for labels, of in domains for block in of.blocks]
        ),
        *_plain(
            "kvm_vcpu_exits_total",
            "VM exits of the vCPU; absent if kernel or libvirt have no binary statistics.",
            [
                (_with(labels, "vcpu", vcpu), exits)
                for labels, domain in domains
                for vcpu, exits in domain.exits.items()
            ],
        ),
        *_plain(
            "kvm_guest_halt_poll_seconds_total",
            "CPU time of halt polling for the guest's idle vCPUs, in seconds, by result: success, fail.",
            [
                (_with(labels, "result", result), seconds)
                for labels, domain in domains
                for result, seconds in domain.halt_poll_seconds.items()
            ],
        ),
        *_plain(
            "kvm_guest_state",
            "1 if the guest is in this state according to libvirt, else 0.",
            [
                (_with(labels, "state", state), float(domain.state == state))
                for labels, domain in domains
                if domain.state
                for state in STATES
            ],
        ),
    ]


class LabelSets:
    """Sets of labels, the same object as at the last scrape: to compare it then costs nothing."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], Labels] = {}
        self._now: dict[tuple[str, ...], Labels] = {}

    def turn(self) -> None:
        """Begin a scrape: what was not used in the last one is forgotten."""
        self._last, self._now = self._now, {}

    def get(self, guest: str, pid: str, label: str = "", value: str = "") -> Labels:
        """Return the set of these labels."""
        key = (guest, pid, label, value)
        made = self._now.get(key) or self._last.get(key)
        if made is None:
            made = {"guest": guest, "pid": pid, label: value} if label else {"guest": guest, "pid": pid}
        self._now[key] = made
        return made

    def of_guests(self, guests: Sequence[Guest]) -> list[Labels]:
        """Return each guest's labels.

        Of those that share a name the one keeps it for whom its manager vouches; others have an id added, their VMID or
        libvirt's number, or else their process's number. What is then still the same has the latter.
        """
        names = Counter(guest.name for guest in guests)
        keeps = owners((guest.name, guest) for guest in guests)
        shown = {
            guest.pid: guest.name
            if names[guest.name] == 1 or keeps.get(guest.name) == guest.pid
            else f"{guest.name} ({guest.id or guest.pid})"
            for guest in guests
        }
        while len(set(shown.values())) < len(shown):
            counts = Counter(shown.values())
            by_standing = owners((shown[guest.pid], guest) for guest in guests)
            for pid, name in shown.items():
                if counts[name] > 1 and by_standing.get(name) != pid:
                    shown[pid] = f"{name} ({pid})"
        return [self.get(shown[guest.pid], str(guest.pid)) for guest in guests]


def _facts(guest: Guest) -> Labels:
    return {
        "uuid": guest.uuid,
        "id": guest.id,
        "title": guest.domain.title if guest.domain else "",
        "manager": guest.manager,
        "accelerator": guest.accelerator,
    }


def _alone_in_a_cgroup(guests: Sequence[tuple[Labels, Guest]]) -> list[tuple[Labels, Guest]]:
    counts = Counter(guest.cgroup for _, guest in guests)
    return [(labels, guest) for labels, guest in guests if guest.cgroup and counts[guest.cgroup] == 1]
