"""The Xen host under test: the emulated machine's guests and exporter, and operations on them."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.support import Prometheus
from tests.support.waiting import wait_for
from tests.xen.machine import EXPORTER_PORT, Machine, Setup

GUESTS_BOOT_SECONDS = 400  # about 20 on a quiet machine
GREATEST_WEIGHT = 65535
SCRAPE_SECONDS = 30  # until the next scrape is stored: 5 s, and one may fail on a busy machine


@dataclass(frozen=True)
class Guest:
    """A guest to create, with the arguments of dom0/scripts/create-guest; `duty` is in percent of each vCPU."""

    number: int
    name: str
    duty: int = 0
    vcpus: int = 1
    io: int = 0
    net: int = 0
    type: str = "pv"
    memory: int = 96  # MiB; the kernel and its initramfs need 80


@dataclass(frozen=True)
class HostPlan:
    """A host to start: its name in test ids, the machine, and the initial guests."""

    name: str
    setup: Setup
    guests: tuple[Guest, ...]


GUESTS = (
    Guest(1, "web01", duty=40, io=8, net=1),
    Guest(2, "db01", duty=15, io=8, net=1),
    Guest(3, 'app "Grün" \\ 1', duty=5, vcpus=2, net=1),
)
# Xen's defaults, with the scheduler credit2.
CREDIT2 = HostPlan("credit2", Setup("qemu64", cpus=1, xen="dom0_mem=640M,max:640M"), GUESTS)
# Without max: Dom0's memory has no limit.
CREDIT = HostPlan(
    "credit",
    Setup("qemu64,+npt", cpus=2, xen="sched=credit dom0_mem=640M dom0_max_vcpus=1 dom0_vcpus_pin"),
    (Guest(1, "busy", duty=60, io=8, net=1), Guest(2, "pvh", duty=5, net=1, type="pvh")),
)


class XenHost:
    """A machine with guests and the exporter.

    Attributes:
        plan: its machine and guests.
        exporter: the exporter's address, host:port, on this machine.
        target: its entry in Prometheus's targets file.
    """

    def __init__(self, plan: HostPlan, machine: Machine) -> None:
        self.plan = plan
        self.machine = machine
        self.exporter = machine.exporter
        self.target: dict[str, Any] = {"targets": [self.exporter], "labels": {"host": "xen-lab", "platform": "xen"}}

    def dom0(self, command: str, timeout: float = 60) -> str:
        """Run a shell command in Dom0 that must succeed; return its output."""
        return self.machine.check(command, timeout)

    def start_exporter(self, tar: bytes) -> None:
        """Unpack the tar file made by package.exporter_as_tar and start the exporter; returns once it answers."""
        self.machine.install(tar)
        self.machine.start_exporter("xen", EXPORTER_PORT)

    def set_clock(self) -> None:
        """Set the clock of Dom0, which stopped when the snapshot was taken."""
        self.dom0(f"date -s @{time.time():.3f}")

    def prefer_dom0(self) -> None:
        """Give Dom0 the maximum weight, so that it waits for no guest, even on a slow machine."""
        scheduler = self.dom0("xl info xen_scheduler").strip()
        self.dom0(f"xl sched-{scheduler} -d 0 -w {GREATEST_WEIGHT}")

    def wait_for_guests(self, domids: Iterable[str]) -> None:
        """Return once each of these guests has booted, that is, has sent its first packet."""
        for domid in domids:
            sent = f"cat /sys/class/net/vif{domid}.0/statistics/rx_packets"
            wait_for(lambda: int(self.dom0(sent)), GUESTS_BOOT_SECONDS, every=1, explain=lambda: f"domain {domid}")  # noqa: B023

    def create(self, guest: Guest) -> str:
        """Create a guest, paused; return its domain id."""
        what = [guest.number, guest.name, guest.duty, guest.vcpus, guest.io, guest.net, guest.type, guest.memory]
        self.dom0(f"create-guest {shlex.join(map(str, what))}", timeout=300)
        return self.dom0(f"xl domid {shlex.quote(guest.name)}").strip()

    def domids(self) -> list[str]:
        """The ids of all guests, oldest first."""
        return sorted(self.dom0("xenstore-list /local/domain").split(), key=int)[1:]

    @contextlib.contextmanager
    def paused(self, *domids: str) -> Iterator[None]:
        """Pause these guests, or all if none is named, within the block."""
        chosen = domids or self.domids()
        self.dom0("".join(f"xl pause {domid}; " for domid in chosen))
        try:
            yield
        finally:
            self.dom0("".join(f"xl unpause {domid}; " for domid in chosen))


def wait_for_scrape(prometheus: Prometheus) -> None:
    """Return once Prometheus has stored a successful scrape that began after this call."""
    now = time.time()
    prometheus.wait_for(f'up{{job="xentop"}} == 1 and timestamp(up{{job="xentop"}}) > {now}', SCRAPE_SECONDS)
