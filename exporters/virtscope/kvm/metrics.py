"""The metrics of a KVM host: the table from the model's values to families.

By hand: `ps -L -p PID -o comm,times`, `cat /proc/PID/task/*/schedstat`, `systemd-cgls`, `virsh domstats GUEST`,
`ip -s link show vnet0` (RX there is transmit here).

All series of a guest have `guest` and `pid`: its name, and the process, to distinguish a restarted guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Callable, NamedTuple, TypeVar

from prometheus_client import Metric

from virtscope.kvm.model import Block, Domain, Guest, Host, Network, Requests, Total, Traffic, owners
from virtscope.toolkit.families import Definition, Info, Labels, Table, page, parts, table

STATES = ("running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")

T = TypeVar("T")


class _Labelled(NamedTuple):
    """A host's guests with their labels, which all their series share."""

    host: Host
    guests: list[tuple[Labels, Guest]]
    domains: list[tuple[Labels, Domain]]  # of libvirt's guests


def families(host: Host) -> list[Metric]:
    """Return the families of a host."""
    guests = list(zip(_labels(host.guests), host.guests))
    return page(_TABLES, _Labelled(host, guests, [(labels, guest.domain) for labels, guest in guests if guest.domain]))


def _labels(guests: Sequence[Guest]) -> list[Labels]:
    """Return each guest's labels.

    If guests share a name, the one confirmed by its manager keeps it. The others get an id appended: VMID, libvirt's
    domain id, or otherwise pid. If that isn't unique either, they get the pid.
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
    return [{"guest": shown[guest.pid], "pid": str(guest.pid)} for guest in guests]


def _of_guests(
    label: str, parts_of: Callable[[Guest], Iterable[tuple[str, T]]]
) -> Callable[[_Labelled], list[tuple[Labels, T]]]:
    """Return a function that yields all guests' parts, each with the guest's labels and an additional one."""
    return lambda labelled: parts(labelled.guests, label, parts_of)


def _of_domains(
    label: str, parts_of: Callable[[Domain], Iterable[tuple[str, T]]]
) -> Callable[[_Labelled], list[tuple[Labels, T]]]:
    """Return the same for libvirt's values."""
    return lambda labelled: parts(labelled.domains, label, parts_of)


def _facts(guest: Guest) -> Labels:
    return {
        "uuid": guest.uuid,
        "id": guest.id,
        "title": guest.domain.title if guest.domain else "",
        "manager": guest.manager,
        "accelerator": guest.accelerator,
    }


def _alone_in_a_cgroup(labelled: _Labelled) -> list[tuple[Labels, Guest]]:
    counts = Counter(guest.cgroup for guest in labelled.host.guests)
    return [(labels, guest) for labels, guest in labelled.guests if guest.cgroup and counts[guest.cgroup] == 1]


def _of_all(name: str, what: str, value: Callable[[Total], float | None]) -> Definition[Total]:
    text = f"{what} since the exporter's start; excludes what ended guests did after their last scrape."
    return Definition(f"kvm_host_guests_{name}_total", text, value)


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


def _requests(kind: str, of: Callable[[Block], Requests]) -> Iterator[Definition[Block]]:
    name = f"kvm_guest_block_{kind}"
    yield Definition(
        f"{name}_requests_total", f"{kind.capitalize()} requests of the guest.", lambda block: of(block).requests
    )
    if kind != "flush":
        yield Definition(f"{name}_bytes_total", f"Bytes of the guest's {kind} requests.", lambda block: of(block).bytes)
    yield Definition(
        f"{name}_seconds_total",
        f"Duration of the guest's {kind} requests, in seconds summed over requests.",
        lambda block: of(block).seconds,
    )


