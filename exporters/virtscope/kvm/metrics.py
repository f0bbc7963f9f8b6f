"""The metrics of a KVM host: families from the model's values.

By hand: `ps -L -p PID -o comm,times`, `cat /proc/PID/task/*/schedstat`, `systemd-cgls`, `virsh domstats GUEST`,
`ip -s link show vnet0` (RX there is transmit here).

All series of a guest have `guest` and `pid`: its name, and the process, to distinguish a restarted guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import Metric

from virtscope.kvm.model import Block, Domain, Guest, Host, Network, Total, owners
from virtscope.toolkit.families import Labels, family, info, parts, scalar

STATES = ("running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")

Guests = list[tuple[Labels, Guest]]
Domains = list[tuple[Labels, Domain]]


def families(host: Host) -> list[Metric]:
    """Return the families of a host."""
    guests = list(zip(_labels(host.guests), host.guests))
    domains = [(labels, guest.domain) for labels, guest in guests if guest.domain]  # of libvirt's guests
    return [
        *_host(host),
        *(_totals(host.total) if host.total else []),
        *_guests(guests),
        *_threads(guests),
        *_throttling(guests),
        *_disks(parts(guests, "device", lambda guest: [(each.device, each) for each in guest.disks])),
        *_networks(parts(guests, "device", lambda guest: [(each.device, each) for each in guest.networks])),
        *_domains(domains),
    ]


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


def _host(host: Host) -> Iterator[Metric]:
    yield scalar("kvm_host_cpus", "Online CPUs of the host.", host.cpus)
    yield scalar(
        "kvm_host_cpu_seconds_total", "CPU time used on the host, in seconds, guests included.", host.cpu_seconds
    )
    yield scalar(
        "kvm_host_guest_seconds_total",
        "Guest time of all guests of the host, ended ones included, in seconds; absent if the kernel doesn't count it.",
        host.guest_seconds,
    )
    yield scalar("kvm_host_guests", "Running guests.", len(host.guests))


def _totals(total: Total) -> Iterator[Metric]:
    yield scalar(
        "kvm_host_guests_cpu_seconds_total",
        "CPU time used for guests since the exporter's start, in seconds; of ended guests after their last scrape, "
        "it includes guest time only.",
        total.cpu_seconds,
    )
    for name, what, value in (
        ("wait_seconds", "Seconds for which vCPUs were runnable without a CPU (CPU ready)", total.wait_seconds),
        ("network_receive_bytes", "Bytes received by guests", total.received_bytes),
        ("network_transmit_bytes", "Bytes sent by guests", total.sent_bytes),
        ("block_read_bytes", "Bytes of guests' read requests (without libvirt, of their cgroups)", total.read_bytes),
        (
            "block_write_bytes",
            "Bytes of guests' write requests (without libvirt, of their cgroups)",
            total.written_bytes,
        ),
    ):
        yield scalar(
            f"kvm_host_guests_{name}_total",
            f"{what} since the exporter's start; excludes what ended guests did after their last scrape.",
            value,
        )


def _guests(guests: Guests) -> Iterator[Metric]:
    yield info(
        "kvm_guest_info",
        "UUID, id (Proxmox's VMID or libvirt's domain id), title, tags and pool (Proxmox's), manager (libvirt, "
        "proxmox, or the program) and accelerator (kvm, tcg) of the guest; empty if unknown.",
        [{**labels, **_facts(guest)} for labels, guest in guests],
    )
    sharing = Counter(guest.cgroup for _, guest in guests)
    yield info(
        "kvm_guest_cgroup_info",
        "Path of the guest's cgroup, as other exporters show it; absent if it shares one with others.",
        [{**labels, "cgroup": guest.cgroup} for labels, guest in guests if guest.cgroup and sharing[guest.cgroup] == 1],
    )
    yield family(
        "kvm_guest_start_time_seconds",
        "Start of the guest's process, as Unix time in seconds.",
        [(labels, guest.start_time) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_vcpus",
        "vCPUs of the guest; if threads have no names, the configured number or that of the threads with guest time.",
        [(labels, guest.vcpu_count) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_cpu_seconds_total",
        "CPU time used for the guest, in seconds: its process, with threads that have ended, and kernel threads that "
        "serve it alone.",
        [(labels, guest.cpu_seconds) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_guest_seconds_total",
        "CPU time in which the guest's own code ran (guest time), in seconds; kvm_guest_time_absent has the reason if "
        "it is absent.",
        [(labels, guest.guest_seconds) for labels, guest in guests if not guest.guest_time_absent],
    )
    yield family(
        "kvm_guest_memory_resident_bytes",
        "Resident memory of the guest's process on the host, in bytes, huge pages included.",
        [(labels, guest.memory_resident_bytes) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_memory_limit_bytes",
        "Configured memory of the guest (-m), in bytes.",
        [(labels, guest.memory_limit_bytes) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_cpu_limit_cpus",
        "Effective CPU limit of the guest, in CPUs: the lowest quota of its cgroup, the cgroups above, and the sum of "
        "its vCPUs' quotas; absent if unlimited.",
        [(labels, guest.limits.cpus) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_cpu_weight",
        "CPU weight of the guest's cgroup: cpu.weight, or cpu.shares with cgroups v1; absent if it shares a cgroup "
        "with others.",
        [(labels, guest.limits.weight) for labels, guest in guests],
    )
    yield family(
        "kvm_guest_time_absent",
        "1 if the guest has no guest time, by reason: tcg (emulated processor), kernel (not counted), or accelerator "
        "not known (no guest time yet).",
        [({**labels, "reason": guest.guest_time_absent}, 1) for labels, guest in guests if guest.guest_time_absent],
    )


def _facts(guest: Guest) -> Labels:
    domain = guest.domain or Domain()
    return {
        "uuid": guest.uuid,
        "id": guest.id,
        "title": domain.title,
        "tags": domain.tags,
        "pool": domain.pool,
        "manager": guest.manager,
        "accelerator": guest.accelerator,
    }


def _threads(guests: Guests) -> Iterator[Metric]:
    yield family(
        "kvm_guest_thread_cpu_seconds_total",
        "CPU time of the guest's threads other than vCPUs, in seconds, by role: emulator, iothread, vhost, kvm, worker "
        "(with ended threads).",
        parts(guests, "role", lambda guest: guest.role_seconds.items()),
    )
    vcpus = parts(guests, "vcpu", lambda guest: [(vcpu.name, (guest, vcpu)) for vcpu in guest.vcpus])
    yield family(
        "kvm_vcpu_run_seconds_total",
        "Time that the vCPU's thread ran on a CPU, in seconds: guest code, and KVM and QEMU for it.",
        [(labels, vcpu.run_seconds) for labels, (_, vcpu) in vcpus],
    )
    yield family(
        "kvm_vcpu_wait_seconds_total",
        "Time that the vCPU's thread was runnable without a CPU (CPU ready), in seconds, throttled time included.",
        [(labels, vcpu.wait_seconds) for labels, (_, vcpu) in vcpus],
    )
    yield family(
        "kvm_vcpu_system_seconds_total",
        "CPU time of the vCPU's thread in the kernel, in seconds: VM exits, and halt polling.",
        [(labels, vcpu.system_seconds) for labels, (_, vcpu) in vcpus],
    )
    yield family(
        "kvm_vcpu_guest_seconds_total",
        "CPU time in which the guest's own code ran on the vCPU (guest time), in seconds; absent if the kernel doesn't "
        "count it.",
        [(labels, vcpu.guest_seconds) for labels, (guest, vcpu) in vcpus if not guest.guest_time_absent],
    )


def _throttling(guests: Guests) -> Iterator[Metric]:
    throttled = parts(guests, "part", lambda guest: [(each.part, each) for each in guest.throttling])
    yield family(
        "kvm_guest_throttled_seconds_total",
        "Time that a quota throttled the guest, in seconds summed over CPUs, by part: all (the guest's quota), or vcpu "
        "(its vCPUs' quotas).",
        [(labels, each.throttled_seconds) for labels, each in throttled],
    )
    yield family(
        "kvm_guest_periods_total",
        "Quota periods in which this part of the guest was active.",
        [(labels, each.periods) for labels, each in throttled],
    )
    yield family(
        "kvm_guest_throttled_periods_total",
        "Quota periods in which this part of the guest was throttled.",
        [(labels, each.throttled_periods) for labels, each in throttled],
    )


def _networks(networks: list[tuple[Labels, Network]]) -> Iterator[Metric]:
    for direction, verb, drops in (
        ("receive", "received", "Received packets dropped because the guest's queue was full."),
        ("transmit", "sent", "Sent packets dropped by the host's tap, such as when the bridge did not take them."),
    ):
        ways = [(labels, getattr(network, direction)) for labels, network in networks]
        for field, text in (
            ("bytes", f"Bytes {verb} by the guest."),
            ("packets", f"Packets {verb} by the guest."),
            ("errors", f"Errors of the host's interface for packets {verb} by the guest."),
            ("drops", drops),
        ):
            name = f"kvm_guest_network_{direction}_{field}_total"
            yield family(name, text, [(labels, getattr(way, field)) for labels, way in ways])


def _disks(disks: list[tuple[Labels, Block]]) -> Iterator[Metric]:
    for kind, field, what in (
        ("read", "requests", "Read requests to"),
        ("read", "bytes", "Bytes read from"),
        ("write", "requests", "Write requests to"),
        ("write", "bytes", "Bytes written to"),
    ):
        yield family(
            f"kvm_guest_disk_{kind}_{field}_total",
            f"{what} this device of the host by the guest's cgroup (io.stat), of stacked devices the uppermost; absent "
            "for libvirt's guests.",
            [(labels, getattr(getattr(disk, kind), field)) for labels, disk in disks],
        )


def _domains(domains: Domains) -> Iterator[Metric]:
    yield family(
        "kvm_guest_memory_balloon_bytes",
        "Current guest memory after ballooning, in bytes; libvirt only.",
        [(labels, domain.balloon_bytes) for labels, domain in domains],
    )
    yield from _blocks(parts(domains, "device", lambda domain: [(each.device, each) for each in domain.blocks]))
    yield family(
        "kvm_vcpu_exits_total",
        "VM exits of the vCPU; absent if kernel or libvirt have no binary statistics.",
        parts(domains, "vcpu", lambda domain: domain.exits.items()),
    )
    yield family(
        "kvm_guest_halt_poll_seconds_total",
        "CPU time of halt polling for the guest's idle vCPUs, in seconds, by result: success, fail.",
        parts(domains, "result", lambda domain: domain.halt_poll_seconds.items()),
    )
    yield family(
        "kvm_guest_state",
        "1 if the guest is in this state according to libvirt, else 0.",
        [
            ({**labels, "state": state}, domain.state == state)
            for labels, domain in domains
            if domain.state
            for state in STATES
        ],
    )


def _blocks(blocks: list[tuple[Labels, Block]]) -> Iterator[Metric]:
    for kind in ("read", "write", "flush"):
        name = f"kvm_guest_block_{kind}"
        requests = [(labels, getattr(block, kind)) for labels, block in blocks]
        yield family(
            f"{name}_requests_total",
            f"{kind.capitalize()} requests of the guest.",
            [(labels, each.requests) for labels, each in requests],
        )
        if kind != "flush":
            yield family(
                f"{name}_bytes_total",
                f"Bytes of the guest's {kind} requests.",
                [(labels, each.bytes) for labels, each in requests],
            )
        yield family(
            f"{name}_seconds_total",
            f"Duration of the guest's {kind} requests, in seconds summed over requests.",
            [(labels, each.seconds) for labels, each in requests],
        )
