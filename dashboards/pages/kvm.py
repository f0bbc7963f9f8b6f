"""KVM: the cost of each guest beyond its own computing, its quotas and devices; only for KVM hosts."""

from dataclasses import replace

from grafana_foundation_sdk.builders import timeseries

from dashboards import marks, palette, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import kvm

# Pixels for "pmsuspended", "iscsidirect", "qemu/999999999" and "request_start_balance".
_STATE_WIDTH, _STORAGE_TYPE_WIDTH, _PVE_ID_WIDTH, _HA_STATE_WIDTH = 100, 95, 120, 170


def _costs() -> timeseries.Panel:
    """Guest time of all chosen guests is at the bottom, so it can be read from zero; overhead is above it."""
    first, *others = [replace(signal, query=f"sum({signal.expr})") for signal in kvm.COSTS]
    return (
        panels.stacked(first, *others)
        .title("CPU used for guests")
        .description(
            "CPU used for the chosen guests: what they compute (guest time, at the bottom), what KVM and QEMU use on "
            "their vCPUs for exits, and QEMU's, vhost's and KVM's other threads."
        )
        .override_by_query("A", panels.coloured(palette.GUESTS))
    )


PAGE = page(
    uid="virtscope-kvm",
    title="KVM",
    question="What does each guest of this host cost beside what it computes?",
    answer=(
        "Guest time, and what KVM, QEMU and vhost use around it; vCPUs, quotas and devices. What all platforms "
        "have is on the page Host."
    ),
    variables=variables.of_platform("kvm", "Guest", "kvm_guest_info", "guest"),
    annotations=[marks.changes()],
    rows=[
        Row(
            "",
            *panels.tiles(kvm.GUESTS, kvm.OVERHEAD_OF_ALL, kvm.OVERHEAD_OF_NONE, kvm.EXITS_OF_ALL),
            _costs().span(12).height(10),
            panels.half(kvm.OVERHEAD).title("Overhead by guest"),
            tables.columns(
                "Cost by guest",
                "CPU used by each guest, the busiest first: guest time, overhead, its ratio to guest time, and its "
                "parts: vCPUs in KVM (polling included) and in QEMU, other threads. A dash: not known "
                "(docs/kvm-exporter.md).",
                {"guest": "Guest"},
                kvm.OF_EACH,
                height=10,
            ),
            panels.half(kvm.EXITS).title("Exits by guest"),
            panels.half(kvm.HALT_POLLING),
        ),
        Row(
            "Guests",
            tables.columns(
                "Guests",
                "ID: Proxmox's VMID or libvirt's domain ID. Memory: resident on the host, after ballooning, and as "
                "configured at the start. A dash: not known.",
                {"guest": "Guest", "title": "Title", "tags": "Tags", "pool": "Pool", "manager": "Manager"}
                | {"accelerator": "Accelerator", "id": "ID", "uuid": "UUID"},
                kvm.INFO,
                height=9,
            ),
            tables.columns(
                "States",
                "The state of each guest chosen as libvirt knows it.",
                {"guest": "Guest", "state": "State"},
                [kvm.STATE],
                width=12,
            ).override_by_name("State", tables.as_wide(_STATE_WIDTH)),
            tables.columns(
                "Guest time not known",
                "Guests of which guest time is not known, and why: they are emulated (tcg), or this kernel "
                "can't tell it (kernel). Overhead can't be separated from what they compute.",
                {"guest": "Guest", "reason": "Reason"},
                [kvm.NO_GUEST_TIME],
                width=12,
            ),
        ),
        Row(
            "vCPUs and quotas",
            *map(panels.half, (kvm.VCPU_RAN, kvm.VCPU_WAITED, kvm.THROTTLED)),
            panels.lines(kvm.THROTTLED_PERIODS).span(12).height(10),
            collapsed=True,
        ),
        Row(
            "Devices",
            tables.columns(
                "Network devices",
                "Each tap device: packets to the guest (in) and from it (out), per second. Dropped: the guest "
                "didn't fetch them in time, or nothing on the host took them, such as a bridge.",
                {"guest": "Guest", "device": "Device"},
                kvm.INTERFACES,
            ),
            tables.columns(
                "Block devices",
                "Requests of each block device per second, and how long one takes on average, as QEMU sees it.",
                {"guest": "Guest", "device": "Device"},
                kvm.BLOCK_DEVICES,
            ),
            tables.columns(
                "Disks of the host",
                "The host's devices that guests without libvirt use, by their cgroups; of LVM and other stacks the "
                "uppermost. What is missing, as Ceph and NFS: docs/proxmox.md.",
                {"guest": "Guest", "device": "Device"},
                kvm.DISKS,
            ),
            collapsed=True,
        ),
        Row(
            "Proxmox VE",
            tables.columns(
                "Storages",
                "Space of each storage of this node, by prometheus-pve-exporter.",
                {"storage": "Storage", "plugintype": "Type"},
                kvm.STORAGES,
            ).override_by_name("Type", tables.as_wide(_STORAGE_TYPE_WIDTH)),
            tables.columns(
                "HA states",
                "The state of each guest and container that Proxmox's HA manages, by prometheus-pve-exporter.",
                {"name": "Guest", "id": "ID", "state": "State"},
                [kvm.HA_STATE],
                width=12,
            )
            .override_by_name("ID", tables.as_wide(_PVE_ID_WIDTH))
            .override_by_name("State", tables.as_wide(_HA_STATE_WIDTH)),
            tables.columns(
                "Without a backup job",
                "Guests and containers that no backup job covers, by prometheus-pve-exporter.",
                {"name": "Guest", "id": "ID"},
                [kvm.NOT_BACKED_UP],
                width=12,
            ).override_by_name("ID", tables.as_wide(_PVE_ID_WIDTH)),
            collapsed=True,
        ),
    ],
)
