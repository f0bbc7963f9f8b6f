"""KVM: what only a KVM host has: what each guest costs beside what it computes, and its quotas and devices."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, palette, panels
from dashboards.layout import Row, page
from dashboards.signals import Signal, highest, kvm
from dashboards.variables import Platform

_TALL = 10  # ten names in the legend of half a page's width: four lines of it


def make() -> dashboard.Dashboard:
    """The dashboard of one KVM host's guests, beyond what all platforms have."""
    return page(
        uid="virtscope-kvm",
        title="KVM",
        question="What does each guest of this host cost beside what it computes?",
        answer=(
            "Guest time, and what KVM, QEMU and vhost use around it; vCPUs, quotas and devices. What all platforms "
            "have is on the page Host."
        ),
        platform=Platform("kvm", "Guest", "kvm_guest_info", "guest"),
        annotations=[marks.changes()],
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (kvm.GUESTS, kvm.OVERHEAD_OF_ALL, kvm.OVERHEAD_OF_NONE, kvm.EXITS_OF_ALL)
                    ),
                    _costs().span(12).height(9),
                    _half(kvm.OVERHEAD_RATIO).height(9),
                    _of_each(),
                ],
            ),
            Row(
                "Overhead and exits",
                [
                    _half(kvm.OVERHEAD).title("Overhead by guest"),
                    _half(kvm.EXITS).title("Exits by guest"),
                    _half(kvm.HALT_POLL_BY_RESULT),
                    panels.over_time(kvm.POLL_FAILED).span(12).height(_TALL),
                ],
            ),
            Row("Guests", [_guests(), _memory(), _states(), _no_guest_time()]),
            Row(
                "vCPUs and quotas",
                [
                    _half(kvm.VCPU_RAN),
                    _half(kvm.VCPU_WAITED),
                    _half(kvm.THROTTLED),
                    _half(kvm.THROTTLED_PERIODS),
                ],
                collapsed=True,
            ),
            Row(
                "Network",
                [
                    _half(kvm.PACKETS_RECEIVED),
                    _half(kvm.PACKETS_SENT),
                    _rare(kvm.DROPS_RECEIVED),
                    _rare(kvm.DROPS_SENT),
                    _rare(kvm.ERRORS_RECEIVED),
                    _rare(kvm.ERRORS_SENT),
                ],
                collapsed=True,
            ),
            Row(
                "Block devices",
                [
                    _half(kvm.READS),
                    _half(kvm.READ_TIME),
                    _half(kvm.WRITES),
                    _half(kvm.WRITE_TIME),
                    _half(kvm.FLUSHES),
                    _half(kvm.FLUSH_TIME),
                ],
                collapsed=True,
            ),
        ],
    )


def _half(signal: Signal) -> timeseries.Panel:
    return panels.lines(highest(signal)).span(12).height(_TALL)


def _rare(signal: Signal) -> timeseries.Panel:
    """What is 0 as long as all is well, on a scale that does not run to 100 then."""
    return _half(signal).axis_soft_max(1)


def _costs() -> timeseries.Panel:
    """What all chosen guests compute at the bottom, so that its thickness is read from zero, and the rest above."""
    first, *others = [replace(signal, query=f"sum({signal.expr})") for signal in kvm.COSTS]
    panel = (
        panels.stacked(first)
        .title("CPU used for guests")
        .description(
            "CPU used for the chosen guests: what they compute (guest time, at the bottom), what KVM and QEMU use on "
            "their vCPUs for exits, and QEMU's, vhost's and KVM's other threads."
        )
        .override_by_query("A", panels.coloured(palette.GUESTS))
    )
    for number, signal in enumerate(others, start=1):
        panel.with_target(panels.query(signal, number).range())
    return panel


def _of_each() -> table.Panel:
    return (
        panels.columns(
            "Cost by guest",
            "CPU used for each guest chosen, those that compute most first: guest time, overhead in all, and where it "
            "goes: its vCPUs in KVM (polling is a part of that) and in QEMU, QEMU's and the kernel's other threads. A "
            "dash: not known (docs/kvm-exporter.md).",
            {"guest": "Guest"},
            kvm.OF_EACH,
        )
        .span(24)
        .height(10)
    )


def _guests() -> table.Panel:
    return (
        panels.columns(
            "Guests",
            "Every guest chosen. ID: Proxmox's VMID or libvirt's domain ID. A dash: nobody says.",
            {
                "guest": "Guest",
                "title": "Title",
                "manager": "Manager",
                "accelerator": "Accelerator",
                "id": "ID",
                "uuid": "UUID",
            },
            kvm.INFO,
        )
        .span(24)
        .height(9)
    )


def _memory() -> table.Panel:
    return (
        panels.columns(
            "Memory",
            "Memory of the host that each guest chosen holds, what it has now, and what QEMU was started to give it.",
            {"guest": "Guest"},
            [kvm.RESIDENT, kvm.BALLOON, kvm.GIVEN],
        )
        .span(24)
        .height(7)
    )


def _states() -> table.Panel:
    return (
        panels.columns(
            "States",
            "The state of each guest chosen as libvirt knows it.",
            {"guest": "Guest", "state": "State"},
            [kvm.STATE],
        )
        .span(12)
        .height(7)
    )


def _no_guest_time() -> table.Panel:
    return (
        panels.columns(
            "Guest time not known",
            "Guests of which guest time is not known, and why: overhead can't be separated from what they compute.",
            {"guest": "Guest", "reason": "Reason"},
            [kvm.NO_GUEST_TIME],
        )
        .span(12)
        .height(7)
    )