_TABLES: tuple[Table[_Labelled], ...] = (
    table(
        lambda labelled: [({}, labelled.host)],
        Definition("kvm_host_cpus", "Online CPUs of the host.", lambda host: host.cpus),
        Definition(
            "kvm_host_cpu_seconds_total",
            "CPU time used on the host, in seconds, guests included.",
            lambda host: host.cpu_seconds,
        ),
        Definition(
            "kvm_host_guest_seconds_total",
            "Guest time of all guests of the host, ended ones included, in seconds; absent if the kernel doesn't count "
            "it.",
            lambda host: host.guest_seconds,
        ),
        Definition("kvm_host_guests", "Running guests.", lambda host: len(host.guests)),
    ),
    table(
        lambda labelled: [({}, labelled.host.total)] if labelled.host.total else [],
        Definition(
            "kvm_host_guests_cpu_seconds_total",
            "CPU time used for guests since the exporter's start, in seconds; of ended guests after their last scrape, "
            "it includes guest time only.",
            lambda total: total.cpu_seconds,
        ),
        _of_all(
            "wait_seconds",
            "Seconds for which vCPUs were runnable without a CPU (CPU ready)",
            lambda total: total.wait_seconds,
        ),
        _of_all("network_receive_bytes", "Bytes received by guests", lambda total: total.received_bytes),
        _of_all("network_transmit_bytes", "Bytes sent by guests", lambda total: total.sent_bytes),
        _of_all("block_read_bytes", "Bytes of guests' read requests", lambda total: total.read_bytes),
        _of_all("block_write_bytes", "Bytes of guests' write requests", lambda total: total.written_bytes),
    ),
    table(
        lambda labelled: labelled.guests,
        Info(
            "kvm_guest",
            "UUID, id (Proxmox's VMID or libvirt's domain id), title, manager (libvirt, proxmox, or the program) and "
            "accelerator (kvm, tcg) of the guest; empty if unknown.",
            _facts,
        ),
    ),
    table(
        _alone_in_a_cgroup,
        Info(
            "kvm_guest_cgroup",
            "Path of the guest's cgroup, as other exporters show it; absent if it shares one with others.",
            lambda guest: {"cgroup": guest.cgroup},
        ),
    ),
    table(
        lambda labelled: labelled.guests,
        Definition(
            "kvm_guest_start_time_seconds",
            "Start of the guest's process, as Unix time in seconds.",
            lambda guest: guest.start_time,
        ),
        Definition(
            "kvm_guest_vcpus",
            "vCPUs of the guest; if threads have no names, the configured number or that of the threads with guest "
            "time.",
            lambda guest: guest.vcpu_count,
        ),
        Definition(
            "kvm_guest_cpu_seconds_total",
            "CPU time used for the guest, in seconds: its process, with threads that have ended, and kernel threads "
            "that serve it alone.",
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
    ),
    table(
        _of_guests("reason", lambda guest: [(guest.guest_time_absent, 1)] if guest.guest_time_absent else []),
        Definition(
            "kvm_guest_time_absent",
            "1 if the guest has no guest time, by reason: tcg (emulated processor), kernel (not counted), or "
            "accelerator not known (no guest time yet).",
        ),
    ),
    table(
        _of_guests("role", lambda guest: guest.role_seconds.items()),
        Definition(
            "kvm_guest_thread_cpu_seconds_total",
            "CPU time of the guest's threads other than vCPUs, in seconds, by role: emulator, iothread, vhost, kvm, "
            "worker (with ended threads).",
        ),
    ),
    table(
        _of_guests("vcpu", lambda guest: [(vcpu.name, vcpu) for vcpu in guest.vcpus]),
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
    ),
    table(
        _of_guests("vcpu", lambda guest: [(vcpu.name, vcpu) for vcpu in guest.vcpus if not guest.guest_time_absent]),
        Definition(
            "kvm_vcpu_guest_seconds_total",
            "CPU time in which the guest's own code ran on the vCPU (guest time), in seconds; absent if the kernel "
            "doesn't count it.",
            lambda vcpu: vcpu.guest_seconds,
        ),
    ),
    table(
        _of_guests("part", lambda guest: [(each.part, each) for each in guest.throttling]),
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
    ),
    table(
        _of_guests("device", lambda guest: [(each.device, each) for each in guest.networks]),
        *_way("receive", lambda net: net.receive),
        *_way("transmit", lambda net: net.transmit),
    ),
    table(
        lambda labelled: labelled.domains,
        Definition(
            "kvm_guest_memory_balloon_bytes",
            "Current guest memory after ballooning, in bytes; libvirt only.",
            lambda domain: domain.balloon_bytes,
        ),
    ),
    table(
        _of_domains("device", lambda domain: [(block.device, block) for block in domain.blocks]),
        *_requests("read", lambda block: block.read),
        *_requests("write", lambda block: block.write),
        *_requests("flush", lambda block: block.flush),
    ),
    table(
        _of_domains("vcpu", lambda domain: domain.exits.items()),
        Definition(
            "kvm_vcpu_exits_total", "VM exits of the vCPU; absent if kernel or libvirt have no binary statistics."
        ),
    ),
    table(
        _of_domains("result", lambda domain: domain.halt_poll_seconds.items()),
        Definition(
            "kvm_guest_halt_poll_seconds_total",
            "CPU time of halt polling for the guest's idle vCPUs, in seconds, by result: success, fail.",
        ),
    ),
    table(
        _of_domains("state", lambda domain: [(state, domain.state == state) for state in STATES if domain.state]),
        Definition("kvm_guest_state", "1 if the guest is in this state according to libvirt, else 0."),
    ),
)
