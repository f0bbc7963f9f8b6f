"""The Xen host under test: the emulated machine's guests and exporter, and operations on them."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.programs import ProgramsError, debian, releases
from tests.support import Prometheus
from tests.support.emulated import EmulatedMachine, MachineError, Monitor
from tests.support.needs import missing, need
from tests.support.waiting import wait_for
from tests.xen.image import Image

EXPORTER_PORT = 10290
SECOND_EXPORTER_PORT = 10291
SSH_PORT = 22
SAVE_SECONDS = 300
GUESTS_BOOT_SECONDS = 400  # about 20 on a quiet machine
GREATEST_WEIGHT = 65535
SCRAPE_SECONDS = 30  # until the next scrape is stored: 5 s, and one may fail on a busy machine


@dataclass(frozen=True)
class Setup:
    """The emulated hardware, and Xen's options.

    cpu: QEMU's model. With models richer than qemu64, Dom0 or programs in it crash; PVH guests need its feature npt.
    cpus: with two, each flushes the other's translations, which slows down emulation; less so if Dom0 is pinned to one.
    xen: the hypervisor's command line.
    """

    cpu: str
    cpus: int
    xen: str


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


class XenHost(EmulatedMachine):
    """A host, booted without guests or resumed from a file written by save(); commands run in its Dom0.

    Attributes:
        exporter: address on this machine that reaches port 10290 of Dom0, e.g. "127.0.0.1:40123".
        second_exporter: the same for port 10291.
        ssh: the same for port 22, on which Dom0 listens if a test starts sshd.
        target: the exporter's entry in Prometheus's targets file.
    """

    dom0 = EmulatedMachine.run

    def __init__(self, plan: HostPlan, image: Image, workdir: Path, saved: Path | None = None) -> None:
        self.plan = plan
        setup = plan.setup
        self._monitor = workdir / "qmp"
        hardware: list[str | Path] = [
            *("-accel", "tcg,tb-size=256", "-cpu", setup.cpu, "-smp", str(setup.cpus), "-m", "1536"),
            *("-kernel", image.hypervisor, "-append", f"console=com1 com1=115200,8n1 {setup.xen}"),
            *("-initrd", f"{image.kernel} console=hvc0 quiet,{image.initramfs}"),
            *("-qmp", f"unix:{self._monitor},server=on,wait=off"),
        ]
        if saved:
            hardware += ["-incoming", f"exec:zstd --quiet --decompress --stdout {saved}"]
        super().__init__("Dom0", workdir, [EXPORTER_PORT, SECOND_EXPORTER_PORT, SSH_PORT], hardware)
        self.exporter = self.forwarded[EXPORTER_PORT]
        self.second_exporter = self.forwarded[SECOND_EXPORTER_PORT]
        self.ssh = self.forwarded[SSH_PORT]
        self.target: dict[str, Any] = {"targets": [self.exporter], "labels": {"host": "xen-lab", "platform": "xen"}}

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

    def save(self, state: Path) -> None:
        """Stop the machine and write its state to the file `state`. Raises MachineError."""
        with Monitor(self._monitor) as monitor:
            # In one pass, with the machine stopped: downtime doesn't matter.
            downtime = 1000 * SAVE_SECONDS
            monitor.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 34, "downtime-limit": downtime})
            monitor.ask("migrate", uri=f"exec:zstd --quiet --fast=3 -o {state}")
            ended = ("completed", "failed", "cancelled")
            status = wait_for(
                lambda: monitor.ask("query-migrate"), SAVE_SECONDS, until=lambda status: status.get("status") in ended
            )
        if status["status"] != "completed":
            raise MachineError(f"QEMU can't save the machine: {status}")


def need_emulation() -> None:
    """Skip where this machine can't emulate a Xen host."""
    try:
        debian.system()  # the build needs its packages
        architecture = releases.architecture()
    except ProgramsError as error:
        missing(str(error))
    if architecture != "amd64":
        missing("the emulated Xen host is made of amd64 programs, some of which are run to build it")
    need(qemu_system_x86="qemu-system-x86_64", cpio="cpio", zstd="zstd")


def wait_for_scrape(prometheus: Prometheus) -> None:
    """Return once Prometheus has stored a successful scrape that began after this call."""
    now = time.time()
    prometheus.wait_for(f'up{{job="xentop"}} == 1 and timestamp(up{{job="xentop"}}) > {now}', SCRAPE_SECONDS)
