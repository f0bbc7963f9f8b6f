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
    Definition("kvm_host_cpus", "CPUs of the host that are online.", lambda host: host.cpus),
    Definition(
        "kvm_host_cpu_seconds_total",
        "CPU time used on the host by guests and all else, in seconds.",
        lambda host: host.cpu_seconds,
    ),
    Definition(
        "kvm_host_guest_seconds_total",
        "CPU time of the host in which guests' own code ran, in seconds; absent where the kernel can't tell.",
        lambda host: host.guest_seconds,
    ),
    Definition("kvm_host_guests", "Guests that run on the host.", lambda host: len(host.guests)),
]

GUEST: list[Definition[Guest]] = [
    Definition(
        "kvm_guest_start_time_seconds",
        "When the guest's process was started, as Unix time in seconds.",
        lambda guest: guest.start_time,
    ),
    Definition(
        "kvm_guest_vcpus",
        "vCPUs of the guest: its threads that run one; where threads have no names, as configured, or else those that "
        "have run its code.",
        lambda guest: guest.vcpu_count,
    ),
    Definition(
        "kvm_guest_cpu_seconds_total",
        "CPU time used for the guest in all, in seconds: its vCPUs, QEMU around them, and the kernel's threads that "
        "serve it alone.",
        lambda guest: guest.cpu_seconds,
    ),
    Definition(
        "kvm_guest_guest_seconds_total",
        "CPU time in which the guest's own code ran, on all its vCPUs, in seconds; absent where the kernel can't tell, "
        "for the reason in kvm_guest_time_absent.",
        lambda guest: None if guest.guest_time_absent else guest.guest_seconds,
    ),
    Definition(
        "kvm_guest_memory_resident_bytes",
        "Memory of the host that the guest's process holds, in bytes, huge pages included.",
        lambda guest: guest.memory_resident_bytes,
    ),
    Definition(
        "kvm_guest_memory_limit_bytes",
        "Memory that QEMU was started to give the guest (-m), in bytes.",
        lambda guest: guest.memory_limit_bytes,
    ),
    Definition(
        "kvm_guest_cpu_limit_cpus",
        "The smallest cap that stands over the guest, in CPUs: of its cgroups, those above them, and the sum of its "
        "vCPUs' own; absent where there is none.",
        lambda guest: guest.limits.cpus,
    ),
    Definition(
        "kvm_guest_cpu_weight",
        "Weight of the guest's cgroup when it competes for CPUs: cpu.weight, or cpu.shares of version 1; absent where "
        "it shares a cgroup with others.",
        lambda guest: guest.limits.weight,
    ),
]

VCPU: list[Definition[Vcpu]] = [
    Definition(
        "kvm_vcpu_run_seconds_total",
        "Time that the vCPU's thread ran on a CPU, in seconds: the guest's code, and KVM and QEMU for it.",
        lambda vcpu: vcpu.run_seconds,
    ),
    Definition(
        "kvm_vcpu_wait_seconds_total",
        "Time that the vCPU's thread was ready to run and waited for a CPU, in seconds, throttled time included.",
        lambda vcpu: vcpu.wait_seconds,
    ),
    Definition(
        "kvm_vcpu_system_seconds_total",
        "CPU time of the vCPU's thread in the kernel, in seconds: KVM's exits and its polling while the vCPU is idle.",
        lambda vcpu: vcpu.system_seconds,
    ),
]
VCPU_GUEST: list[Definition[Vcpu]] = [
    Definition(
        "kvm_vcpu_guest_seconds_total",
        "CPU time in which the guest's own code ran on the vCPU, in seconds; absent where the kernel can't tell.",
        lambda vcpu: vcpu.guest_seconds,
    ),
]

THROTTLING: list[Definition[Throttling]] = [
    Definition(
        "kvm_guest_throttled_seconds_total",
        "Time that a quota throttled a part of the guest (all, or vcpu: the sum over its vCPUs' quotas), in seconds, "
        "added up over CPUs.",
        lambda throttling: throttling.throttled_seconds,
    ),
    Definition(
        "kvm_guest_periods_total",
        "Periods of a quota in which this part of the guest was active.",
        lambda throttling: throttling.periods,
    ),
    Definition(
        "kvm_guest_throttled_periods_total",
        "Periods of a quota in which this part of the guest was throttled.",
        lambda throttling: throttling.throttled_periods,
    ),
]


def _way(direction: str, way: Callable[[Network], Traffic]) -> list[Definition[Network]]:
    verb = "received" if direction == "receive" else "sent"
    name = f"kvm_guest_network_{direction}"
    return [
        Definition(f"{name}_bytes_total", f"Bytes that the guest {verb}.", lambda net: way(net).bytes),
        Definition(f"{name}_packets_total", f"Packets that the guest {verb}.", lambda net: way(net).packets),
        Definition(
            f"{name}_errors_total", f"Errors of the host's interface, of packets {verb}.", lambda net: way(net).errors
        ),
        Definition(
            f"{name}_drops_total",
            "Packets for the guest that it did not fetch in time."
            if direction == "receive"
            else "Packets sent by the guest that nothing on the host took, such as a bridge.",
            lambda net: way(net).drops,
        ),
    ]


NETWORK = _way("receive", lambda net: net.receive) + _way("transmit", lambda net: net.transmit)


def _requests(kind: str, made: str, of: Callable[[Block], Requests]) -> list[Definition[Block]]:
    name = f"kvm_guest_block_{kind}"
    return [
        Definition(f"{name}_requests_total", f"Requests of the guest to {made}.", lambda block: of(block).requests),
        Definition(f"{name}_bytes_total", f"Bytes of the guest's requests to {made}.", lambda block: of(block).bytes),
        Definition(
            f"{name}_seconds_total",
            f"Time that the guest's requests to {made} took, in seconds, added up over requests.",
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
        "Memory that the guest has now, in bytes, what its balloon took taken off; from libvirt.",
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
            "The guest's uuid, its id (Proxmox's VMID or libvirt's number), title, what manages it (libvirt, "
            "proxmox, or its program: qemu, firecracker, cloud-hypervisor, crosvm) and its accelerator (kvm, tcg); "
            "what isn't known is empty.",
            [{**labels, **_facts(guest)} for labels, guest in guests],
        ),
        info(
            "kvm_guest_cgroup",
            "The guest's cgroup as a path, by which other exporters know it; absent where it shares one with others.",
            [{**labels, "cgroup": guest.cgroup} for labels, guest in _alone_in_a_cgroup(guests)],
        ),
        *series(GUEST, guests),
        *_plain(
            "kvm_guest_time_absent",
            "1 for a guest whose guest time isn't known, by reason: its accelerator doesn't count it (tcg), the kernel "
            "can't (kernel), or it has none yet and doesn't say what runs it (accelerator not known).",
            [
                (_with(labels, "reason", guest.guest_time_absent), 1)
                for labels, guest in guests
                if guest.guest_time_absent
            ],
        ),
        *_plain(
            "kvm_guest_thread_cpu_seconds_total",
            "CPU time of the guest's threads that are no vCPU, in seconds, by role: emulator, iothread, vhost, kvm, "
            "worker (with the threads that have ended).",
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
            "Exits of the vCPU to KVM; absent where kernel or libvirt have no binary statistics.",
            [
                (_with(labels, "vcpu", vcpu), exits)
                for labels, domain in domains
                for vcpu, exits in domain.exits.items()
            ],
        ),
        *_plain(
            "kvm_guest_halt_poll_seconds_total",
            "CPU time that KVM polled for the guest's idle vCPUs to wake up, in seconds, by result: success, fail.",
            [
                (_with(labels, "result", result), seconds)
                for labels, domain in domains
                for result, seconds in domain.halt_poll_seconds.items()
            ],
        ),
        *_plain(
            "kvm_guest_state",
            "1 if the guest is in this state as libvirt knows it, else 0.",
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
